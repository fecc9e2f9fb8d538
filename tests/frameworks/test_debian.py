"""Debian's python3-torch (1.13.1): oneDNN 2.6 and BLAS in separate shared libraries, all loaded with RTLD_LOCAL.

Witnesses: oneDNN's own log, torch.profiler in the same process, the network itself; products are counted by hand.
"""

import collections
import json
import os

import frameworks
import scopes
from frameworks import DEBIAN_PYTHON, e2e, program
from test_scopes import EVALUATE, KINDS, inside

STEPS = 6
FULLY_CONNECTED = ((400, 120), (120, 84), (84, 10))


class DebianTorch(e2e.Case):
    def setUp(self):
        if not os.path.isdir("/usr/lib/python3/dist-packages/torch"):
            self.skipTest("no python3-torch of Debian: run scripts/setup.sh --debian-torch")
        super().setUp()

    def program(self, *arguments):
        return [DEBIAN_PYTHON, *program("lenet_witness", STEPS, *arguments)[1:]]

    def capabilities(self, trace):
        return {e2e.one(c, "name"): (e2e.one(c, "state"), e2e.one(c, "object", "")) for c in trace.capabilities}

    def test_calls_and_layers(self):
        plain = e2e.run(self.program(), env=e2e.clean_environment(DNNL_VERBOSE=1), cwd=self.folder)
        self.assertEqual(plain.code, 0, plain.err.decode()[-2000:])
        run = self.recorded("launcher", self.program())
        trace = run.trace()
        self.assert_no_loss(trace)
        self.check_log(trace, plain)
        batch, *modules = plain.out.decode().splitlines()[-1].split()
        self.check_products(trace, int(batch))
        self.check_layers(run, modules)

    def check_log(self, trace, plain):
        """Lines of oneDNN 2: without version and kind, and with other fields."""
        output = plain.out.decode().splitlines()
        lines = [line.split(",")[1:-1] for line in output if line.startswith("onednn_verbose,exec")]
        self.assertGreater(len(lines), 10 * STEPS)
        named = [dict(zip(frameworks.FIELDS, line, strict=True)) for line in lines]
        recorded = [dict(zip(frameworks.FIELDS, line, strict=True)) for line in frameworks.recorded_lines(trace)]
        self.assertEqual(recorded, named)
        self.assertEqual(self.capabilities(trace), {
            "onednn-tap": ("ON", "libdnnl.so.2"), "record-function-tap": ("ON", "libtorch_cpu.so.1.13"),
            "python-frames": ("ON", "")})

    def check_products(self, trace, batch):
        """From libblas.so.3: each once, although both oneDNN and ATen could have called it."""
        expected = collections.Counter()
        for inputs, outputs in FULLY_CONNECTED:
            expected[outputs, batch, inputs] += STEPS + 1  # one pass without gradients at the end
            expected[inputs, batch, outputs] += STEPS
            expected[inputs, outputs, batch] += STEPS
        products = [e2e.problem(call.op) for call in trace.top_calls() if "onednn" not in call.op]
        self.assertEqual({product[0] for product in products}, {"sgemm_"})
        self.assertEqual(collections.Counter(product[1:4] for product in products), expected)

    def check_layers(self, run, modules):
        rows = {row["layer"]: row for row in run.table("layers") if row["layer"] in modules}
        self.assertEqual(list(rows), modules)
        for layer, row in rows.items():
            self.assertEqual(row["matched_by"], "framework", layer)
            self.assertIsNotNone(row["forward"], layer)
            self.assertIsNotNone(row["backward"], layer)

    def test_scopes(self):
        """Those of the step that the profiler saw, too: names, kinds and numbers, on all threads together."""
        path = os.path.join(self.folder, "events.json")
        trace = scopes.trace(self.recorded("writer", self.program(path)))
        with open(path, encoding="utf-8") as file:
            theirs = collections.Counter((name, KINDS[scope], -1 if name.startswith(EVALUATE) else number)
                                         for name, scope, number in json.load(file))
        ours = collections.Counter((scope.name, scope.kind, scope.link)
                                   for found in inside(trace, "witness").values() for scope in found)
        self.assertGreater(sum(theirs.values()), 100)
        self.assertEqual(ours, theirs)


if __name__ == "__main__":
    e2e.main()
