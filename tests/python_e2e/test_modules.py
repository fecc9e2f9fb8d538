"""Qualified names of modules with each interpreter of the machine: shared modules, short-lived models, classes that
defend themselves, threads while the main thread waits. (The real torch: tests/frameworks/test_modules.py.)"""

import collections
import os
import sys

import stacks
from stacks import e2e

LIBRARY = os.environ.get("DLHOOK_TEST_BLAS", "libopenblas.so.0")


class Modules(e2e.Case):
    def names(self, version):
        program = stacks.interpreter(version)
        if program is None:
            self.skipTest(f"no Python {version}")
        for release in ("1", "2"):
            with self.subTest(torch=release):
                self.check_names([program, stacks.victim("modules"), LIBRARY], release)

    def test_names_after_many_models(self):
        """Then they are searched for in a part of the time only, by whichever clock."""
        for clock in ("tsc", "monotonic"):
            with self.subTest(clock):
                self.fresh_run()
                result = self.under("writer", [sys.executable, stacks.victim("modules"), LIBRARY, "300"], DLHOOK_CLOCK=clock)
                self.assertEqual((result.code, result.err), (0, b""))
                (trace,) = stacks.traces(e2e.Run(self.run_path))
                # Each model makes three calls.
                main = [call for call in trace.calls_of("cblas_dger") if trace.tid(call.thread_id) == trace.pid][-3:]
                names = [trace.names(trace.modules_of(trace.stack_of[call[:2]])[0]) for call in main]
                self.assertEqual(names, [["größe.first", "again"], ["größe.first", "again"], ["evil.x"]])

    def check_names(self, argv, torch_release):
        self.fresh_run()
        result = self.under("writer", argv, VICTIM_TORCH=torch_release)
        self.assertEqual((result.code, result.err), (0, b""))
        (trace,) = stacks.traces(e2e.Run(self.run_path))
        self.assert_no_loss(trace)
        expected = collections.defaultdict(list)
        for line in result.out.decode().splitlines():
            tid, *names = line.split(" ")
            expected[int(tid)].append(names)
        seen = collections.defaultdict(list)
        for call in trace.calls_of("cblas_dger"):
            modules = trace.modules_of(trace.stack_of[call[:2]])
            seen[trace.tid(call.thread_id)].append(trace.names(modules[0]))
            self.assertTrue(trace.type(modules[0]).endswith("Leaf"))
            self.assertEqual(e2e.one(trace.modules[modules[0]], "root"), modules[-1])
        self.assertEqual(seen, expected)


for each in stacks.VERSIONS:
    setattr(Modules, "test_names_" + each.replace(".", "_"), lambda self, version=each: self.names(version))

if __name__ == "__main__":
    e2e.main()
