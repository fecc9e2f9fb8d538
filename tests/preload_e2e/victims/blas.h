// BLAS as called by the victims. Declared here, so that no vendor's cblas.h is needed and both integer widths are
// available.
#pragma once

#include <stdint.h>

enum { kRowMajor = 101, kColMajor = 102, kNoTrans = 111, kTrans = 112 };

void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                 const float* b, int ldb, float beta, float* c, int ldc);
void cblas_dgemv(int order, int trans, int m, int n, double alpha, const double* a, int lda, const double* x, int incx,
                 double beta, double* y, int incy);
void cblas_dtrsm(int order, int side, int uplo, int trans, int diag, int m, int n, double alpha, const double* a,
                 int lda, double* b, int ldb);
void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c,
            const int* ldc);
void dgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k, const double* alpha,
            const double* a, const int* lda, const double* b, const int* ldb, const double* beta, double* c,
            const int* ldc);

typedef void CblasSgemm(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

// One small product of known shape; returns an element of the result (k).
static inline float SmallSgemm(CblasSgemm* gemm, int m, int n, int k) {
  static __thread float a[64 * 64], b[64 * 64], c[64 * 64];
  for (int i = 0; i < 64 * 64; ++i) a[i] = b[i] = 1;
  gemm(kRowMajor, kNoTrans, kTrans, m, n, k, 1, a, k, b, k, 0, c, n);
  return c[m * n - 1];
}
