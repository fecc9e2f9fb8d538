"""Many threads at once and many one after another."""

import collections
import resource

import e2e


class Threads(e2e.Case):
    def check(self, host, threads, at_once, calls):
        argv = [e2e.victim("churn"), str(threads), str(at_once), str(calls)]
        trace = self.recorded(host, argv).trace()
        self.assert_no_loss(trace)
        self.assert_problems(trace.calls, {("cblas_sgemm", 2, 3, 4, "NT"): threads * calls})
        by_thread = collections.Counter(call.thread_id for call in trace.calls)
        self.assertEqual(len(by_thread), threads)
        self.assertEqual(set(by_thread.values()), {calls})

    def test_200_at_once(self):
        for host in ("launcher", "writer"):
            with self.subTest(host=host):
                self.check(host, 200, 200, 100)

    def test_10000_short_ones(self):
        for host in ("launcher", "writer"):
            with self.subTest(host=host):
                self.check(host, 10000, 20, 1)

    def test_a_herd_of_first_calls(self):
        """Threads waiting for the session to begin sleep: they don't keep its starter from running."""
        threads = 2000
        for host in ("launcher", "writer"):
            with self.subTest(host=host):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                run = self.recorded(host, [e2e.victim("herd"), str(threads), "10"])
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                switches = after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw
                self.assertLess(switches, 25 * threads)
                trace = run.trace()
                self.assertEqual(len(trace.calls) + trace.loss_count(), 10 * threads)


if __name__ == "__main__":
    e2e.main()
