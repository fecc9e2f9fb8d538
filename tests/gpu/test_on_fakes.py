"""run.py with PyTorch's CUDA wheel on the fake libraries: products, copies, times of kernels, events, graphs, and
comparing a kept run. try_on_fakes.py has the longer checks. Proves nothing about real libraries or their times: the
fakes' times come from their cost model."""

import contextlib
import io
import os
import shutil
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (HERE, os.path.join(HERE, "..", "frameworks", "torch_cuda")):
    sys.path.insert(0, folder)
import check_golden  # pylint: disable=wrong-import-position
import fake_gpu  # pylint: disable=wrong-import-position
import run  # pylint: disable=wrong-import-position

SMALL = ["--steps", "3"]


def quiet(function, *arguments):
    """(result, its output)"""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = function(*arguments)
    return result, printed.getvalue()


class Trained(fake_gpu.Case):
    trainings = {}  # made at first use: shared by several tests

    def trained(self, name):
        if name not in Trained.trainings:
            folder = tempfile.mkdtemp(prefix="dlhook-on-fakes-")
            training = run.Training(fake_gpu.PYTHON, [*SMALL, *run.TRAININGS[name], "--batch", "2"], folder)
            Trained.trainings[name] = training
            training.record()
            # Kineto leaves out what ends after its profile: without waits the fakes' time is ahead of the program's.
            training.witness(DLHOOK_FAKE_WAITS="1")
            for made, repeated in ("run", "times0"), ("profile.json", "times0.json"):
                os.symlink(made, os.path.join(folder, repeated))
        return Trained.trainings[name]

    @classmethod
    def tearDownClass(cls):
        while cls.trainings:
            shutil.rmtree(cls.trainings.popitem()[1].folder)

    def assert_alike(self, name, checks):
        alike, printed = quiet(run.compare, name, checks)
        self.assertTrue(alike, printed)


class OnFakes(Trained):
    def test_trainings_are_alike(self):
        for name in ("alexnet", "resnet18_tuned"):
            with self.subTest(name):
                training = self.trained(name)
                self.assert_alike(name, {"products": training.products, "copies": training.copies, "gpu copies":
                                         training.gpu_copies,
                                         "times of kernels": training.kernel_times})  # fmt: skip

    def test_replayed_kernels_are_alike(self):
        training = self.trained("alexnet_graph")
        self.assert_alike("alexnet_graph", run.checks_of(training))
        self.assertGreater(sum(row["replayed"] for row in training.run.table("kernels") if row["layer"]), 0)
        steps = [row["phase"] for row in training.run.table("steps") if row["kind"] == "training"]
        # A launch of the graph is a step like one of single launches. So is the capture.
        self.assertEqual(len(steps), 8 + 1)

    def test_events_are_alike(self):
        training = self.trained("alexnet")
        training.record(training.new_run("events"), DLHOOK_GPU="events")
        self.assert_alike("alexnet", {"events": training.event_times})

    def test_a_witness_that_saw_nothing_is_no_proof(self):
        training = self.trained("alexnet")
        with mock.patch.object(run, "events_of", lambda _: []):
            alike, printed = quiet(run.compare, "alexnet", {"copies": training.copies})
        self.assertFalse(alike)
        self.assertIn("the witness saw none", printed)

    def test_times_that_differ_are_told(self):
        training = self.trained("alexnet")
        with mock.patch.object(run, "KERNEL_TIME_PART", -0.01), mock.patch.object(run, "KERNEL_TIME_NS", 0):
            lines, _ = training.kernel_times()
        self.assertTrue(lines)

    def test_a_kept_run_is_compared_again(self):
        training = self.trained("alexnet")
        with mock.patch.object(run, "GOLDEN", os.path.join(self.folder, "golden")):
            quiet(run.keep, "alexnet", training.run)
            expected = check_golden.expected_files("alexnet")
            self.assertEqual(len(expected), len(run.GOLDEN_TABLES))
            # The pages show other kept runs.
            with mock.patch.object(sys, "argv", ["check_golden.py"]), mock.patch.object(check_golden, "changed_pages", lambda *_: []):
                self.assertEqual(quiet(check_golden.main), (0, ""))
                with open(expected[0], "a", encoding="utf-8") as file:
                    file.write("more\n")
                self.assertEqual(quiet(check_golden.main), (1, f"differs: {os.path.basename(expected[0])}\n"))

    def test_fakes_are_no_gpu(self):
        with mock.patch.object(os.path, "exists", lambda path: False):
            self.assertIn("no NVIDIA GPU", run.why_not(fake_gpu.PYTHON))


if __name__ == "__main__":
    unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=fake_gpu.e2e.SkipReporter))
