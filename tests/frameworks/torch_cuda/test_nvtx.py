"""PyTorch's own NVTX ranges, in the unmodified CUDA wheel: pushed manually and by emit_nvtx."""

import collections
import sys

import fake_gpu
from fake_gpu import e2e, program

sys.path.append(fake_gpu.HERE + "/..")
import scopes  # pylint: disable=wrong-import-position

STEPS = 3


class Nvtx(fake_gpu.Case):
    def scopes_of(self, *arguments, **extra):
        argv = program("nvtx", *arguments)
        plain, _ = self.plain(argv, **extra)
        self.fresh_run()
        result = self.under("launcher", argv, **self.scenario(), **extra)
        self.assert_same_behaviour(plain, result, "launcher")
        self.logs()
        trace = scopes.trace(e2e.Run(self.run_path))
        self.assertEqual(trace.losses, [])
        return trace, [s for s in trace.scopes if s.kind == "NVTX_RANGE"]

    def test_ranges(self):
        trace, ranges = self.scopes_of()
        self.assertEqual(trace.capability("nvtx-tap"), ("ON", ""))
        by_name = collections.defaultdict(list)
        for scope in ranges:
            by_name[scope.name].append(scope)
        (outer,), (inner,), (started,) = by_name["outer"], by_name["inner"], by_name["started"]
        self.assertTrue(outer.start <= inner.start and inner.end <= outer.end <= started.start)
        # emit_nvtx: the numbers are links, not names; forward and backward carry the same ones.
        forward = [s.link for s in by_name["aten::linear"] if s.link >= 0]
        self.assertEqual(len(by_name["aten::linear"]), 2 * STEPS)
        backward = [s.link for s in by_name["AddmmBackward0"]]
        self.assertEqual(len(backward), 2 * STEPS)
        self.assertEqual(len(set(backward)), 2 * STEPS)
        self.assertLessEqual(set(forward), set(range(max(backward) + 2)))
        self.assertEqual([name for name in by_name if "op_id" in name or ", seq" in name], [])

    def test_no_ranges(self):
        trace, ranges = self.scopes_of("none")
        self.assertEqual(ranges, [])
        self.assertIsNone(trace.capability("nvtx-tap"))


if __name__ == "__main__":
    e2e.main()
