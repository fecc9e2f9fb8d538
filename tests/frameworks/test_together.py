"""NumPy, SciPy, PyTorch, TensorFlow and JAX in one process, finally all at once: three copies of oneDNN, three of BLAS.

Witness of oneDNN: the log that the three copies print without dlhook; of BLAS: counted by hand.
"""

import collections
import glob
import os

import frameworks
import scopes
from frameworks import PYTHON, TENSORFLOW_PYTHON, e2e, program

ROUNDS = 4


class Together(frameworks.Case):
    def setUp(self):
        if not os.access(TENSORFLOW_PYTHON, os.X_OK):
            self.skipTest(frameworks.MISSING)
        super().setUp()
        (packages,) = glob.glob(os.path.join(os.path.dirname(PYTHON), "..", "lib", "python3*", "site-packages"))
        self.argv = [TENSORFLOW_PYTHON, *program("together", packages, ROUNDS)[1:]]
        self.settings = {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}

    def own_lines(self):
        plain = self.plain(self.argv, ONEDNN_VERBOSE=1, **self.settings)
        self.assertEqual(plain.code, 0, plain.err.decode()[-2000:])
        return frameworks.log_lines(plain.out)

    def check_onednn(self, trace):
        lines = self.own_lines()
        self.assertEqual(collections.Counter(frameworks.recorded_lines(trace)), collections.Counter(lines))
        # Each copy was used: PyTorch's and TensorFlow's convolutions, products of TensorFlow and JAX.
        problems = collections.Counter((line[2], line[-1]) for line in lines)
        for primitive, problem in (("convolution", "mb2_ic3oc8_ih16oh14"), ("convolution", "mb2_ic3oc8_ih17oh17"),
                                   ("gemm_api", "x32:32x"), ("gemm_api", "x256:256x")):
            count = sum(n for (kind, text), n in problems.items() if kind == primitive and problem in text)
            self.assertGreaterEqual(count, ROUNDS, (primitive, problem, problems))

    def test_each_with_its_own_library(self):
        run = self.recorded("launcher", self.argv, **self.settings)
        trace = scopes.trace(run)
        self.assert_no_loss(trace)
        states = {(e2e.one(c, "name"), e2e.one(c, "object", "")): e2e.one(c, "state") for c in trace.capabilities}
        libraries = ("libtorch_cpu.so", "libtensorflow_cc.so.2", "libjax_common.so")
        self.assertEqual({library: states.get(("onednn-tap", library)) for library in libraries},
                         dict.fromkeys(libraries, "ON"))
        self.assertEqual(states["record-function-tap", "libtorch_cpu.so"], "ON")
        self.assertEqual(states["trace-me-tap", "libtensorflow_framework.so.2"], "ON")
        products = [call for call in trace.top_calls() if "onednn" not in call.op]
        self.assert_problems([call for call in products if not frameworks.is_numpys_import(call)], {
            ("scipy_cblas_sgemm64_", 20, 40, 30, "NN"): ROUNDS, ("scipy_sgemm_", 21, 41, 31, "NN"): ROUNDS,
            ("sgemm_", 24, 32, 48, "TN"): ROUNDS, ("sgemm_", 48, 24, 32, "NN"): ROUNDS})
        self.check_onednn(trace)
        self.assertLessEqual({"FRAMEWORK_OP", "BACKWARD_NODE", "TRACE_ME"}, {scope.kind for scope in trace.scopes})


if __name__ == "__main__":
    e2e.main()
