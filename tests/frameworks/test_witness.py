"""The witness: dlhook records the same as the library's own log without dlhook, line for line except for the time."""

import frameworks
from frameworks import LENET, PYTHON, e2e, program


class Witness(frameworks.Case):
    def check(self, argv, level, host):
        witness = self.witness(argv, level)
        self.assertGreater(len(witness), 10)
        plain = self.plain(argv)
        self.fresh_run()
        result = self.under(host, argv, DLHOOK_ONEDNN_LEVEL=level)
        self.assert_same_behaviour(plain, result, host)
        trace = e2e.Run(self.run_path).trace()
        self.assert_no_loss(trace)
        recorded = frameworks.recorded_lines(trace)
        self.assertEqual(len(recorded), len(witness))
        for number, (ours, theirs) in enumerate(zip(recorded, witness, strict=True)):
            self.assertEqual(ours, theirs, f"line {number}")
        return trace

    def test_lenet(self):
        for threads in (1, 2):
            with self.subTest(threads=threads):
                self.check([PYTHON, LENET, "--epochs", "1", "--threads", str(threads)], 1, "launcher")

    def test_lenet_with_creations(self):
        self.check([PYTHON, LENET, "--epochs", "1", "--threads", "1"], 2, "launcher")

    def test_cnn(self):
        # Every kind of run under one host, one kind under all hosts.
        cases = (([4, 1], 1, "writer"), ([4, 1], 2, "launcher"), ([4, 1], 1, "rings"), ([4, 2], 2, "writer"),
                 ([4, 2, "channels_last"], 1, "launcher"), ([4, 1, "inference"], 2, "rings"))
        for arguments, level, host in cases:
            with self.subTest(arguments=arguments, level=level, host=host):
                self.check(program("cnn", *arguments), level, host)

    def test_tap_off(self):
        trace = self.recorded("writer", program("cnn", 2, 1), DLHOOK_ONEDNN="off").trace()
        self.assertEqual(frameworks.recorded_lines(trace), [])
        states = {e2e.one(c, "state") for c in trace.capabilities if "onednn" in e2e.one(c, "name", "")}
        self.assertIn("OFF", states)


if __name__ == "__main__":
    e2e.main()
