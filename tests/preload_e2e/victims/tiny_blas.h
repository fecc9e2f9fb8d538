// A BLAS that does nothing, so that a victim may call it anywhere: in signal handlers, on tiny stacks, a million times.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Called inside of each product if set.
extern void (*tiny_blas_inside)(void);
// Calls of each by this thread.
extern __thread long tiny_blas_singles, tiny_blas_doubles;
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                 const float* b, int ldb, float beta, float* c, int ldc);
void cblas_dgemm(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double* a, int lda,
                 const double* b, int ldb, double beta, double* c, int ldc);

static inline void TinyGemm(int m, int n, int k) {
  float c[1] = {0};
  cblas_sgemm(101, 111, 112, m, n, k, 1, c, k, c, k, 0, c, n);
}

#ifdef __cplusplus
}
#endif
