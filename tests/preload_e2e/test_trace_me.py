"""The TraceMe tap against a recorder like TensorFlow's: what it accepts, what it refuses. TensorFlow:
tests/frameworks."""

import os
import sys

import e2e

sys.path.append(os.path.join(e2e.HERE, "..", "frameworks"))
import scopes  # pylint: disable=wrong-import-position


class TraceMe(e2e.Case):
    def trace_of(self, recorder, host="writer", **extra):
        library = os.path.join(e2e.VICTIMS, f"libtensorflow_framework_{recorder}.so")
        argv = [e2e.victim("trace_me"), library]
        plain = e2e.run(argv, env=e2e.clean_environment(**extra), cwd=self.folder)
        self.assertEqual(plain.out, b"0\n1 0\n5\n5\n")
        self.fresh_run()
        result = self.under(host, argv, **extra)
        self.assert_same_behaviour(plain, result, host)
        trace = scopes.trace(e2e.Run(self.run_path))
        self.assert_no_loss(trace)
        return trace

    def test_nodes_before_in_and_after_a_session(self):
        for host in e2e.HOSTS:
            with self.subTest(host):
                trace = self.trace_of("victim", host)
                self.assertEqual([(s.kind, s.name) for s in trace.scopes],
                                 [("GRAPH_NODE", name) for when in ("before", "session", "after")
                                  for name in ("net/inner:Relu", f"net/{when}:Conv2D")])
                for inner, outer in zip(trace.scopes[::2], trace.scopes[1::2], strict=True):
                    self.assertAlmostEqual((outer.end - outer.start) / trace.ticks_per_second, 1e-3, delta=1e-5)
                    self.assertAlmostEqual((inner.start - outer.start) / trace.ticks_per_second, 3e-4, delta=1e-4)
                    self.assertLess(inner.end, outer.end)
                self.assertEqual(trace.capability("trace-me-tap"), ("ON", ""))

    def test_another_layout_is_refused(self):
        trace = self.trace_of("other_layout")
        self.assertEqual(trace.scopes, [])
        self.assertEqual(trace.capability("trace-me-tap"), ("REFUSED", "TraceMe's events have another layout"))

    def test_a_recorder_that_is_called_directly_is_left_alone(self):
        trace = self.trace_of("symbolic")
        self.assertEqual(trace.scopes, [])
        self.assertEqual(trace.capability("trace-me-tap"), ("ABSENT", "TraceMe's calls stay inside the library"))

    def test_switched_off(self):
        for extra in ({"DLHOOK_SCOPES": "off"}, {"DLHOOK_CAPTURE": "-trace_me"}):
            with self.subTest(extra):
                trace = self.trace_of("victim", **extra)
                self.assertEqual(trace.scopes, [])
                self.assertEqual(trace.capability("trace-me-tap")[0], "OFF")


if __name__ == "__main__":
    e2e.main()
