"""MKL's entries that PyTorch's wheel contains statically and exports: batches, packing, narrow types, 64-bit
integers."""

import glob
import os

import frameworks
from frameworks import e2e

# From preload_e2e, like `e2e`.
import products


class Exported(products.Case):
    def setUp(self):
        places = f"{os.path.dirname(frameworks.PYTHON)}/../lib*/python3*/site-packages/torch/lib/libtorch_cpu.so"
        found = glob.glob(places) if frameworks.PYTHON else []
        if not found:
            self.skipTest(frameworks.MISSING)
        self.library = found[0]
        super().setUp()

    def test_names_of_32_bit_integers(self):
        printed = self.check(self.library, ["launcher"])
        self.assertLessEqual({"cblas_sgemm_batch", "sgemm_batch_", "cblas_sgemm_pack", "cblas_sgemm_compute",
                              "cblas_gemm_bf16bf16f32", "cblas_gemm_f16f16f32"}, set(printed))

    def test_names_of_64_bit_integers(self):
        printed = self.check(self.library, ["launcher"], "products_64")
        self.assertLessEqual({"sgemm_64_", "sgemm_batch_64_"}, set(printed))


if __name__ == "__main__":
    e2e.main()
