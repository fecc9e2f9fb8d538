"""Signal handlers that make calls, at any moment and left in any way; calls that are left by an exception, a
cancellation, the thread's end. The program behaves as without dlhook, and every call that returned is recorded or
counted as lost.
"""

import os

import e2e


# Full early: handlers also interrupt and leave growing rings, and totals.
SMALL = {"DLHOOK_RING_KIB": 64, "DLHOOK_GROWTH_KIB": 1024}


class Counted(e2e.Case):
    def summary(self):
        return {row["metric"]: row["value"] for row in e2e.Run(self.run_path).table("summary")}

    def assert_sound(self, summary):
        """No record was damaged by another one; missing ones had no room in their ring."""
        self.assertLessEqual({metric for metric in summary if metric.startswith("loss:")}, {"loss:ring_full"})
        notes = [row["note"] for row in e2e.Run(self.run_path).table("summary") if row["metric"] == "oddity"]
        self.assertEqual([note for note in notes if "twice" in note], [])


class Handlers(Counted):
    def check(self, mode, host):
        counts = os.path.join(self.folder, "counts")
        self.fresh_run()
        result = self.under(host, [e2e.victim("signals"), mode, "1000", counts], **SMALL)
        self.assertEqual((result.code, result.out), (0, b"done\n"), result.err)
        with open(counts, encoding="ascii") as file:
            begun, returned, handler_begun, handler_returned = map(int, file.read().split())
        summary = self.summary()
        self.assert_sound(summary)
        known = summary["calls"] + summary["lost_calls"]
        self.assertGreaterEqual(known, returned + handler_returned)
        self.assertLessEqual(known, begun + handler_begun)

    def test_modes(self):
        for mode in ("plain", "alternate", "leave", "first"):
            for host in e2e.HOSTS:
                with self.subTest(mode=mode, host=host):
                    self.check(mode, host)


class EveryInstruction(Counted):
    """A handler at each instruction of a call, whatever it does: the right function runs, and every call is known."""

    def check(self, action, via, state, stride, host):
        counts = os.path.join(self.folder, "counts")
        self.fresh_run()
        result = self.under(host, [e2e.victim("stepped"), action, via, state, "1", str(stride), counts])
        self.assertEqual((result.code, result.out), (0, b"0 wrong\n"), result.err)
        with open(counts, encoding="ascii") as file:
            begun, returned = map(int, file.read().split())
        self.assertGreater(begun * stride, 500)
        summary = self.summary()
        self.assert_sound(summary)
        known = summary["calls"] + summary["lost_calls"]
        self.assertGreaterEqual(known, returned)
        self.assertLessEqual(known, begun)
        self.assertLess(summary["lost_calls"], returned / 5)

    def test_warm(self):
        for action in ("call", "same", "leave", "fork", "fibre", "above"):
            for via in ("direct", "dlsym"):
                with self.subTest(action=action, via=via):
                    self.check(action, via, "warm", 1, "writer")

    def test_first_call_of_a_thread(self):
        for action in ("call", "leave", "fork", "above"):
            with self.subTest(action=action):
                self.check(action, "dlsym", "first", 29, "launcher")


class Forks(e2e.Case):
    def test_children_return_into_an_interrupted_call(self):
        argv = [e2e.victim("signal_forks"), "300"]
        plain = e2e.run(argv)
        self.assertEqual(plain.out, b"done\n")
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under(host, argv), host)


class Unwinding(Counted):
    # Recorded calls: those that returned.
    CALLS = {"throw": 1, "cancel": 1, "exit_thread": 1, "pending": 101}

    def test_calls_that_are_left(self):
        for mode, calls in self.CALLS.items():
            argv = [e2e.victim("unwinding"), mode]
            plain = e2e.run(argv)
            for host in e2e.HOSTS:
                with self.subTest(mode=mode, host=host):
                    self.fresh_run()
                    self.assert_same_behaviour(plain, self.under(host, argv), host)
                    trace = e2e.Run(self.run_path).trace()
                    self.assertEqual(len(trace.calls), calls)
                    self.assert_no_loss(trace)

    def test_threads_that_are_cancelled_anywhere(self):
        argv = [e2e.victim("unwinding"), "asynchronous"]
        plain = e2e.run(argv)
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                # About two million calls: most go into totals, and threads are cancelled there, too.
                self.assert_same_behaviour(plain, self.under(host, argv, **SMALL), host)
                summary = self.summary()
                self.assert_sound(summary)
                self.assertGreaterEqual(summary["calls"] + summary["lost_calls"], 101)


if __name__ == "__main__":
    e2e.main()
