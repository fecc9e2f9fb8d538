"""The checks left out of test_on_fakes.py, for changes of run.py: a profiler in the middle, and a round with the bare
tracer. Not a test of the build (25 s of CPU). The environment is that of gpu.on_fakes.

    ctest --test-dir build/release -R gpu.on_fakes -V | grep DLHOOK_  # shows it
"""

import unittest

import overhead
import test_on_fakes
from test_on_fakes import SMALL, fake_gpu


class Longer(test_on_fakes.Trained):
    def test_a_profiler_in_the_middle(self):
        training = self.trained("alexnet")
        training.collect_calls()
        self.assert_alike("alexnet", {"middle": training.profiler_in_the_middle})

    def test_a_round_beside_the_bare_tracer(self):
        comparison = overhead.Comparison(fake_gpu.PYTHON, self.folder, ["alexnet", *SMALL, "--batch", "2"],
                                         first_steady_step=1)
        if comparison.problem:
            self.skipTest(comparison.problem)
        (ratio,) = comparison.ratios(1)
        self.assertGreater(ratio, 0)
        self.assertEqual(comparison.problem, "")  # both saw the same number of kernels
        (ratio,) = comparison.budget_ratios(1)
        self.assertGreater(ratio, 0)


if __name__ == "__main__":
    unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=fake_gpu.e2e.SkipReporter))
