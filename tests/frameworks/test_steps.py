#!/usr/bin/env python3
"""Steps of several kinds in one program of PyTorch: evaluation between training steps, trainings after one another or
in threads, inference after other calls. The witness is the program itself (programs/step_kinds.py), which describes
each step."""

import glob
import json
import os
import shutil
import tempfile

import frameworks
from frameworks import e2e, program


LOOPS = ["evaluation_each_round", "evaluation_first_each_round", "evaluation_of_the_same_batch", "evaluation_after_accumulation",
         "evaluation_before_training", "evaluation_now_and_then", "teacher", "inference_after_one_call", "quantized", "sweep",
         "sweep_of_one_class", "training_in_threads", "serving_in_threads", "lbfgs", "busy_closure", "validates_nothing",
         "fit_curve", "fit_with_an_optimizer_for_each", "shared_module", "averaged_weights",
         "two_heads",
         "one_sample", "convolutions_of_one_sample", "distributed", "named_ranges"]


class Steps(frameworks.Case):
    runs = {}  # by loop: the record of its process, and the program's own description of its steps

    @classmethod
    def tearDownClass(cls):
        if cls.runs:  # empty if PyTorch is not installed
            shutil.rmtree(cls.runs.pop("folder"), ignore_errors=True)

    def record(self, loop):
        if not self.runs:
            self.runs["folder"] = tempfile.mkdtemp(prefix="dlhook-steps-")
            self.run_path = os.path.join(self.runs["folder"], "run")
            result = self.under("launcher", program("step_kinds", self.runs["folder"], *LOOPS), OMP_NUM_THREADS=1)
            self.assertEqual(result.code, 0, result.err.decode()[-2000:])
            for each in LOOPS:
                with open(os.path.join(self.runs["folder"], each + ".json"), encoding="utf-8") as file:
                    process, told = json.load(file)
                (trace,) = glob.glob(os.path.join(self.run_path, f"*-{process}.dlh"))
                self.runs[each] = e2e.Run(trace), told
        return self.runs[loop]

    def check(self, loop):
        """Checks each step against the program's own description; returns the run and its steps."""
        run, told = self.record(loop)
        steps = run.table("steps")
        self.assertEqual([[step["kind"], step["batch"], step["micro_steps"]] for step in steps], told)
        return run, steps

    def check_calls(self, run, calls):
        """Library calls in a mean step, {kind: number}."""
        seen = {}
        for row in run.table("phases"):
            if row["phase"] != "warm-up":
                seen[row["step"]] = seen.get(row["step"], 0) + row["calls"]
        self.assertEqual(seen, calls)

    def test_evaluation_in_each_round(self):
        """3 products forward, 5 backward: the first layer's input needs no gradient."""
        run, _ = self.check("evaluation_each_round")
        self.check_calls(run, {"training": 8, "validation": 3})

    def test_evaluation_first_in_each_round(self):
        self.check("evaluation_first_each_round")

    def test_evaluation_with_batches_of_the_same_size(self):
        self.check("evaluation_of_the_same_batch")

    def test_evaluation_after_gradient_accumulation(self):
        run, _ = self.check("evaluation_after_accumulation")
        self.check_calls(run, {"training": 24, "validation": 3})

    def test_evaluation_before_training(self):
        self.check("evaluation_before_training")

    def test_evaluation_now_and_then(self):
        self.check("evaluation_now_and_then")

    def test_a_teacher_belongs_to_the_step(self):
        run, steps = self.check("teacher")
        self.check_calls(run, {"training": 11, "validation": 3})
        self.assertEqual({step["model"] for step in steps}, {"Net"})

    def test_inference_after_another_network(self):
        run, told = self.record("inference_after_one_call")
        steps = run.table("steps")
        self.assertEqual([[step["kind"], step["batch"], None] for step in steps], [["inference", 1, None]] + told)
        self.assertEqual({step["model"] for step in steps[1:]}, {"Wide"})

    def test_a_module_of_two_networks(self):
        self.check("shared_module")

    def test_quantized_inference(self):
        """Its products are made by a library without hooks."""
        run, told = self.record("quantized")
        steps = run.table("steps")
        self.assertEqual([step["kind"] for step in steps], ["inference"] * (1 + len(told)))

    def test_trainings_after_one_another(self):
        """The steps of each are a separate kind; a layer's mean is over the steps in which its network runs."""
        for loop, networks in ("sweep", ["Net", "Wide", "Wider"]), ("sweep_of_one_class", ["Net", "Net #2", "Net #3"]):
            run, steps = self.check(loop)
            names = [f"training ({network})" for network in networks]
            self.assertEqual([step["step"] for step in steps], [name for name in names for _ in range(10)])
            self.check_calls(run, dict.fromkeys(names, 8))
            layers = [row for row in run.table("layers") if row["type"] == "linear"]
            self.assertEqual(sorted((row["step"], row["model"], row["calls"]) for row in layers),
                             sorted((name, network, calls) for name, network in zip(names, networks) for calls in (2, 3, 3)))

    def test_trainings_in_threads(self):
        """Both are in all tables, separately."""
        run, told = self.record("training_in_threads")
        by_thread = {}
        for step in run.table("steps"):
            by_thread.setdefault(step["thread"], []).append([step["kind"], step["batch"], step["micro_steps"]])
        self.assertEqual(sorted(by_thread.values()), sorted(told))
        self.check_calls(run, {"training (Net)": 8, "training (Wide)": 8})
        rows = run.table("layers")
        linear = [row for row in rows if row["type"] == "linear"]
        self.assertEqual(sorted((row["step"], row["model"], row["calls"]) for row in linear),
                         [(f"training ({network})", network, calls) for network in ("Net", "Wide") for calls in (2, 3, 3)])
        for name in {row["step"] for row in rows}:
            steady = [step for step in run.table("steps") if step["step"] == name and not step["left_out"]]
            self.assertEqual(sum(row["wall_share"] for row in rows if row["step"] == name), sum(step["duration"] for step in steady))
        notes = run.report("--table", "layers")["tables"][0]["notes"]
        self.assertEqual(len([note for note in notes if " of thread " in note]), 2, notes)

    def test_serving_in_threads(self):
        run, _ = self.record("serving_in_threads")
        rows = {(row["step"], row["model"]) for row in run.table("layers") if row["type"] == "linear"}
        self.assertEqual(rows, {("inference (Net)", "Net"), ("inference (Wide)", "Wide")})
        (note,) = run.report("--table", "latency")["tables"][0]["notes"]
        self.assertIn(" of 2 threads ", note)

    def test_closures_of_an_optimizer_are_one_step(self):
        run, _ = self.check("lbfgs")
        self.check_calls(run, {"training": 32})

    def test_averaged_weights_that_are_validated(self):
        self.check("averaged_weights")

    def test_two_heads_have_the_same_rows(self):
        run, _ = self.check("two_heads")
        self.assertEqual(run.report()["steps"]["samples_per_step"], 8)

    def test_plain_arithmetic(self):
        for loop in ("fit_curve", "fit_with_an_optimizer_for_each"):
            with self.subTest(loop):
                self.check(loop)

    def test_what_a_closure_does_is_not_the_optimizers(self):
        run, _ = self.check("busy_closure")
        self.check_calls(run, {"training": 11})
        calls = {row["layer"]: row["calls"] for row in run.table("layers")}
        self.assertFalse(calls["optimizer (AdamW)"], calls)
        self.assertIn("update", {row["phase"] for row in run.table("phases")})

    def test_a_pass_that_may_be_no_evaluation_is_none(self):
        self.check("validates_nothing")

    def test_one_sample(self):
        for loop in ("one_sample", "convolutions_of_one_sample"):
            run, _ = self.check(loop)
            self.assertEqual({row["batch"] for row in run.table("latency")}, {"1"})

    def test_the_buckets_of_distributed_training_are_no_step(self):
        self.check("distributed")

    def test_ranges_of_the_program_name_steps(self):
        run, _ = self.check("named_ranges")
        self.assertEqual({row["step"] for row in run.table("phases")}, {"training (train_step)", "validation (eval_step)"})


