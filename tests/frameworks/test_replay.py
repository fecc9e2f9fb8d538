"""dlhook replay: the problems of a training are those that its shapes say, oneDNN's own log names what is chosen, and nothing is left."""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time

import frameworks
import numpy
from frameworks import FIELDS, e2e, log_lines, program

STEPS = 6
CONVOLUTIONS = "convolution", "deconvolution"
PATIENCE = 60  # seconds until a test gives up waiting for what must come
CONV1 = "mb4_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1"
UP = "mb4_ic32oc8_ih15oh32kh3sh2dh0ph0_iw15ow32kw3sw2dw0pw0"
CONV2 = "mb4_ic16oc32_ih32oh15kh3sh2dh0ph0_iw32ow15kw3sw2dw0pw0"
# Of programs/replayed.py: the first convolution's input needs no gradient. Linear: batch 4, from 768 to 10, column-major.
PROBLEMS = {("convolution", "forward", CONV1), ("convolution", "backward-weights", CONV1), ("convolution", "forward", CONV2),
            ("convolution", "backward-data", CONV2), ("convolution", "backward-weights", CONV2),
            ("deconvolution", "forward", UP), ("deconvolution", "backward-data", UP), ("deconvolution", "backward-weights", UP),
            ("gemm", "unknown", "m10 n4 k768 TN f32"), ("gemm", "unknown", "m768 n4 k10 NN f32"),
            ("gemm", "unknown", "m768 n10 k4 NT f32")}


def rows(table):
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


def key(row):
    return row["kind"], row["direction"], row["problem"]


