"""Native stacks of real trainings: each equals one that was walked whole, and libunwind's (DLHOOK_STACKS_CHECK)."""

import re

import frameworks
from frameworks import e2e, program


class Agreement(frameworks.Case):
    def agreement(self, argv):
        """(stacks, equal to whole ones, equal to libunwind's), and the trace."""
        self.fresh_run()
        result = self.under("writer", argv, DLHOOK_STACKS="native", DLHOOK_STACKS_CHECK="on")
        self.assertEqual(result.code, 0, result.err)
        trace = e2e.Run(self.run_path).trace()
        reasons = [e2e.one(c, "reason") for c in trace.capabilities if e2e.one(c, "name") == "native-stacks-check"]
        if "not here" in reasons[-1]:
            self.skipTest("no libunwind.so.8")
        numbers = [re.match(r"(\d+) of (\d+) as walked whole, (\d+) as libunwind", reason).groups() for reason in reasons]
        whole, stacks, libunwind = max((tuple(map(int, n)) for n in numbers), key=lambda n: n[1])
        return (stacks, whole, libunwind), trace

    def test_torch(self):
        (stacks, whole, libunwind), trace = self.agreement(program("cnn", 60, 2))
        self.assertEqual((whole, libunwind), (stacks, stacks))
        self.assertEqual(stacks, len(trace.calls))
        self.assertGreater(stacks, 1000)
        code = {e2e.one(m, "path", "").rsplit("/", 1)[-1] for m in trace.mappings if e2e.one(m, "role") == "CODE"}
        self.assertIn("libtorch_cpu.so", code)

    def test_numpy(self):
        (stacks, whole, libunwind), trace = self.agreement(program("numpy_products", 200))
        self.assertEqual((whole, libunwind), (stacks, stacks))
        self.assertEqual(stacks, len(trace.calls))


if __name__ == "__main__":
    e2e.main()