DENOISER = """import torch
def denoise(network):
    image = torch.randn(8, 64)
    for step in range(5):
        image = image - 0.1 * network(image)
    return image.clamp(0, 1)
"""


class Series(frameworks.Case):
    """Passes in an inner loop: the answer says how many a round, or a library's call, has."""

    def answer(self, kind):
        packages = os.path.join(self.folder, "site-packages")
        os.makedirs(packages, exist_ok=True)
        with open(os.path.join(packages, "denoiser.py"), "w", encoding="utf-8") as file:
            file.write(DENOISER)
        result = self.under("launcher", program("pass_series", kind), OMP_NUM_THREADS=1, PYTHONPATH=packages)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        return " ".join(e2e.run([e2e.DLHOOK, "report", self.run_path]).out.decode().split())

    def line(self, words):
        with open(program("pass_series")[1], encoding="utf-8") as file:
            return next(number for number, line in enumerate(file, 1) if words in line)

    def test_a_call_of_a_library(self):
        text = self.answer("library")
        self.assertIn("a request is one pass of the network: 5 of them, ", text)
        self.assertIn(f"for each time that denoiser.py:3 (called at pass_series.py:{self.line('# the call')}) runs", text)

    def test_a_loop_of_the_program(self):
        text = self.answer("loops")
        self.assertIn("a request is one pass of the network: 5 of them, ", text)
        self.assertIn(f"for each time that pass_series.py:{self.line('# the round')} runs", text)

    def test_one_loop(self):
        self.assertNotIn("Here a request", self.answer("flat"))


if __name__ == "__main__":
    e2e.main()
