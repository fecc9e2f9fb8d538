"""JAX on the CPU: layers of eight networks, by jaxlib's own profiler in windows.

Each product of a forward pass has its gradients in the backward pass of the same layer. What each part of a transformer takes
of the whole is what the user's own jax.profiler says, in other steps: both take turns in one process on one thread. Of each part the
shortest time counts, because others who compute can only lengthen it.
"""

import collections
import json
import os
import sqlite3
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import frameworks  # pylint: disable=wrong-import-position
from frameworks import e2e  # pylint: disable=wrong-import-position

PROGRAM = os.path.join(HERE, "programs", "networks.py")
LAYERS = {"mlp": 3, "cnn": 3, "mobile": 3, "unet": 3, "transformer": 12, "recurrent": 3, "residual": 4, "custom": 2}
# Of these the input needs no gradient.
FIRST = {"cnn/conv1", "mobile/stem", "unet/down", "transformer/block0/qkv", "recurrent/input",
         "residual/block0/inner", "custom/clip1"}
PRODUCTS = """SELECT l.name, c.direction, o.flops FROM raw_calls c JOIN raw_ops o USING (op_id) JOIN raw_layers l USING (layer_id)
              WHERE o.function = "XLA's profiler" AND o.flops IS NOT NULL GROUP BY o.op_id, l.name, c.direction"""
PARTS = """SELECT step_id, l.name || ' ' || direction, sum(share_ns) FROM raw_time JOIN raw_layers l USING (layer_id)
           WHERE step_id IS NOT NULL AND l.name LIKE 'transformer/%' GROUP BY 1, 2"""


def line_of(text):
    with open(PROGRAM, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def shares(runs):
    """{part: percent}, each part's time being its shortest one."""
    parts = set.union(*map(set, runs))
    shortest = {part: min(run[part] for run in runs if part in run) for part in parts}
    return {part: 100 * time / sum(shortest.values()) for part, time in shortest.items()}


class Networks(frameworks.Case):
    def setUp(self):
        if not os.access(frameworks.TENSORFLOW_PYTHON, os.X_OK):
            self.skipTest(frameworks.MISSING)
        e2e.Case.setUp(self)

    def test_gradients_and_shares(self):
        result = self.under("launcher", [frameworks.TENSORFLOW_PYTHON, PROGRAM, os.path.join(self.folder, "traces")], PJRT_NPROC=1)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        path = os.path.join(self.folder, "run.sqlite")
        exported = e2e.run([e2e.DLHOOK, "export", self.run_path, "--format", "sqlite", "-o", path])
        self.assertEqual(exported.code, 0, exported.err)
        database = sqlite3.connect(path)
        self.addCleanup(database.close)
        with self.subTest("gradients"):
            self.check_gradients(database)
        with self.subTest("shares"):
            self.check_shares(database, json.loads(result.out))

    def check_gradients(self, database):
        products = collections.defaultdict(lambda: collections.defaultdict(list))
        for layer, direction, flops in database.execute(PRODUCTS):
            # What checkpointing computes again XLA merges with the forward pass.
            products[layer]["forward" if direction == "recompute" else direction].append(flops)
        first_of_mlp = f"mlp:{line_of('dense(x, of')}>dense:{line_of('tanh(x @ matrix)')}"
        self.assertEqual(collections.Counter(layer.replace(":", "/").split("/")[0] for layer in products), LAYERS)
        for layer, found in products.items():
            forward, = found["forward"]
            gradients = [forward] if layer in FIRST or layer == first_of_mlp else [forward, forward]
            # XLA computes the gradient of a depthwise convolution's weights for all pairs of channels.
            if layer == "mobile/depth":
                gradients = [forward, 8 * forward]
            self.assertEqual((layer, set(found), sorted(found["backward"])), (layer, {"forward", "backward"}, gradients))

    def check_shares(self, database, traced):
        steps = collections.defaultdict(dict)
        for step, part, nanoseconds in database.execute(PARTS):
            steps[step][part] = nanoseconds
        self.assertGreaterEqual(len(steps), 40)
        expected, found = shares(traced), shares(list(steps.values()))
        self.assertGreater(len([part for part, percent in expected.items() if percent > 5]), 3)
        for part in set(expected) | set(found):
            self.assertAlmostEqual(expected.get(part, 0), found.get(part, 0), delta=2.5, msg=part)


if __name__ == "__main__":
    e2e.main()
