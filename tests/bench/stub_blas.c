// A BLAS whose sgemm_ returns at once: the remaining cost of a call is that of calling, and of preloaded wrappers.
#include <stddef.h>

void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c, const int* ldc,
            size_t trans_a_length, size_t trans_b_length) {
  // Keeps the compiler from optimizing the call away.
  __asm__ volatile("" ::"r"(trans_a), "r"(trans_b), "r"(m), "r"(n), "r"(k), "r"(alpha) : "memory");
}
