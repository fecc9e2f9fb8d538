"""As much of run.py as needs no GPU, with PyTorch's CUDA wheel on the fake libraries: every training runs under dlhook,
products equal the shapes that torch.profiler notes at the operators, and a kept run is compared again. What a GPU must
say (cuDNN's log, copies) is not here; this proves nothing about real libraries."""

import contextlib
import io
import os
import sys
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (HERE, os.path.join(HERE, "..", "frameworks", "torch_cuda")):
    sys.path.insert(0, folder)
import check_golden  # pylint: disable=wrong-import-position
import fake_gpu  # pylint: disable=wrong-import-position
import run  # pylint: disable=wrong-import-position

SMALL = ["--steps", "2", "--batch", "2"]


def quiet(function, *arguments):
    """(result, what it printed)"""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = function(*arguments)
    return result, printed.getvalue()


class OnFakes(fake_gpu.Case):
    def trained(self, name):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        training = run.Training(fake_gpu.PYTHON, [*run.TRAININGS[name], *SMALL], folder)
        training.record()
        training.witness("--cpu-only")
        return training

    def test_products_are_alike(self):
        for name in run.TRAININGS:
            with self.subTest(name):
                training = self.trained(name)
                alike, printed = quiet(run.compare, name, {"products": training.products})
                self.assertTrue(alike, printed)

    def test_a_witness_that_saw_nothing_is_no_proof(self):
        training = self.trained("alexnet")
        alike, printed = quiet(run.compare, "alexnet", {"copies": training.copies})
        self.assertFalse(alike)
        self.assertIn("the witness saw none", printed)

    def test_a_kept_run_is_compared_again(self):
        training = self.trained("alexnet")
        with mock.patch.object(run, "GOLDEN", os.path.join(self.folder, "golden")):
            quiet(run.keep, "alexnet", training.run)
            expected = check_golden.expected_files("alexnet")
            self.assertEqual(len(expected), len(run.GOLDEN_TABLES))
            with mock.patch.object(sys, "argv", ["check_golden.py"]):
                self.assertEqual(quiet(check_golden.main), (0, ""))
                with open(expected[0], "a", encoding="utf-8") as file:
                    file.write("more\n")
                self.assertEqual(quiet(check_golden.main), (1, f"differs: {os.path.basename(expected[0])}\n"))

    def test_fakes_are_no_gpu(self):
        with mock.patch.object(os.path, "exists", lambda path: False):
            self.assertIn("no NVIDIA GPU", run.why_not(fake_gpu.PYTHON))


if __name__ == "__main__":
    unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=fake_gpu.e2e.SkipReporter))
