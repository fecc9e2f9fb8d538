"""The oneDNN tap in TensorFlow and JAX: dlhook records the same as the library's own log without dlhook."""

import collections
import os

import nodes
from nodes import e2e, frameworks, program


class Witness(nodes.Case):
    """Compared without order: independent nodes run in any order."""

    def check(self, argv, host, least):
        environment = e2e.clean_environment(ONEDNN_VERBOSE=1)
        plain = e2e.run(argv, env=environment, cwd=self.folder)
        self.assertEqual(plain.code, 0, plain.err.decode()[-2000:])
        witness = frameworks.log_lines(plain.out)
        self.assertGreaterEqual(len(witness), least)
        self.fresh_run()
        result = self.under(host, argv)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        self.assertNotIn(b"onednn_verbose", result.out)
        trace = e2e.Run(self.run_path).trace()
        self.assert_no_loss(trace)
        self.assertEqual(collections.Counter(frameworks.recorded_lines(trace)), collections.Counter(witness))
        return trace

    def test_tensorflow(self):
        for mode, host in (("fit", "launcher"), ("predict", "writer")):
            with self.subTest(mode):
                self.check(program("alexnet", mode, 2), host, 2 * 8)

    def test_jax(self):
        for kind, host in (("mlp", "launcher"), ("cnn", "writer")):
            with self.subTest(kind):
                trace = self.check(program("jax_networks", kind, 3), host, 3)
                states = {e2e.one(c, "name"): e2e.one(c, "state") for c in trace.capabilities}
                self.assertEqual((states["onednn-tap"], states["trace-me-tap"]), ("ON", "ABSENT"))


class Sampling(nodes.Case):
    def test_products_with_their_stack_pointer_in_the_heap(self):
        """Those of the example's sizes have it there, on processors with AVX-512."""
        example = os.path.join(e2e.HERE, "..", "..", "examples", "02_framework_comparison", "alexnet_keras.py")
        argv = [nodes.PYTHON, "-B", example, "--batch", "4"]
        plain = e2e.run(argv, env=e2e.clean_environment(), cwd=self.folder)
        result = self.under("launcher", argv, DLHOOK_SAMPLE=500)
        self.assertEqual((result.code, result.out), (0, plain.out), result.err.decode()[-2000:])
        self.assertTrue([trace for trace in e2e.Run(self.run_path).traces() if trace.threads])


if __name__ == "__main__":
    e2e.main()
