"""Keras 3 with its three backends: one network, and each backend's library sees the network's calls.

Witness of the calls: the log that the backend's oneDNN prints by itself without dlhook; of the layers: model.layers.
"""

import collections
import os

import frameworks
from frameworks import PYTHON, TENSORFLOW_PYTHON, e2e, program

BATCHES = 4
BATCH = 8
LAYERS = ["conv1", "pool1", "conv2", "flatten", "fc1", "fc2"]


class Keras(e2e.Case):
    def check(self, backend, python, library, host):
        """Behaviour and lines; the run and the witness's lines."""
        if not os.access(python, os.X_OK):
            self.skipTest(frameworks.MISSING)
        argv = [python, *program("keras_cnn", BATCHES)[1:]]
        environment = {"KERAS_BACKEND": backend, "KERAS_HOME": self.folder, "TF_CPP_MIN_LOG_LEVEL": "3",
                       "OMP_NUM_THREADS": "1"}
        plain = e2e.run(argv, env=e2e.clean_environment(ONEDNN_VERBOSE=1, **environment), cwd=self.folder)
        self.assertEqual(plain.code, 0, plain.err.decode()[-2000:])
        witness = frameworks.log_lines(plain.out)
        # Without windows of JAX's profiler: how many there are depends on the time.
        ours = self.under(host, argv, DLHOOK_CAPTURE="-jax", **environment)
        self.assertEqual(ours.code, 0, ours.err.decode()[-2000:])
        self.assertEqual(ours.out.decode().split(), [backend, *LAYERS])
        run = e2e.Run(self.run_path)
        trace = run.trace()
        self.assert_no_loss(trace)
        self.assertEqual(collections.Counter(frameworks.recorded_lines(trace)), collections.Counter(witness))
        taps = [(e2e.one(c, "state"), e2e.one(c, "object")) for c in trace.capabilities
                if e2e.one(c, "name") == "onednn-tap"]
        self.assertEqual(taps, [("ON", library)])
        return run, trace, witness

    def layer_rows(self, run):
        return {row["layer"]: row for row in run.table("layers") if not row["layer"].startswith("[")}

    def test_torch(self):
        run, trace, witness = self.check("torch", PYTHON, "libtorch_cpu.so", "launcher")
        self.assertEqual(frameworks.recorded_lines(trace), witness)  # in the same order
        rows = self.layer_rows(run)
        for layer in LAYERS:
            row = rows[f"small/{layer}"]
            self.assertEqual(row["matched_by"], "framework", layer)
            self.assertIsNotNone(row["forward"], layer)
            self.assertIsNotNone(row["backward"], layer)
        # Dense is a product there: forward in both, gradients of data and weights in `fit`.
        products = {}
        for inputs, outputs in ((16 * 8 * 8, 20), (20, 10)):
            products |= {(outputs, BATCH, inputs): 2 * BATCHES, (inputs, BATCH, outputs): BATCHES,
                         (outputs, inputs, BATCH): BATCHES}
        found = collections.Counter(e2e.problem(call.op)[1:4] for call in trace.top_calls()
                                    if e2e.problem(call.op)[0] == "sgemm_")
        self.assertEqual(found, products)

    def test_epochs(self):
        """Steps and validation of each epoch are told apart, without a callback."""
        argv = [*program("keras_cnn", BATCHES), "3"]
        run = self.recorded("launcher", argv, KERAS_BACKEND="torch", KERAS_HOME=self.folder, OMP_NUM_THREADS="1")
        kinds = collections.Counter(row["kind"] for row in run.table("steps"))
        self.assertEqual(kinds, {"training": (1 + 3) * BATCHES, "validation": 3 + BATCHES})

    def test_tensorflow(self):
        run, _, witness = self.check("tensorflow", TENSORFLOW_PYTHON, "libtensorflow_cc.so.2", "writer")
        kinds = collections.Counter(line[2] for line in witness)
        self.assertEqual(kinds["convolution"], BATCHES * (2 * 2 + 3))  # twice forward, no gradient of data for conv1
        rows = self.layer_rows(run)
        for layer in LAYERS:
            if layer != "flatten":  # a reshape, which the graph's optimizer folds
                row = rows[f"small_1/{layer}_1"]
                self.assertIsNotNone(row["forward"], layer)
                self.assertIsNotNone(row["backward"], layer)

    def test_jax(self):
        run, _, witness = self.check("jax", TENSORFLOW_PYTHON, "libjax_common.so", "launcher")
        self.assertEqual({line[2] for line in witness}, {"gemm_api"})
        # Keras compiles the whole step, and outside of windows dlhook does not invent what it can't know.
        self.assertEqual([row["type"] for row in self.layer_rows(run).values()], ["compiled region"])


if __name__ == "__main__":
    e2e.main()
