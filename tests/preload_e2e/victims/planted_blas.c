// A BLAS in front of another one. While there is a file of the name $PLANT, products of 32 x 16 take ten times as long.
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "blas.h"

__attribute__((visibility("default"))) void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k,
                                                        float alpha, const float* a, int lda, const float* b, int ldb,
                                                        float beta, float* c, int ldc) {
  static CblasSgemm* real;
  if (real == NULL) real = (CblasSgemm*)dlsym(RTLD_NEXT, "cblas_sgemm");
  const int is_planted = m == 32 && n == 16 && getenv("PLANT") != NULL && access(getenv("PLANT"), F_OK) == 0;
  for (int i = is_planted ? 10 : 1; i > 0; --i)
    real(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
