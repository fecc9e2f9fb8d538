// To be preloaded: a dgemm_ that calls the next one, like other tools.
#define _GNU_SOURCE
#include <dlfcn.h>

typedef void Dgemm(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
                   const int*, const double*, const int*, const double*, double*, const int*);

void dgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k, const double* alpha,
            const double* a, const int* lda, const double* b, const int* ldb, const double* beta, double* c,
            const int* ldc) {
  Dgemm* next = (Dgemm*)dlsym(RTLD_NEXT, "dgemm_");
  next(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
