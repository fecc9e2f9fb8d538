"""The oneDNN tap on Debian's shared oneDNN 2.x, against the library's own log. The wheels' 3.x: tests/frameworks."""

import re
import unittest

import e2e

FIELDS = ("operation", "engine", "primitive", "implementation", "prop_kind", "memory_descriptors", "attributes",
          "auxiliary", "problem")


def log_lines(output):
    """Execution and creation lines as tuples of FIELDS, without the time."""
    lines = (line.split(",") for line in output.decode().splitlines())
    return [tuple(line[1:-1]) for line in lines
            if line[0] == "onednn_verbose" and line[1].startswith(("exec", "create"))]


def recorded_lines(trace):
    calls = [e2e.one(call.op, "onednn") for call in trace.calls if "onednn" in call.op]
    return [tuple(e2e.one(call, field, "") for field in FIELDS) for call in calls]


def without_times(output):
    return re.sub(rb",[0-9.e-]+$", b",TIME", output, flags=re.M)


class OneDnn2(e2e.Case):
    def plain(self, **extra):
        return e2e.run([e2e.victim("onednn")], env=e2e.clean_environment(**extra), cwd=self.folder)

    def test_calls_are_those_of_the_log(self):
        for level in (1, 2):
            witness = log_lines(self.plain(ONEDNN_VERBOSE=level).out)
            self.assertEqual(len(witness), 12 * level)
            for host in e2e.HOSTS:
                with self.subTest(level=level, host=host):
                    self.fresh_run()
                    result = self.under(host, [e2e.victim("onednn")], DLHOOK_ONEDNN_LEVEL=level)
                    self.assertEqual(result.out, b"round 0\nround 1\nround 2\n")
                    self.assertEqual(recorded_lines(e2e.Run(self.run_path).trace()), witness)

    def test_the_users_own_log_stays(self):
        for setting in ("0", "1", "2"):
            with self.subTest(setting=setting):
                plain = self.plain(ONEDNN_VERBOSE=setting)
                self.fresh_run()
                ours = self.under("writer", [e2e.victim("onednn")], ONEDNN_VERBOSE=setting)
                self.assertEqual(without_times(ours.out), without_times(plain.out))
                self.assertEqual(ours.err, plain.err)

    def test_off_leaves_no_file(self):
        self.under("writer", [e2e.victim("onednn")], DLHOOK_ONEDNN="off")
        self.assertEqual(e2e.Run(self.run_path).files(), [])  # nothing was recorded, nothing is left

    def test_fused_operations_and_formats_are_understood(self):
        self.under("launcher", [e2e.victim("onednn")])
        (convolution,) = [row for row in e2e.Run(self.run_path).table("algorithms") if row["kind"] == "convolution"]
        self.assertEqual((convolution["calls"], convolution["post_ops"], convolution["algorithm"]),
                         (3, "eltwise_relu", "convolution_direct"))
        # Of one call: 2 * N * K * P * Q * C * R * S.
        self.assertEqual(convolution["flops"], 2 * 2 * 16 * 16 * 16 * 8 * 3 * 3)


if __name__ == "__main__":
    e2e.main()
