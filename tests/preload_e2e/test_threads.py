"""Many threads at once and many one after another."""

import collections

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


if __name__ == "__main__":
    e2e.main()
