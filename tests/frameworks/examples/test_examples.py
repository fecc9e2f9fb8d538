"""The commands in the READMEs of examples/ and in docs/tutorial/README.md, run as written there, and what their output
must contain. No times."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "torch_cuda"))
import fake_gpu  # pylint: disable=wrong-import-position
import frameworks  # pylint: disable=wrong-import-position
from frameworks import e2e  # pylint: disable=wrong-import-position

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
TENSORFLOW_PYTHON = os.environ.get("DLHOOK_TEST_TENSORFLOW_PYTHON", "")
ALEXNET = ["conv1", "conv2", "conv3", "conv4", "conv5", "fc1", "fc2", "fc3"]
# Words with which a README's command may begin; others (scripts/setup.sh, export …) prepare what the test already has.
RUNNABLE = ("dlhook ", "DLHOOK_", "build/venv/bin/python ", "OMP_NUM_THREADS=", "gcc ", "g++ ")


def commands(document):
    """The indented commands of a page, without their comments and with continued lines joined."""
    with open(os.path.join(ROOT, document), encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    lines = re.findall(r"^ {4,}(\S.*)$", text, re.MULTILINE)
    return [line.split("  #")[0].strip() for line in lines if line.startswith(RUNNABLE)]


class Example(frameworks.Case):
    """A folder that looks like the repository after scripts/setup.sh --frameworks and a release build."""

    def setUp(self):
        super().setUp()
        for target, link in ((os.path.join(ROOT, "examples"), "examples"), (os.path.join(ROOT, "docs"), "docs"),
                             (e2e.DLHOOK, "bin/dlhook"),
                             (venv_of(frameworks.PYTHON), "build/venv"),
                             (venv_of(TENSORFLOW_PYTHON), "build/venv-tensorflow")):
            os.makedirs(os.path.dirname(os.path.join(self.folder, link)), exist_ok=True)
            os.symlink(target, os.path.join(self.folder, link))

    def shell(self, command):
        path = os.path.join(self.folder, "bin") + ":" + os.environ["PATH"]
        build = os.path.join(self.folder, "build")
        environment = e2e.clean_environment(PATH=path, DLHOOK_VENV=os.path.join(build, "venv"),
                                            DLHOOK_TENSORFLOW_VENV=os.path.join(build, "venv-tensorflow"))
        result = e2e.run(["sh", "-ec", command], env=environment, cwd=self.folder, timeout=800)
        self.assertEqual(result.code, 0, f"{command}\n{result.out.decode()[-1000:]}\n{result.err.decode()[-2000:]}")
        return result.out.decode()

    def run_readme(self, example):
        return self.run_page(os.path.join("examples", example, "README.md"))

    def run_page(self, document):
        """{command: its output}, in the order of the page."""
        found = commands(document)
        self.assertTrue(found)
        return {command: self.shell(command) for command in found}

    def layers(self, run):
        return e2e.Run(os.path.join(self.folder, run)).table("layers")


def venv_of(python):
    return os.path.dirname(os.path.dirname(python))


class FirstProfile(Example):
    def test_readme(self):
        output = self.run_readme("01_first_profile")
        learned = [float(accuracy) for accuracy in re.findall(r"test accuracy ([\d.]+)", "".join(output.values()))]
        self.assertGreater(learned[-1], 0.85)
        rows = self.layers("lenet")
        modules = [row["layer"] for row in rows if row["type"] in ("convolution", "linear")]
        self.assertEqual(modules, ["features.0", "features.3", "classifier.0", "classifier.2", "classifier.4"])
        for row in rows:
            if row["layer"] in modules:
                self.assertGreater(row["forward"], 0, row)
                self.assertGreater(row["backward"], 0, row)
        self.assertAlmostEqual(sum(row["time_percent"] for row in rows), 100)


class WhoCalledThisGemm(Example):
    def calls(self, run, line):
        rows = e2e.Run(os.path.join(self.folder, run)).table("callers")
        return {(row["kind"], row["asked_by"]): row["calls"] for row in rows if row["line"] == line}

    def test_readme(self):
        output = self.run_readme("04_who_called_this_gemm")
        losses = [text for text in re.findall(r"loss ([\d.]+)", "".join(output.values()))]
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(list(self.calls("who", "whiten.py:29").values()), [20])
        self.assertEqual(list(self.calls("who", "whiten.py:31").values()), [20])
        self.assertEqual(list(self.calls("once", "whiten.py:31").values()), [1])
        self.assertEqual(self.calls("once", "whiten.py:22"), {("gemm", "at::native::structured_addmm_out_cpu"): 20})
        stacks = next(text for command, text in output.items() if "--table stacks" in command)
        self.assertIn("learn_whitening", stacks)


class FrameworkComparison(Example):
    def setUp(self):
        super().setUp()
        if not os.access(TENSORFLOW_PYTHON, os.X_OK):
            self.skipTest(frameworks.MISSING)

    def blocks(self, output):
        """{title: {row: [cell of each framework]}} in the output of compare.py."""
        blocks = {}
        for text in output.split("\n\n"):
            lines = [re.split(r"\s{2,}", line.strip()) for line in text.strip().split("\n")]
            if lines[0][1:] == ["PyTorch", "TensorFlow", "JAX"]:
                blocks[lines[0][0]] = {line[0]: line[1:] for line in lines[1:]}
        return blocks

    def test_readme(self):
        (output,) = (text for command, text in self.run_readme("02_framework_comparison").items()
                     if "compare.py" in command)
        blocks = self.blocks(output)
        has_no_step = "JAX: no whole step" in output  # on a busy machine no window of dlhook's holds one
        for title in ("forward, ms", "backward, ms", "GFLOP/s, both"):
            self.assertEqual(list(blocks[title]), ALEXNET)
            for layer, (torch, tensorflow, jax) in blocks[title].items():
                self.assertGreater(float(torch), 0, f"{title}: {layer} in PyTorch")
                self.assertGreater(float(tensorflow), 0, f"{title}: {layer} in TensorFlow")
                if title != "GFLOP/s, both" and not has_no_step:
                    self.assertGreater(float(jax), 0, f"{title}: {layer} in JAX")
        whole = blocks["whole step, ms"]
        self.assertEqual(whole["compiled region"][:2], ["-", "-"])
        for cell in whole["step"][:2] if has_no_step else whole["step"]:
            self.assertGreater(float(cell), 0)


class EnsembleInput(Example):
    BATCHES = 20
    MODELS = {"Preprocess", "PlainNet", "ResidualNet", "PatchNet"}

    def check(self, run, preparations):
        """Four networks; the layout conversions of each forward pass, in library calls per mean step."""
        calls = {(row["model"], row["layer"]): row["calls"] for row in self.layers(run) if row["model"]}
        self.assertEqual({model for model, _ in calls}, self.MODELS)
        (blurred,) = (row["calls"] for row in e2e.Run(os.path.join(self.folder, run)).table("ops")
                      if row["kind"] == "convolution" and row["problem"].startswith("g3"))
        self.assertEqual(blurred, preparations * self.BATCHES)
        return calls["Preprocess", "blur"] / calls["ResidualNet", "stem"]

    def test_readme(self):
        output = self.run_readme("03_ensemble_input")
        votes = {line for text in output.values() for line in text.split("\n") if line.startswith("votes:")}
        self.assertEqual(len(votes), 1, "sharing the input changed the votes")
        self.assertAlmostEqual(self.check("alone", 3) / self.check("shared", 1), 3)


class CountersOverTime(Example):
    def test_readme(self):
        if not os.access(TENSORFLOW_PYTHON, os.X_OK):
            self.skipTest(frameworks.MISSING)
        self.run_readme("05_counters_over_time")
        run = e2e.Run(os.path.join(self.folder, "fit"))
        steps = [row for row in run.table("counters_over_time") if row["kind"] == "training"]
        first, *others = [row["minor_faults"] for row in steps]
        self.assertEqual(len(others), 19)
        self.assertGreater(first, 3 * sorted(others)[9], "memory is touched first in the first step")


class IsMyGpuWaiting(Example):
    """On the fake libraries, as the page says."""

    def setUp(self):
        super().setUp()
        if not os.access(fake_gpu.PYTHON, os.X_OK):
            self.skipTest(fake_gpu.MISSING)
        fake_gpu.fake_site.lay(venv_of(fake_gpu.PYTHON), fake_gpu.FAKES)
        os.symlink(venv_of(fake_gpu.PYTHON), os.path.join(self.folder, "build/venv-cuda"))

    def overlap(self, run):
        """The part of the copy time during which a kernel also ran; and the memory that most bytes came from."""
        run = e2e.Run(os.path.join(self.folder, run))
        (row,) = [row for row in run.table("overlap") if (row["work"], row["beside"]) == ("copies", "compute")]
        return row["work_percent"], max(run.table("copies"), key=lambda row: row["bytes"])["memory"]

    def test_readme(self):
        self.run_readme("06_is_my_gpu_waiting")
        self.assertEqual(self.overlap("pageable"), (0, "pageable"))
        beside, memory = self.overlap("ahead")
        self.assertEqual(memory, "pinned")
        self.assertGreater(beside, 50)


class DirectIm2colOrWinograd(Example):
    """conv1: 3 x 3; conv2: 3 x 3 with stride 2; conv3: 1 x 1. Eight images, ten steps."""

    DIRECT = [2 * 8 * 64 * 28 * 28 * 32 * 9, 2 * 8 * 64 * 14 * 14 * 64 * 9, 2 * 8 * 128 * 14 * 14 * 64]

    def setUp(self):
        super().setUp()
        if not os.path.exists("/usr/include/dnnl.hpp"):
            self.skipTest("no libdnnl-dev")

    def convolutions(self, run):
        """{(direction, operations of a direct one): (calls, algorithm)}"""
        rows = e2e.Run(os.path.join(self.folder, run)).table("convolutions")
        return {(row["direction"], row["direct_flops"]): (row["calls"], row["algorithm"]) for row in rows}

    def test_readme(self):
        output = self.run_readme("07_direct_im2col_or_winograd")
        results = {text for command, text in output.items() if " -- ./network " in command}
        self.assertEqual(len(results), 1, "the ways compute the same")
        expected = {(direction, flops) for direction in ("forward", "backward-data", "backward-weights") for flops in self.DIRECT}
        direct = self.convolutions("direct")
        self.assertEqual(direct, {key: (10, "direct") for key in expected})
        # Without AVX-512 oneDNN has no Winograd.
        self.assertIn(self.convolutions("winograd")["forward", self.DIRECT[0]][1], ("Winograd F(4,3)", "Winograd F(2,3)", "direct"))
        self.assertEqual(self.convolutions("im2col"), {})
        products = e2e.Run(os.path.join(self.folder, "im2col")).table("gemm")
        # One a image and direction, each with an image's part of the operations.
        self.assertEqual(sum(row["calls"] * row["flops"] for row in products), 10 * 3 * sum(self.DIRECT))
        for run in ("direct", "im2col", "winograd"):
            self.assertLessEqual({"conv1", "conv2", "conv3"}, {row["layer"] for row in self.layers(run)})


class ATraceYouHave(Example):
    def test_readme(self):
        output = self.run_readme("08_a_trace_you_have")
        answer, layers, products = list(output.values())[:3]
        self.assertIn("A training step takes 742 ms, mean of 2 of 3", answer)
        self.assertIn("optimizer-per-tensor", answer)
        self.assertIn("Block_1.Conv2d_1", layers)
        # 2 x 32 x 4096 x 256: the first linear layer, forward and two gradients.
        self.assertEqual(len(re.findall(r"\b4096\b", products)), 3)
        self.assertRegex(list(output.values())[-1], r"optimizer-per-tensor .* gone|gone .* optimizer-per-tensor")


class Tutorial(Example):
    """docs/tutorial/README.md: round trips before the fix, none after it, and a diff that reports this. Whether it got
    faster can't be tested on a shared machine."""

    def activations(self, run):
        return [row for row in e2e.Run(os.path.join(self.folder, run)).table("layout") if row["tensor"] == "activations"]

    def test_page(self):
        output = self.run_page("docs/tutorial/README.md")
        before, after = self.activations("before"), self.activations("after")
        # Between two convolutions, forward: conv1 to conv2 and conv3 to conv4, each away and back; and their gradients.
        self.assertEqual(sum(row["round_trip_calls"] for row in before), 2 * 4 * 30)
        self.assertEqual(after, [])
        for row in self.layers("before"):
            if row["layer"] in ("conv1", "conv2", "conv3", "conv4"):
                self.assertGreater(row["layout"], 0, row)
        losses = re.findall(r"^loss ([\d.]+)$", "".join(output.values()), re.MULTILINE)
        self.assertEqual(len(losses), 2)
        self.assertAlmostEqual(float(losses[0]), float(losses[1]), delta=0.01)
        (told,) = (text for command, text in output.items() if command.startswith("dlhook diff before after --table"))
        self.assertRegex(" ".join(told.split()), r"NEW differs: .*\breorder 35 -> 15 a step")
        explained = [text for command, text in output.items() if "--explain" in command]
        self.assertEqual(len(explained), 2)
        self.assertTrue(all(explained))


if __name__ == "__main__":
    e2e.main()
