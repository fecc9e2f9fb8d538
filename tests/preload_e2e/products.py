"""The products of victims/products.c, and their comparison with dlhook's record. Names and numbers of calls come from
the program's own output, shapes are listed here manually.
"""

import collections

import e2e

Product = collections.namedtuple("Product", "m n k trans types kind batch groups",
                                 defaults=("F32:F32:F32", "GEMM", 1, 0))
# victims/products.c, with the names for 32-bit integers.
PRODUCTS = {
    "cblas_sgemm": Product(5, 6, 7, "NT"),
    "sgemm_": Product(4, 5, 6, "TN"),
    "cblas_sgemmt": Product(6, 6, 7, "NT", kind="GEMMT"),
    "cblas_cgemm3m": Product(3, 4, 5, "NN", "C32:C32:C32", "GEMM3M"),
    "cblas_sgemm_batch": Product(4, 5, 6, "NT", batch=5, groups=2),
    "sgemm_batch_": Product(4, 5, 6, "NT", batch=5, groups=2),
    "cblas_sgemm_batch_strided": Product(2, 3, 4, "NN", batch=5),
    "cblas_sgemm_pack": Product(5, 6, 7, "NN", kind="PACK"),
    "cblas_sgemm_compute": Product(5, 6, 7, "PN", kind="COMPUTE"),
    "cblas_gemm_bf16bf16f32": Product(5, 6, 8, "NT", "BF16:BF16:F32"),
    "cblas_gemm_f16f16f32": Product(5, 6, 8, "TN", "F16:F16:F32"),
    "cblas_hgemm": Product(5, 6, 8, "NN", "F16:F16:F16"),
    # In row-major order MKL takes the unsigned matrix as A.
    "cblas_gemm_s8u8s32": Product(5, 6, 8, "NN", "U8:S8:S32"),
    "cblas_gemm_s16s16s32": Product(5, 6, 8, "NT", "S16:S16:S32"),
}
# 2 m n k of the groups: 2 times 4, 5, 6 and 3 times 7, 8, 9.
BATCH_FLOPS = 2 * 2 * 4 * 5 * 6 + 3 * 2 * 7 * 8 * 9


def name_of_64_bits(name):
    return name + "_64" if name.startswith("cblas_") else name + "64_"


def product_of(op):
    gemm = e2e.one(op, "gemm")
    return Product(*(e2e.one(gemm, field, 0) for field in "mnk"), e2e.one(gemm, "trans_a") + e2e.one(gemm, "trans_b"),
                   ":".join(e2e.one(gemm, field) for field in ("a_type", "b_type", "c_type")),
                   e2e.one(gemm, "kind", "GEMM"), e2e.one(gemm, "batch", 0), e2e.one(gemm, "groups", 0))


class Case(e2e.Case):
    def check(self, library, hosts, victim="products", **extra):
        argv = [e2e.victim(victim), library]
        plain = e2e.run(argv, env=e2e.clean_environment(**extra))
        self.assertEqual(plain.code, 0, plain.err)
        printed = collections.Counter(line.split()[1] for line in plain.out.decode().splitlines())
        for host in hosts:
            with self.subTest(host=host, victim=victim):
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under(host, argv, **extra), host)
                trace = e2e.Run(self.run_path).trace()
                self.assert_no_loss(trace)
                calls = [call for call in trace.top_calls() if "gemm" in call.op]
                self.assertEqual(collections.Counter(e2e.one(call.op, "function") for call in calls), printed)
                spell = name_of_64_bits if victim.endswith("64") else str
                expected = {spell(name): product for name, product in PRODUCTS.items() if spell(name) in printed}
                self.assertEqual({e2e.one(call.op, "function"): product_of(call.op) for call in calls}, expected)
                flops = {e2e.one(e2e.one(call.op, "gemm"), "flops") for call in calls
                         if e2e.one(e2e.one(call.op, "gemm"), "groups")}
                self.assertLessEqual(flops, {BATCH_FLOPS})
        return printed
