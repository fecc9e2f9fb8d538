"""Products made by PyTorch and NumPy, counted by hand."""

import frameworks
from frameworks import e2e, program


NUMPY_IMPORT = ("scipy_cblas_dgemm64_", 20, 20, 20, "NN")  # frameworks.is_numpys_import: in the pinned release


class Linear(frameworks.Case):
    def test_torch_linear(self):
        # Row-major y[32,24] = x[32,48] W[24,48]^T is, in BLAS's column-major words, y^T[24,32] = op(W)[24,48] x^T[48,32];
        # dx^T[48,32] = W^T[48,24] dy^T[24,32]; dW^T[48,24] = x^T[48,32] dy[32,24]. dy is all ones, expanded (strides 0).
        steps = 11
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                trace = self.recorded(host, program("linear", steps)).trace()
                self.assert_no_loss(trace)
                gemms = [call for call in trace.top_calls()
                         if "gemm" in call.op and not frameworks.is_numpys_import(call)]
                shapes = {}
                for call in gemms:
                    function, m, n, k, _ = e2e.problem(call.op)
                    shapes[function, m, n, k] = shapes.get((function, m, n, k), 0) + 1
                self.assertEqual(shapes, {
                    ("sgemm_", 24, 32, 48): steps, ("sgemm_", 48, 32, 24): steps, ("sgemm_", 48, 24, 32): steps,
                    ("sgemm_", 24, 5, 48): 1, ("dgemm_", 8, 6, 7): 1})
                self.assertEqual({e2e.problem(call.op)[4] for call in gemms
                                  if e2e.problem(call.op)[1:4] == (24, 32, 48)}, {"TN"})


class NumPy(frameworks.Case):
    def test_products(self):
        rounds = 13
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                run = self.recorded(host, program("numpy_products", rounds))
                trace = run.trace()
                self.assert_no_loss(trace)
                self.assert_problems(trace.top_calls(), {
                    NUMPY_IMPORT: 1,
                    ("scipy_cblas_sgemm64_", 20, 40, 30, "NN"): rounds,
                    ("scipy_cblas_dgemm64_", 21, 41, 31, "NN"): rounds,
                    ("scipy_cblas_dgemm64_", 20, 25, 30, "TN"): rounds,
                    ("scipy_cblas_dgemm64_", 9, 9, 5, "NT"): rounds,
                    ("scipy_cblas_dsyrk64_", 0, 6, 6, "N"): rounds,
                    # NumPy requests the transpose of the column-major 32x22 matrix that its row-major 22x32 one is.
                    ("scipy_cblas_dgemv64_", 22, 1, 32, "TN"): rounds,
                    ("scipy_cblas_zgemm64_", 3, 5, 4, "NN"): rounds})
                self.assertEqual(sum(row["calls"] or 0 for row in run.table("ops")), 7 * rounds + 1)


if __name__ == "__main__":
    e2e.main()
