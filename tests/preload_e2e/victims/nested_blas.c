// A BLAS whose cblas_sgemm calls its sgemm_ through the PLT, like the reference libraries.
#include "blas.h"

void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c,
            const int* ldc) {
  for (int i = 0; i < *m * *n; ++i) c[i] = *k;
}

void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                 const float* b, int ldb, float beta, float* c, int ldc) {
  // Row-major: the transposed product, operands swapped.
  sgemm_("T", "N", &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc);
}
