// See tiny_blas.h.
#include "tiny_blas.h"

void (*tiny_blas_inside)(void);

void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                 const float* b, int ldb, float beta, float* c, int ldc) {
  if (tiny_blas_inside) tiny_blas_inside();
}
