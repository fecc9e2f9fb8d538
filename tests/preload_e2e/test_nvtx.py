"""NVTX: a program's ranges become scopes, it gets the same results as without dlhook, and another tool has
precedence."""

import os
import sys

import e2e

sys.path.append(os.path.join(e2e.HERE, "..", "frameworks"))
import scopes  # pylint: disable=wrong-import-position

# Two successive reads of the time-stamp counter may be out of order by a few of its steps (26 ticks each on AMD's Zen; 78 were
# seen), as they are not serialized. Hundreds of ticks are between the victim's ranges and products that are not inside.
STEP_TICKS = 128
MISSING = "no NVTX headers when this was built (a CUDA toolkit has them)"


class Nvtx(e2e.Case):
    def setUp(self):
        if not os.path.exists(e2e.victim("nvtx")):
            self.skipTest(MISSING)
        super().setUp()

    def traces_of(self, mode, *arguments, host="writer", **extra):
        argv = [e2e.victim("nvtx"), mode, *arguments]
        plain = e2e.run(argv, env=e2e.clean_environment(**extra), cwd=self.folder)
        self.fresh_run()
        result = self.under(host, argv, **extra)
        self.assert_same_behaviour(plain, result, host)
        return scopes.traces(e2e.Run(self.run_path)) if os.path.isdir(self.run_path) else []

    def trace_of(self, mode, *arguments, **options):
        (trace,) = self.traces_of(mode, *arguments, **options)
        return trace

    def calls_inside(self, trace):
        """{range: rows of the products inside}."""
        found = {}
        for scope in trace.scopes:
            self.assertEqual(scope.kind, "NVTX_RANGE")
            start, end = scope.start - STEP_TICKS, scope.end + STEP_TICKS
            found[scope.name] = [e2e.one(e2e.one(c.op, "gemm"), "m") for c in trace.calls if c.thread_id == scope.thread
                                 and start <= c.end_ticks - c.duration and c.end_ticks <= end]
        return found

    def test_ranges(self):
        for host in e2e.HOSTS:
            with self.subTest(host):
                trace = self.trace_of("ranges", host=host)
                self.assertEqual(self.calls_inside(trace), {
                    "outer": [8, 16], "library: registered": [24, 32], "inner": [16], "größe": [], "first": [24]})
                self.assertEqual([s.name for s in trace.scopes],
                                 ["inner", "library: registered", "größe", "outer", "first", "library: registered"])
                self.assertEqual(trace.capability("nvtx-tap"), ("ON", ""))
                self.assert_no_loss(trace)

    def test_a_range_that_another_thread_ends_is_not_recorded(self):
        trace = self.trace_of("threads")
        self.assertEqual(self.calls_inside(trace), {"worker": [8]})
        self.assertEqual(trace.capability("nvtx-tap"), ("ON", "ranges that another thread ended are not recorded"))

    def test_deep(self):
        trace = self.trace_of("deep")
        names = [s.name for s in trace.scopes]
        kept = len(names) - 1
        self.assertEqual(names, [f"level {i}" for i in reversed(range(kept))] + ["after"])
        self.assertGreaterEqual(kept, 60)
        self.assertEqual(sum(e2e.one(loss, "calls", 0) for loss in trace.losses), 200 - kept)
        # The pops of unrecorded ones close no others.
        inside = self.calls_inside(trace)
        self.assertEqual({name for name, calls in inside.items() if calls}, {f"level {i}" for i in range(50)})

    def test_many_names(self):
        trace = self.trace_of("many", "100000", DLHOOK_RING_KIB=1 << 18)
        self.assertEqual([s.name for s in trace.scopes], [f"name {i}" for i in range(100000)] + ["x" * 1024])
        self.assertEqual(trace.loss_reasons(), {"RECORD_TOO_LONG"})  # the last one's name was truncated

    def test_fork(self):
        parts = self.traces_of("fork")
        self.assertEqual(sorted(tuple(sorted(self.calls_inside(t).items())) for t in parts),
                         [(("child", [16]),), (("parent", [8]),)])

    def test_without_ranges_no_file(self):
        self.assertEqual(self.traces_of("quiet"), [])

    def test_another_tool_comes_first(self):
        trace = self.trace_of("ranges", NVTX_INJECTION64_PATH=e2e.library("nvtx_injection"))
        self.assertEqual(trace.scopes, [])
        self.assertEqual(trace.capability("nvtx-tap")[0], "OFF")

    def test_switched_off(self):
        for extra in ({"DLHOOK_SCOPES": "off"}, {"DLHOOK_CAPTURE": "-nvtx"}):
            with self.subTest(extra):
                trace = self.trace_of("ranges", **extra)
                self.assertEqual(trace.scopes, [])
                self.assertEqual(trace.capability("nvtx-tap")[0], "OFF")

    def test_recording_off(self):
        for trace in self.traces_of("ranges", DLHOOK_START="off"):
            self.assertEqual(trace.scopes, [])


if __name__ == "__main__":
    e2e.main()