class Replay(frameworks.Case):
    shared = None

    def implementations(self, memory_format):
        """{(primitive, direction, problem): implementation} of its convolutions, by oneDNN's log without dlhook."""
        output = self.plain(program("replayed", memory_format, STEPS), ONEDNN_VERBOSE="1", OMP_NUM_THREADS="1").out
        found = {}
        for line in log_lines(output):
            named = dict(zip(FIELDS, line))
            if named["operation"] == "exec" and named["primitive"] in CONVOLUTIONS:
                direction = named["prop_kind"].replace("forward_training", "forward").replace("_", "-")
                found[named["primitive"], direction, named["problem"]] = named["implementation"]
        return found

    def record(self):
        """A run that only these tests read, in turn: it is recorded once."""
        if not Replay.shared:
            self.recorded("launcher", program("replayed", "channels_last", STEPS), OMP_NUM_THREADS="1")
            Replay.shared = tempfile.mkdtemp(prefix="dlhook-e2e-")
            self.addClassCleanup(shutil.rmtree, Replay.shared)
            shutil.move(self.run_path, os.path.join(Replay.shared, "run"))
        self.run_path = os.path.join(Replay.shared, "run")
        return self.run_path

    def test_problems_and_choices(self):
        self.record()
        tables, err = self.replayed("torch", CONVOLUTIONS, "--budget", "15s")
        self.assertIn(b"replay: starting ", err.splitlines()[0])
        for note in "another machine", "The run had":
            self.assertNotIn(note, " ".join(tables["replay"]["notes"]))
        everything = rows(tables["replay"])
        self.assertLessEqual({key(row) for row in everything if row["through"] == "onednn" and row["kind"] != "reorder"},
                             {problem for problem in PROBLEMS if problem[0] != "gemm"})
        replayed = [row for row in everything if row["kind"] != "reorder" and row["through"] == "torch"]
        self.assertEqual(len(replayed), len({key(row) for row in replayed}))
        self.assertEqual({key(row) for row in replayed} | self.not_measured(tables), PROBLEMS)
        chosen = self.implementations("channels_last")
        self.assertEqual({key(row): row["chosen"] for row in replayed if row["kind"] in CONVOLUTIONS},
                         {problem: chosen[problem] for problem in chosen.keys() - self.not_measured(tables)})
        self.assertNotIn(": alone ", " ".join(tables["replay"]["notes"]))
        variants = [row for row in rows(tables["variants"])
                    if row["variant"] == "contiguous" and row["kind"] in CONVOLUTIONS and row["implementation"]]
        contiguous = self.implementations("contiguous")
        self.assertEqual({key(row): row["implementation"] for row in variants}, {key(row): contiguous[key(row)] for row in variants})
        self.check_kept(replayed, rows(tables["candidates"]) if "candidates" in tables else [])
        reasons = {(row["layers"], row["kind"]): row["not_replayed"] for row in rows(tables["not_replayed"])}
        self.assertEqual(reasons["lstm", "rnn"], "not replayed, because there is no replay of the op rnn")

    def check_kept(self, replayed, of_library):
        """The tables of the run have what was measured."""
        result = e2e.run([e2e.DLHOOK, "report", "--format", "json", "--table", "algorithms,candidates", self.run_path])
        algorithms, candidates = (rows(table) for table in json.loads(result.out)["tables"])
        alone = {(*key(row), row["chosen"]): (row["alone"], row["best_other"]) for row in replayed if row["kind"] in CONVOLUTIONS}
        self.assertTrue(alone)
        self.assertEqual({(*key(row), row["chosen"]): (row["alone"], row["best_other"]) for row in algorithms if row["alone"]}, alone)
        kept = [row for row in candidates if row["source"] == "replay"]
        self.assertLessEqual({(*key(row), row["candidate"], row["time"]) for row in of_library if row["time"]},
                             {(*key(row), row["candidate"].removesuffix(", changes numerics"), row["time"]) for row in kept})
        self.assertLessEqual(set(alone), {(*key(row), row["candidate"]) for row in kept if "op of torch" in row["notes"]})

    def replayed(self, through, kinds, *flags):
        """Tables of a replay, and what it writes. At least one problem of these kinds is measured, at the latest the second time."""
        for _ in range(2):
            result = e2e.run([e2e.DLHOOK, "replay", "--format", "json", "--top", "100", *flags, self.run_path])
            self.assertEqual(result.code, 0, result.err)
            tables = {table["name"]: table for table in json.loads(result.out)["tables"]}
            measured = [row for row in rows(tables["replay"]) if row["through"] == through and row["kind"] in kinds]
            if measured or not self.not_measured(tables):
                break
        self.assertTrue(measured, tables)
        return tables, result.err

    @staticmethod
    def not_measured(tables):
        """Of a framework, for lack of time or because of other programs beside it: a test does not depend on which these are."""
        table = tables.get("not_replayed", {"columns": [], "rows": []})
        others = [row for row in rows(table) if row["kind"] != "reorder" and row["through"] != "onednn"]
        return {key(row) for row in others if re.search("the processors|the budget was used up", row["not_replayed"])}

    def keras(self, backend):
        """Tables of a replay of programs/keras_cnn.py; {kind: directions} of what is replayed through this framework."""
        if not os.access(frameworks.TENSORFLOW_PYTHON, os.X_OK):
            self.skipTest(frameworks.MISSING)
        # jaxlib's profiler records windows: the training must be in one.
        argv = [frameworks.TENSORFLOW_PYTHON, *program("keras_cnn", 12, *([60] if backend == "jax" else []))[1:]]
        self.recorded("launcher", argv, KERAS_BACKEND=backend, TF_NUM_INTRAOP_THREADS="1", OMP_NUM_THREADS="1")
        tables, err = self.replayed(backend, CONVOLUTIONS, "--threads", "1", "--budget", "10s")
        self.assertIn(f"starting {os.path.dirname(frameworks.TENSORFLOW_PYTHON)}/python3, beside libraries".encode(), err)
        found = {}
        for row in rows(tables["replay"]):
            if row["through"] == backend:
                found.setdefault(row["kind"], set()).add(row["direction"])
        for kind, direction, _ in self.not_measured(tables):
            found.setdefault(kind, set()).add(direction)
        return tables, found

    def test_tensorflow(self):
        tables, found = self.keras("tensorflow")
        self.assertLessEqual({"forward", "backward-data", "backward-weights"}, found["convolution"])
        self.assertIn("forward", found["inner_product"])
        self.assertIn("gemm_api", found)
        alone = {row["chosen_alone"] == row["chosen"] for row in rows(tables["replay"])
                 if row["through"] == "tensorflow" and row["kind"] in CONVOLUTIONS and row["chosen_alone"]}
        self.assertNotIn(False, alone)

    def test_jax(self):
        tables, found = self.keras("jax")
        self.assertIn("forward", found["convolution"])
        self.assertIn("forward", found["matmul"])
        others = [row for row in rows(tables["not_replayed"])
                  if row["kind"] in ("convolution", "matmul") and key(row) not in self.not_measured(tables)]
        self.assertEqual(others, [])

    def test_implementations_are_what_they_are_called(self):
        """By oneDNN's own log: the problem, the formats of the run, and each implementation that is offered."""
        image = [[2, 16, 16, 16], "f32", "acdb"]
        tensors = {"src": image, "wei": [[16, 16, 3, 3], "f32", "Acdb16a"], "dst": image}
        window = {letter + axis: value for axis in "hw" for letter, value in zip("iokspd", (16, 16, 3, 1, 1, 0))}
        spec = {"op": "primitive", "kind": "convolution", "transposed": False, "bias": False, "mb": 2, "ic": 16, "oc": 16,
                "tensors": tensors, **window}
        specs = [{**spec, "direction": "forward"}]
        specs.append({"op": "primitive", "kind": "inner_product", "direction": "forward", "tensors": {
            "src": [[8, 64], "f32", "ab"], "wei": [[32, 64], "f32", "ba"], "bia": [[32], "f32", "a"], "dst": [[8, 32], "f32", "ab"]}})
        specs.append({"op": "primitive", "kind": "reorder", "direction": "", "tensors": {
            "src": [[2, 16, 8, 8], "f32", "abcd"], "dst": [[2, 16, 8, 8], "f32", "acdb"]}})
        specs.append({"op": "primitive", "kind": "gemm_api", "direction": "", "tensors": {
            "src": [[8, 64], "f32", "ab"], "wei": [[64, 32], "f32", "ba"], "dst": [[8, 32], "f32", "ab"]}})
        with open(os.path.join(frameworks.HERE, "../../analyzer/whatif/replay.py"), encoding="utf8") as file:
            text = file.read().replace("os.dup2(LOG.fileno(), 1)", "").replace("60_000_000", "1")

        def logged(requests):
            """Its answers, and [kind, implementation, problem] of each call in oneDNN's log."""
            lines = "\n".join(map(json.dumps, [specs, *requests])) + "\n"
            result = e2e.run([frameworks.DEBIAN_PYTHON, "-c", text, "onednn", "1000000"], stdin=lines.encode(),
                             env=e2e.clean_environment(ONEDNN_VERBOSE="1", OMP_NUM_THREADS="1"))
            self.assertEqual(result.code, 0, result.err)
            found = result.out.decode().splitlines()
            words = [line.split(",") for line in found if ",exec," in line]
            calls = [(line[line.index("exec") + 2], line[line.index("exec") + 3], line[-2], line[line.index("exec") + 5]) for line in words]
            return [json.loads(line) for line in found if line.startswith("{")][1:], list(dict.fromkeys(calls))

        answers, _ = logged([{"offers": number} for number in range(len(specs))])
        self.assertGreater(len(answers[0]["ways"]), 2)
        problems = ["mb2_ic16oc16_ih16oh16kh3sh1dh0ph1_iw16ow16kw3sw1dw0pw1", "mb8ic64oc32", "2x16x8x8", "8x64:64x32"]
        for number, (spec, answer, problem) in enumerate(zip(specs, answers, problems)):
            names, requests = [answer["chosen"], *(way[0] for way in answer["ways"])], [{}, *(way[1] for way in answer["ways"])]
            measured, calls = logged([{"problem": number, **request} for request in requests])
            self.assertTrue(all(result.get("ns", 0) > 0 for result in measured), measured)
            self.assertEqual([call[:2] for call in calls], [(spec["kind"].replace("gemm_api", "matmul"), name) for name in names])
            self.assertTrue(all(call[2].startswith(problem) for call in calls), calls)
            self.assertTrue(all(f":{tag}:" in calls[0][3] for _, _, tag in spec["tensors"].values()), calls)

    def test_another_number_of_processors(self):
        processors = sorted(os.sched_getaffinity(0))
        if len(processors) < 2:
            self.skipTest("one processor only")
        command = ["taskset", "-c", str(processors[0]), e2e.DLHOOK, "replay", "--format", "json", "--budget", "10s", "--top", "2"]
        result = e2e.run([*command, self.record()])
        self.assertEqual(result.code, 0, result.err)
        table = json.loads(result.out)["tables"][0]
        self.assertRegex(table["notes"][0], f"another machine: .*, {len(processors)} processors; here .*, 1;")
        self.assertEqual({(row["in_run"], row["share"], row["gain"]) for row in rows(table)}, {(None, None, None)})
        self.assertTrue(all(row["alone"] for row in rows(table)), rows(table))

    def test_another_number_of_threads(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one processor only")
        command = [e2e.DLHOOK, "replay", "--format", "json", "--budget", "6s", "--problem", CONV2, "--threads", "2"]
        result = e2e.run([*command, self.record()])
        table = json.loads(result.out)["tables"][0]
        self.assertIn("another number of threads: 1; here 2;", table["notes"][0])
        self.assertEqual({(row["in_run"], row["share"], row["gain"]) for row in rows(table)}, {(None, None, None)})

    def test_another_release(self):
        other = f"{self.folder}/python"
        with open(other, "w") as file:
            file.write(f"#!/bin/sh\nexec {program('replayed')[0]} $1 $2 \"import torch; torch.__version__ = '1.13.1+cpu'\n$3\" $4 $5\n")
        os.chmod(other, 0o700)
        result = e2e.run([e2e.DLHOOK, "replay", "--budget", "8s", "--problem", CONV2, "--python", other, self.record()])
        self.assertRegex(b" ".join(result.out.split()), rb"The run had torch 2\.\d+: .* Computed by [^;]*torch 1\.13\.1")

    def test_a_system_without_onednn(self):
        other = f"{self.folder}/python"
        with open(other, "w") as file:
            file.write(f"#!/bin/sh\nexec {program('replayed')[0]} $1 $2 \"$(echo \"$3\" | sed s/libdnnl/libnone/g)\" $4 $5\n")
        os.chmod(other, 0o700)
        result = e2e.run([e2e.DLHOOK, "replay", "--format", "json", "--budget", "10s", "--top", "1", "--problem", CONV2, "--python", other,
                          self.record()])
        self.assertEqual(result.code, 0, result.err)
        tables = {table["name"]: table for table in json.loads(result.out)["tables"]}
        self.assertIn("Other implementations of oneDNN were not tried: there is no libnone.so.3 on this machine.",
                      tables["replay"]["notes"])
        self.assertNotIn("candidates", tables)
        self.assertEqual({row["through"] for row in rows(tables["replay"])} | {"torch"}, {"torch"})

    def test_settings_that_a_parent_sets(self):
        argv = program("replayed", "contiguous", STEPS)
        parent = ("import os, subprocess, sys, numpy\n"
                  "numpy.ones((50, 50)) @ numpy.ones((50, 50))\n"
                  "os.environ['ONEDNN_MAX_CPU_ISA'] = 'SSE41'\n"
                  "sys.exit(subprocess.call(sys.argv[1:]))")
        self.recorded("launcher", [argv[0], "-c", parent, *argv], OMP_NUM_THREADS="1")
        result = e2e.run([e2e.DLHOOK, "replay", "--format", "json", "--budget", "8s", "--problem", CONV2, self.run_path])
        self.assertEqual(result.code, 0, result.err)
        tables = {table["name"]: table for table in json.loads(result.out)["tables"]}
        replayed = rows(tables["replay"])
        if ("convolution", "forward", CONV2) not in self.not_measured(tables):
            self.assertTrue(any("sse41" in row["chosen"] for row in replayed), replayed)
        self.assertNotIn(": alone ", " ".join(tables["replay"]["notes"]))

    def test_numpy(self):
        self.recorded("launcher", program("numpy_products", STEPS), OMP_NUM_THREADS="1")
        tables, _ = self.replayed("numpy", ("gemm", ), "--budget", "10s")
        self.assertIn("Computed by numpy ", " ".join(tables["replay"]["notes"]))
        found = {key(row) for row in rows(tables["replay"])} | self.not_measured(tables)
        products = {problem.removesuffix(" row-major") for kind, _, problem in found if kind == "gemm"}
        self.assertEqual(products - {"m20 n20 k20 NN f64"},  # of its import
                         {"m20 n40 k30 NN f32", "m21 n41 k31 NN f64", "m20 n25 k30 TN f64", "m9 n9 k5 NT f64"})
        reasons = {row["problem"]: row["not_replayed"] for row in rows(tables["not_replayed"])
                   if row["kind"] == "gemm" and key(row) not in self.not_measured(tables)}
        self.assertEqual(reasons, {"m3 n5 k4 NN c64 row-major": "not replayed, because of its types: c64"})

    def test_a_python_that_others_may_write(self):
        """It is not started, and neither is a module of the working folder imported."""
        packages, python = f"{self.folder}/env/lib/python3.11/site-packages", f"{self.folder}/env/bin/python3"
        for name in "numpy", "numpy.libs":
            shutil.copytree(os.path.join(os.path.dirname(os.path.dirname(numpy.__file__)), name), os.path.join(packages, name))
        os.mkdir(os.path.dirname(python))
        with open(python, "w") as file:
            file.write(f"#!/bin/sh\ntouch {self.folder}/started\n")
        with open(f"{self.folder}/tempfile.py", "w") as file:
            file.write("raise ValueError('of the working folder')\n")
        os.chmod(python, 0o777)
        self.recorded("launcher", program("numpy_products", STEPS), OMP_NUM_THREADS="1", PYTHONPATH=packages)
        command = [e2e.DLHOOK, "replay", "--format", "json", "--budget", "8s", "--top", "1", self.run_path]
        path = os.path.dirname(sys.executable) + ":" + os.environ["PATH"]
        env = e2e.clean_environment(PATH=path, PYTHONPATH=":" + os.path.dirname(os.path.dirname(numpy.__file__)))
        result = e2e.run(command, env=env, cwd=self.folder)
        self.assertIn(f"starting python3 of the PATH, not the run's {python}: others may write it".encode(), result.err)
        self.assertFalse(os.path.exists(f"{self.folder}/started"))
        self.assertIn(b"Computed by numpy ", result.out, result.err)

    def children(self):
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"REPLAY_MARK={self.folder}".encode() in file.read().split(b"\0"):
                        found.append(int(pid))
            except OSError:  # it has ended
                pass
        return found

    def test_nothing_is_left(self):
        argv = [e2e.DLHOOK, "replay", self.record()]
        for how in (signal.SIGKILL, signal.SIGTERM):
            process = e2e.start(argv, env=e2e.clean_environment(REPLAY_MARK=self.folder))
            end = time.monotonic() + PATIENCE
            while len(self.children()) < 3 and time.monotonic() < end:  # it, its worker, a Python
                time.sleep(0.05)
            self.assertGreaterEqual(len(self.children()), 3)
            process.send_signal(how)
            process.communicate()
            while self.children() and time.monotonic() < end:
                time.sleep(0.05)
            self.assertEqual(self.children(), [])

    def test_what_can_not_be_replayed(self):
        folder = self.record()
        for words, complaint in ((["--budget", "soon"], b"--budget expects a time"), (["--top", "0"], b"--top expects a number"),
                                 (["--threads", "100000"], b"this process may use "),
                                 (["--problem", "no such"], b"contains 'no such'")):
            result = e2e.run([e2e.DLHOOK, "replay", *words, folder])
            self.assertEqual(result.code, 2)
            self.assertIn(complaint, result.err)
        result = e2e.run([e2e.DLHOOK, "replay", "--python", "/none/python", "--problem", "ic3oc16", folder])
        self.assertEqual(result.code, 2)
        self.assertIn(b"nothing could be replayed", result.out)
        self.assertIn(b"/none/python: not a Python with torch: ", b" ".join(result.out.split()))


if __name__ == "__main__":
    e2e.main()
