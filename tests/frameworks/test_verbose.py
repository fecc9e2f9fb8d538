"""The user's own use of oneDNN's log, of torch.backends.mkldnn.verbose and of stdio is unchanged."""

import frameworks
from frameworks import e2e, program


class UserLog(frameworks.Case):
    def check(self, argv, **user):
        """The user's output is unchanged; dlhook has all executions or reports why not. The trace."""
        plain = self.plain(argv, **user)
        self.fresh_run()
        ours = self.under("writer", argv, **user)
        self.assertEqual(frameworks.without_times(ours.out).decode().splitlines(),
                         frameworks.without_times(plain.out).decode().splitlines())
        self.assertEqual((ours.code, ours.err), (plain.code, plain.err))
        # Byte for byte, with the order on the pipe: C's stdio was flushed at the same points.
        self.assertEqual(frameworks.without_times(ours.out), frameworks.without_times(plain.out))
        trace = e2e.Run(self.run_path).trace()
        self.check_executions(argv, trace)
        return trace

    def check_executions(self, argv, trace):
        witness = [line for line in self.whole_log(argv) if line[0] == "exec"]
        recorded = [line for line in frameworks.recorded_lines(trace) if line[0] == "exec"]
        if recorded != witness:
            # Allowed only if dlhook reports what the user's own setting hides from it, or that it stepped aside.
            reasons = [e2e.one(c, "reason", "") for c in trace.capabilities if "onednn" in e2e.one(c, "name", "")]
            self.assertTrue(any(reasons), f"{len(recorded)} of {len(witness)} executions and no reason")

    def whole_log(self, argv):
        return self.witness(argv)

    def test_environment(self):
        argv = program("cnn", 3, 1)
        for user in ({"ONEDNN_VERBOSE": "1"}, {"ONEDNN_VERBOSE": "0"}, {"ONEDNN_VERBOSE": "2"},
                     {"DNNL_VERBOSE": "1"}, {"ONEDNN_VERBOSE": "1", "ONEDNN_VERBOSE_TIMESTAMP": "1"},
                     {"ONEDNN_VERBOSE": "2", "ONEDNN_VERBOSE_TIMESTAMP": "1"}, {"ONEDNN_VERBOSE": "all"},
                     {"ONEDNN_VERBOSE": "profile_exec,filter=convolution"}, {"ONEDNN_VERBOSE": "dispatch"},
                     {"ONEDNN_VERBOSE_TIMESTAMP": "1"}):
            with self.subTest(**user):
                self.check(argv, **user)

    def test_the_users_level_1_shows_no_creations(self):
        trace = self.check(program("cnn", 3, 1), ONEDNN_VERBOSE="1", DLHOOK_ONEDNN_LEVEL="2")
        self.assertTrue(frameworks.recorded_lines(trace))


class Blocks(UserLog):
    """torch.backends.mkldnn.verbose(...): four of the six convolutions are outside the user's blocks."""

    def whole_log(self, argv):
        # The program switches the log off itself, so the witness is one convolution's lines, six times over.
        result = self.plain(argv)
        block = frameworks.log_lines(result.out.split(b"write after block 1")[0])
        executions = [line for line in block if line[0] == "exec"]
        self.assertTrue(executions)
        return executions * 6

    def test_blocks(self):
        self.check(program("verbose_blocks"))

    def test_blocks_and_environment(self):
        for value in ("0", "1", "2"):
            with self.subTest(ONEDNN_VERBOSE=value):
                self.check(program("verbose_blocks"), ONEDNN_VERBOSE=value)

    test_environment = None
    test_the_users_level_1_shows_no_creations = None


if __name__ == "__main__":
    e2e.main()
