"""Every way in which a program reaches BLAS: linked, opened, looked up, from Fortran, nested. Counts by hand."""

import collections
import os
import unittest

import e2e


class Linked(e2e.Case):
    def test_calls_and_shapes(self):
        for host in e2e.HOSTS:
            for threads in (1, 3):
                with self.subTest(host=host, threads=threads):
                    run = self.recorded(host, [e2e.victim("linked"), str(threads), "50"], expected_code=3)
                    trace = run.trace()
                    self.assert_no_loss(trace)
                    count = 50 * threads
                    self.assert_problems(trace.top_calls(), {
                        ("cblas_sgemm", 8, 9, 10, "NT"): count, ("dgemm_", 4, 5, 6, "TN"): count,
                        ("cblas_dgemv", 7, 1, 3, "NN"): count, ("cblas_dtrsm", 6, 2, 0, "N"): count})
                    self.assertEqual(len({call.thread_id for call in trace.calls}), threads)

    def test_details_of_an_op(self):
        trace = self.recorded("writer", [e2e.victim("linked"), "1", "1"], expected_code=3).trace()
        gemms = {e2e.one(call.op, "function"): e2e.one(call.op, "gemm", {}) for call in trace.calls}
        cblas, fortran = gemms["cblas_sgemm"], gemms["dgemm_"]
        self.assertEqual([e2e.one(cblas, field) for field in
                          ("a_type", "row_major", "lda", "ldb", "ldc", "batch")], ["F32", True, 10, 10, 9, 1])
        self.assertEqual([e2e.one(fortran, field) for field in
                          ("a_type", "row_major", "lda", "ldb", "ldc")], ["F64", None, 6, 6, 4])

    def test_report_counts_the_same(self):
        rows = self.recorded("launcher", [e2e.victim("linked"), "2", "25"], expected_code=3).table("ops")
        self.assertEqual(sum(row["calls"] or 0 for row in rows), 4 * 50)

    def test_sequence_numbers_have_no_gap(self):
        trace = self.recorded("writer", [e2e.victim("linked"), "3", "100"], expected_code=3).trace()
        by_thread = collections.defaultdict(list)
        for call in trace.calls:
            by_thread[call.thread_id].append(call.sequence)
        for sequences in by_thread.values():
            self.assertEqual(sorted(sequences), list(range(1, len(sequences) + 1)))


class LookedUp(e2e.Case):
    def test_dlopen_and_dlsym(self):
        for host in e2e.HOSTS:
            for extra in ([], ["deepbind"], ["version", e2e.library("versioned_blas")]):
                with self.subTest(host=host, extra=extra):
                    trace = self.recorded(host, [e2e.victim("opened"), "40", *extra]).trace()
                    self.assert_problems(trace.top_calls(), {("cblas_sgemm", 5, 6, 7, "NT"): 40})

    def test_feature_detection_does_not_flip(self):
        argv = [e2e.victim("probe"), "12"]
        plain = e2e.run(argv)
        self.assertIn(b"before cblas_sgemm: default null with message", plain.out)
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under(host, argv), host)
                # Once a BLAS is global, the name found by RTLD_DEFAULT is hooked.
                self.assert_problems(e2e.Run(self.run_path).trace().top_calls(),
                                     {("cblas_sgemm", 3, 4, 5, "NT"): 12})


def dgetrf_calls(n, block=64):
    """BLAS calls of reference dgetrf on an n x n matrix: dgetrf.f loops over panels, dgetrf2.f halves each one."""
    calls = collections.Counter()

    def panel(m, n):
        if m <= 1 or n <= 1:
            return
        left = min(m, n) // 2
        right = n - left
        panel(m, left)
        calls["dtrsm_", left, right, 0, "N"] += 1
        calls["dgemm_", m - left, right, left, "NN"] += 1
        panel(m - left, right)

    for j in range(0, n, block):
        width = min(block, n - j)
        panel(n - j, width)
        rest = n - j - width
        if rest > 0:
            calls["dtrsm_", width, rest, 0, "N"] += 1
            calls["dgemm_", rest, rest, width, "NN"] += 1
    return calls


class Fortran(e2e.Case):
    @unittest.skipUnless(os.path.exists(e2e.victim("lapack")), "no Fortran compiler or no reference LAPACK at build time")
    def test_lapack_and_own_calls(self):
        expected = dgetrf_calls(200)
        expected["dgemm_", 5, 6, 4, "NN"] += 1
        expected["ssyrk_", 0, 7, 3, "N"] += 1
        argv = [e2e.victim("lapack")]
        plain = e2e.run(argv)
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under(host, argv), host)
                self.assert_problems(e2e.Run(self.run_path).trace().top_calls(), dict(expected))


class Nested(e2e.Case):
    def test_cblas_over_fortran_is_one_call(self):
        run = self.recorded("writer", [e2e.victim("nested"), "30"])
        trace = run.trace()
        self.assert_problems(trace.top_calls(), {("cblas_sgemm", 8, 9, 10, "NT"): 30})
        inner = [call for call in trace.calls if call.parent is not None]
        self.assert_problems(inner, {("sgemm_", 9, 8, 10, "TN"): 30})
        outer = {(call.thread_id, call.sequence) for call in trace.top_calls()}
        self.assertTrue(all((call.thread_id, call.parent) in outer for call in inner))
        # Nested work is counted once: FLOPs and calls of the gemm table are the outer calls'.
        self.assertEqual(sum(row["calls"] for row in run.table("gemm")), 30)


if __name__ == "__main__":
    e2e.main()
