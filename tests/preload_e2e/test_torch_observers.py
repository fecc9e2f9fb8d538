"""The RecordFunction tap with a release of PyTorch that does not exist yet: observed if dlhook's own scopes are reported as
expected, else refused with the check that failed. PyTorch: tests/frameworks."""

import json
import os
import sys

import e2e

sys.path.append(os.path.join(e2e.HERE, "..", "frameworks"))
import scopes  # pylint: disable=wrong-import-position

FAULTS = {"silent": "a scope of dlhook's own is not reported to its observers",
          "name": "a scope of dlhook's own is reported with another name, kind or context",
          "disable": "scopes of dlhook's own are not reported in their order",
          "used": "not tried, and not tested because other observers, such as torch.profiler's, came first"}


class NewerTorch(e2e.Case):
    def trace_of(self, host="writer", **extra):
        argv = [e2e.victim("operators")]
        plain = e2e.run(argv, env=e2e.clean_environment(**extra), cwd=self.folder)
        self.fresh_run()
        self.assert_same_behaviour(plain, self.under(host, argv, **extra), host)
        return scopes.trace(e2e.Run(self.run_path))

    def test_works(self):
        for host in e2e.HOSTS:
            with self.subTest(host):
                trace = self.trace_of(host)
                self.assertEqual([(s.kind, s.name) for s in trace.scopes],
                                 [("FRAMEWORK_OP", "aten::mul"), ("FRAMEWORK_OP", "aten::add")])
                self.assertEqual(trace.capability("record-function-tap"), ("ON", "PyTorch 2.99; not tried with 2.99"))

    def test_fails(self):
        for fault, reason in FAULTS.items():
            with self.subTest(fault):
                trace = self.trace_of(FAULT=fault)
                self.assertEqual(trace.scopes, [])
                self.assertEqual(trace.capability("record-function-tap"), ("REFUSED", f"PyTorch 2.99: {reason}"))

    def test_doctor(self):
        for extra, finding in (({}, "record-function-tap-not-tried"), ({"FAULT": "name"}, "record-function-tap-refused")):
            with self.subTest(finding):
                result = e2e.run([e2e.DLHOOK, "doctor", "--format", "json", "--", e2e.victim("operators")],
                                 env=e2e.clean_environment(**extra), cwd=self.folder)
                found = {f["id"] for f in json.loads(result.out)["program"]["findings"]}
                self.assertIn(finding, found)


if __name__ == "__main__":
    e2e.main()
