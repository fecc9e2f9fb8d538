// A library with its own sgemm_ (and an ILP64 sgemm_64_), called through its PLT. Built several times with different
// TAGs. Each function writes TAG into C[0], so that the caller sees whose it got.
#include <stdint.h>

#ifdef ILP64
typedef int64_t Integer;
#else
typedef int Integer;
#endif

void sgemm_(const char* trans_a, const char* trans_b, const Integer* m, const Integer* n, const Integer* k,
            const float* alpha, const float* a, const Integer* lda, const float* b, const Integer* ldb,
            const float* beta, float* c, const Integer* ldc) {
  c[0] = TAG + (float)(*m * *n * *k);
}

void sgemm_64_(const char* trans_a, const char* trans_b, const int64_t* m, const int64_t* n, const int64_t* k,
               const float* alpha, const float* a, const int64_t* lda, const float* b, const int64_t* ldb,
               const float* beta, float* c, const int64_t* ldc) {
  c[0] = TAG + 0.5f + (float)(*m * *n * *k);
}

// The library's function: one sgemm_ of 2x3x4. In the 32-bit build a callee that reads 64 bits finds -1 in the upper
// half.
float Run(void) {
  Integer sizes[] = {2, -1, 3, -1, 4, -1};
  float one = 1, c[1] = {0};
  sgemm_("N", "T", &sizes[0], &sizes[2], &sizes[4], &one, c, &sizes[0], c, &sizes[2], &one, c, &sizes[0]);
  return c[0];
}

float Run64(void) {
  int64_t m = 5, n = 6, k = 7;
  float one = 1, c[1] = {0};
  sgemm_64_("T", "N", &m, &n, &k, &one, c, &k, c, &k, &one, c, &m);
  return c[0];
}
