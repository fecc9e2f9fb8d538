// See tiny_blas.h.
#include "tiny_blas.h"

void (*tiny_blas_inside)(void);
__thread long tiny_blas_singles, tiny_blas_doubles;

void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                 const float* b, int ldb, float beta, float* c, int ldc) {
  ++tiny_blas_singles;
  if (tiny_blas_inside) tiny_blas_inside();
}

void cblas_dgemm(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double* a, int lda,
                 const double* b, int ldb, double beta, double* c, int ldc) {
  ++tiny_blas_doubles;
}
