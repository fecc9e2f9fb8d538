"""The oneDNN tap on Debian's shared oneDNN 2.x, and on lines in the format of releases before 2.2, against the
library's own log.

The wheels' 3.x, and genuine older releases: tests/frameworks.
"""

import re

import e2e

FIELDS = ("operation", "engine", "primitive", "implementation", "prop_kind", "memory_descriptors", "attributes",
          "auxiliary", "problem")


# Fields missing in older lines, by their number of fields: 1.0 has no attributes, 0.x no engine either.
LACKING = {9: (), 8: (6,), 7: (1, 6)}


def log_lines(output):
    """Execution and creation lines as tuples of FIELDS, without the time."""
    lines = []
    for line in output.decode().splitlines():
        prefix, *fields = line.split(",")
        if prefix.endswith("_verbose") and fields[0].startswith(("exec", "create")):
            del fields[-1]
            for missing in LACKING[len(fields)]:
                fields.insert(missing, "")
            lines.append(tuple(fields))
    return lines


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
        # Per call: 2 * N * K * P * Q * C * R * S.
        self.assertEqual(convolution["flops"], 2 * 2 * 16 * 16 * 16 * 8 * 3 * 3)


class Primitives(e2e.Case):
    """Each kind of primitive of 2.x: recorded as in the log, and parsed."""

    def test_each_kind(self):
        argv = [e2e.victim("primitives")]
        plain = e2e.run(argv, env=e2e.clean_environment(OMP_NUM_THREADS=1))
        witness = log_lines(e2e.run(argv, env=e2e.clean_environment(OMP_NUM_THREADS=1, ONEDNN_VERBOSE=1)).out)
        self.assertEqual(len(witness), len(plain.out.splitlines()))
        self.fresh_run()
        self.assert_same_behaviour(plain, self.under("launcher", argv, OMP_NUM_THREADS=1), "launcher")
        run = e2e.Run(self.run_path)
        self.assertEqual(recorded_lines(run.trace()), witness)
        # 2.x logs some kinds with a suffix that 3.0 dropped.
        kinds = {line[FIELDS.index("primitive")].removesuffix("_v2") for line in witness}
        self.assertEqual(len(kinds), 17)
        rows = run.table("ops")
        self.assertEqual({row["kind"] for row in rows if row["calls"]}, kinds)
        # 2 m n k for the matrix products, the inner product and its two gradients; 2 times weights by positions.
        flops = {(row["kind"], row["direction"]): row["flops"] for row in rows if row["flops"]}
        self.assertEqual({of for (kind, _), of in flops.items() if kind == "matmul"}, {2 * 4 * 6 * 5})
        self.assertEqual({flops[("inner_product", direction)] for direction in
                          ("forward", "backward-data", "backward-weights")}, {2 * 4 * 6 * 10})
        self.assertEqual(flops[("deconvolution", "forward")], 2 * 2 * 8 * 8 * 3 * 3 * 2 * 2)


class Older(e2e.Case):
    """MKL-DNN 0.21 and 1.0, DNNL 1.3, oneDNN 1.7: other prefixes and formats, no template, fflush(0), which is all of stdio."""

    VERSIONS = ("v0.21.5", "v1.0.4", "v1.3.0", "v1.7.0")

    def argv(self, release, *more):
        return [e2e.victim("mkldnn_user"), str(release), *more]

    def test_calls_are_those_of_the_log(self):
        for release, version in enumerate(self.VERSIONS):
            quiet = e2e.run(self.argv(release))
            self.assertIn(b"own file: 0 bytes", quiet.out)
            for level in (1, 2):
                witness = log_lines(e2e.run(self.argv(release), env=e2e.clean_environment(MKLDNN_VERBOSE=level)).out)
                self.assertEqual(len(witness), 12 * level)
                for host in e2e.HOSTS:
                    with self.subTest(version=version, level=level, host=host):
                        self.fresh_run()
                        result = self.under(host, self.argv(release), DLHOOK_ONEDNN_LEVEL=level)
                        self.assert_same_behaviour(quiet, result, host)
                        trace = e2e.Run(self.run_path).trace()
                        self.assertEqual(recorded_lines(trace), witness)
                        self.assertEqual({e2e.one(e2e.one(call.op, "onednn"), "version") for call in trace.calls},
                                         {version})

    def test_the_users_own_log_stays(self):
        settings = [{"MKLDNN_VERBOSE": value} for value in ("0", "1", "2")]
        settings += [{"DNNL_VERBOSE": "1"}, {"MKLDNN_VERBOSE": "1", "DNNL_VERBOSE": "0"}, {"ONEDNN_VERBOSE": "1"}]
        for release, version in enumerate(self.VERSIONS):
            for setting in settings:
                with self.subTest(version=version, setting=setting):
                    plain = e2e.run(self.argv(release), env=e2e.clean_environment(**setting))
                    self.fresh_run()
                    ours = self.under("writer", self.argv(release), **setting)
                    self.assertEqual((ours.out, ours.err), (plain.out, plain.err))
                    self.assertEqual(len(e2e.Run(self.run_path).trace().calls), 24 if b"create" in plain.out else 12)

    def test_the_users_own_switch(self):
        for release, version in enumerate(self.VERSIONS):
            for how in ("blocks", "found"):
                with self.subTest(version=version, how=how):
                    argv = self.argv(release, how)
                    plain = e2e.run(argv)
                    self.assertEqual(len(log_lines(plain.out)), 4)
                    self.fresh_run()
                    self.assert_same_behaviour(plain, self.under("writer", argv), "writer")
                    self.assertEqual(len(e2e.Run(self.run_path).trace().calls), 12)


if __name__ == "__main__":
    e2e.main()
