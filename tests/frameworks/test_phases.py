#!/usr/bin/env python3
"""Steps and phases of PyTorch programs on the unmodified wheel. The witness is the program itself, which reports at the
end of each step its kind, batch size, and backward passes before the update (programs/training_loops.py)."""

import json
import os
import re
import shutil

import frameworks
from frameworks import e2e, program

TRAINING_PHASES = ["input", "forward", "backward", "update", "other"]


def main_process(rows):
    """Rows of the process with most steps: a loader's workers have none."""
    by_process = {}
    for row in rows:
        by_process.setdefault(row["process"], []).append(row)
    return max(by_process.values(), key=len, default=[])


class Phases(frameworks.Case):
    def record(self, loop, **environment):
        """The run, and the program's own description of its steps."""
        path = os.path.join(self.folder, "steps.json")
        run = self.recorded("launcher", program("training_loops", loop, path), OMP_NUM_THREADS=1, **environment)
        with open(path, encoding="utf-8") as file:
            return run, json.load(file)

    def check(self, loop, **environment):
        """Checks each step against the program's own description; returns the run and its steps."""
        run, told = self.record(loop, **environment)
        steps = main_process(run.table("steps"))
        seen = [[step["kind"], step["batch"], step["micro_steps"]] for step in steps]
        self.assertEqual(seen, told)
        return run, steps

    def check_accounting(self, run, steps, kind):
        """Shares of the phases and of the activities add up to the steady steps, to the nanosecond."""
        steady = [step for step in steps if not step["left_out"] and step["kind"] == kind]
        whole = sum(step["duration"] for step in steady)
        accounting = [row for row in run.table("accounting") if row["step"] == kind]
        self.assertEqual(sum(row["wall_share"] for row in accounting), whole)
        phases = [row for row in run.table("phases") if row["step"] == kind and row["phase"] != "warm-up"]
        self.assertEqual(sum(row["total_time"] for row in phases), whole)
        self.assertEqual({row["steps"] for row in phases}, {len(steady)})
        return accounting, phases

    def check_accounting_of_windows(self, run, steps):
        """Means are taken over the steps in which scopes were recorded: some, and not all."""
        (forward,) = [row for row in run.table("phases") if row["phase"] == "forward"]
        steady = [step for step in steps if step["phase"] == "steady"]
        self.assertGreater(forward["steps"], 0)
        self.assertLess(forward["steps"], len(steady))

    def test_plain(self):
        run, steps = self.check("plain")
        accounting, phases = self.check_accounting(run, steps, "training")
        self.assertEqual([row["phase"] for row in phases], TRAINING_PHASES)
        calls = {row["phase"]: row["calls"] for row in phases}
        self.assertEqual(calls["input"], 0)
        self.assertGreater(calls["backward"], calls["forward"])
        self.assertEqual(calls["forward"] + calls["backward"], steps[-2]["calls"])
        self.assertLessEqual({"library", "framework", "not seen", "data loading"}, {row["activity"] for row in accounting})
        # The convolution's gradient is computed in the backward phase alone.
        backward = [row for row in accounting if row["what"] == "aten::convolution_backward"]
        self.assertTrue(all(row["forward"] is None for row in backward))
        self.assertEqual(run.table("latency"), [])

    def test_batches_of_another_size_are_told_apart(self):
        _, steps = self.check("plain")
        self.assertEqual({step["batch"] for step in steps if step["phase"] == "steady"}, {8})
        # The last step of each epoch; a first epoch may be warm-up as a whole.
        self.assertEqual({step["batch"] for step in steps if step["phase"] == "other"}, {4})

    def test_data_loader_with_workers(self):
        run, steps = self.check("workers")
        self.check_accounting(run, steps, "training")

    def test_gradient_accumulation(self):
        run, steps = self.check("accumulation")
        self.check_accounting(run, steps, "training")

    def test_validation_in_between(self):
        run, steps = self.check("validation")
        self.check_accounting(run, steps, "training")
        self.assertFalse([step for step in steps if step["kind"] == "validation" and step["phase"] == "steady"])

    def test_validation_that_computes_gradients_for_nothing(self):
        self.check("validation_without_no_grad")

    def test_two_optimizers_take_turns(self):
        run, _ = self.check("two_optimizers")
        self.assertEqual({row["phase"] for row in run.table("phases")} - {"warm-up"}, set(TRAINING_PHASES))

    def test_two_models_one_after_the_other(self):
        self.check("two_models")

    def test_checkpointing(self):
        run, steps = self.check("checkpointing")
        _, phases = self.check_accounting(run, steps, "training")
        calls = {row["phase"]: row["calls"] for row in phases}
        self.assertGreater(calls["backward"], 2 * calls["forward"])  # the forward pass again, and the gradients

    def test_compiled_regions(self):
        if not shutil.which("g++"):
            self.skipTest("torch.compile needs a C++ compiler")
        run, told = self.record("compiled")
        steps = main_process(run.table("steps"))
        seen = [[step["kind"], step["batch"], step["micro_steps"]] for step in steps]
        # Before or in the first step the compiler runs the network, perhaps its gradients too, on tensors without data,
        # unless its cache has the result: at most one more step, never a steady one.
        steady = len(told) - 1
        self.assertEqual(seen[-steady:], told[1:])
        first = steps[:-steady]
        self.assertIn(len(first), (1, 2))
        self.assertEqual((first[-1]["kind"], first[-1]["phase"]), ("training", "warm-up"))
        self.assertNotIn("steady", {step["phase"] for step in first})
        self.check_accounting(run, steps, "training")

    def test_update_without_an_optimizer(self):
        self.check("manual_update")

    def test_serving(self):
        run, steps = self.check("serving")
        steady = [step for step in steps if step["phase"] == "steady"]
        rows = {row["batch"]: row for row in run.table("latency")}
        for batch in ("2", "4", "8"):
            durations = sorted(step["duration"] for step in steady if str(step["batch"]) == batch)
            self.assertEqual(rows[batch]["requests"], len(durations))
            self.assertEqual(rows[batch]["max"], durations[-1])
            self.assertLessEqual(rows[batch]["p50"], rows[batch]["p99"])
        self.assertEqual(rows["all"]["requests"], len(steady))
        # Pauses between requests belong to no step.
        for before, after in zip(steps, steps[1:]):
            self.assertLess(before["start"] + before["duration"], after["start"])

    def test_generation(self):
        """Time to the first token and of a sequence, by the program's own clock; prompts are no much longer steps."""
        _, told = self.record("generation")
        answer = " ".join(e2e.run([e2e.DLHOOK, "report", self.run_path]).out.decode().split())
        found = re.search(r"prompt takes (\S+) (\S+) \(time to the first token\).* 12 tokens take (\S+) (\S+):", answer)
        self.assertTrue(found, answer)
        self.assertNotIn("longer", answer)
        units = {"us": 1e3, "ms": 1e6, "s": 1e9}
        for seen, column in ((found.group(1, 2), 2), (found.group(3, 4), 3)):
            # Of sequences 1 to 7 of 8; the first may be warm-up.
            times = sorted(row[column] for row in told)
            self.assertGreater(float(seen[0]) * units[seen[1]], 0.7 * times[0])
            self.assertLess(float(seen[0]) * units[seen[1]], 1.1 * times[-1])

    def test_serving_in_threads(self):
        run, _ = self.record("serving_in_threads")
        steps = run.table("steps")
        by_thread = {}
        for step in steps:
            by_thread.setdefault(step["thread"], []).append((step["kind"], step["batch"]))
        self.assertEqual(len(by_thread), 2)
        for requests in by_thread.values():
            self.assertEqual(requests, [("inference", 4)] * 15)

    def test_light_scopes(self):
        """Updates are always recorded, ops only in some steps: all steps are found."""
        run, steps = self.check("many_epochs", DLHOOK_SCOPES="light")
        self.check_accounting_of_windows(run, steps)

    def test_budget(self):
        """The same in windows whose distance the run itself decides; the answer says how many steps that were."""
        run, steps = self.check("many_epochs", DLHOOK_BUDGET="0.01%")
        self.check_accounting_of_windows(run, steps)
        answer = e2e.run([e2e.DLHOOK, "report", self.run_path]).out.decode()
        self.assertRegex(" ".join(answer.split()), rf"Operations were recorded in \d+ of {len(steps)} steps")

    def test_steps_between_windows_end_with_their_update(self):
        """Also where gradients are zeroed behind it."""
        run, told = self.record("zeroes_last", DLHOOK_BUDGET="0.01%")
        steps = main_process(run.table("steps"))
        self.assertEqual([step["kind"] for step in steps], [kind for kind, _, _ in told])
        self.check_accounting_of_windows(run, steps)

    def test_bounded(self):
        """A bounded trace has the time of every step, and no half steps where two optimizers take turns."""
        for loop, limit in (("many_epochs", 300000), ("two_optimizers", 160000)):
            with self.subTest(loop=loop):
                self.fresh_run()
                run, told = self.record(loop, DLHOOK_MAX_BYTES=limit)
                steps = main_process(run.table("steps"))
                self.assertEqual([step["kind"] for step in steps], [kind for kind, _, _ in told])
                known = [[step["batch"], step["micro_steps"]] for step in steps if step["batch"] is not None]
                self.assertEqual(known[:4], [step[1:] for step in told[:4]])
                self.assertLess(len(known), len(steps))
                self.check_accounting_of_windows(run, steps)
                calls = sum(row["calls"] for row in run.table("ops") if row["calls"] is not None)
                answer = e2e.run([e2e.DLHOOK, "report", self.run_path]).out.decode()
                self.assertRegex(" ".join(answer.split()), rf"Operations were recorded in \d+ of {len(steps)} steps")
                self.fresh_run()
                whole, _ = self.record(loop, DLHOOK_MAX_BYTES=0)
                self.assertEqual(sum(row["calls"] for row in whole.table("ops") if row["calls"] is not None), calls)

    def test_slow_steps_of_a_bounded_trace(self):
        """One that is slow where nothing is kept has its operations, and is no sample of the others."""
        run, told = self.record("slow_steps", DLHOOK_MAX_BYTES=250000)
        steps = main_process(run.table("steps"))
        self.assertEqual([step["kind"] for step in steps], [kind for kind, _, _ in told])
        first, second = steps[900], steps[1100]
        self.assertTrue(all(step["duration"] > 2.9e9 and step["left_out"] == "much longer" for step in (first, second)))
        self.assertEqual(first["batch"], 16)
        (trace,) = [name for name in run.files() if name.endswith(".dlh")]
        self.assertLess(os.path.getsize(os.path.join(run.path, trace)), 250000)
        answer = " ".join(e2e.run([e2e.DLHOOK, "report", self.run_path]).out.decode().split())
        self.assertRegex(answer, r"Operations were recorded in \d+ of 1200 steps \(\d+ of them for being slow\)")

    def test_windows_of_serving(self):
        """Without optimizers windows go by time; no request lasts from one to another."""
        run, told = self.record("serving_on", DLHOOK_MAX_BYTES=250000)
        steps = main_process(run.table("steps"))
        self.assertEqual({(step["kind"], step["batch"]) for step in steps if step["batch"] is not None}, {("inference", 4)})
        self.assertLess(len(steps), len(told))
        starts = [step["start"] for step in steps]
        self.assertTrue([second for first, second in zip(starts, starts[1:]) if second - first > 0.3e9])  # a later window
        answer = " ".join(e2e.run([e2e.DLHOOK, "report", self.run_path]).out.decode().split())
        self.assertNotRegex(answer, r"Operations were recorded in|Between requests [0-9.]+ (s|min) passed")
        self.assertRegex(answer, r"They are from the [0-9.]+ s of [0-9.]+ s in which operations were recorded")

    def test_without_scopes(self):
        """The order of calls alone: kinds and batches, no updates."""
        run, told = self.record("plain", DLHOOK_SCOPES="off")
        steps = main_process(run.table("steps"))
        self.assertEqual([[step["kind"], step["batch"]] for step in steps], [step[:2] for step in told])
        self.assertEqual({row["phase"] for row in run.table("phases")} - {"warm-up", "other"}, {"forward", "backward"})


if __name__ == "__main__":
    e2e.main()
