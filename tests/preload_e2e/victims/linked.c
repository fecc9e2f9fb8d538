// Linked to OpenBLAS. linked THREADS CALLS: every thread makes CALLS rounds of one call of each kind below.
// Expected per round: cblas_sgemm 8x9x10 row-major N,T; dgemm_ 4x5x6 T,N; cblas_dgemv 7x3; cblas_dtrsm 6x2.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"

static int calls;

static void* Work(void* sum) {
  double a[64], b[64], c[64];
  for (int i = 0; i < 64; ++i) a[i] = b[i] = c[i] = 1;
  for (int i = 0; i < calls; ++i) {
    *(double*)sum += SmallSgemm(cblas_sgemm, 8, 9, 10);
    int m = 4, n = 5, k = 6;
    double one = 1, zero = 0;
    dgemm_("T", "N", &m, &n, &k, &one, a, &k, b, &k, &zero, c, &m);
    *(double*)sum += c[0];
    cblas_dgemv(kColMajor, kNoTrans, 7, 3, 1, a, 7, b, 1, 0, c, 1);
    *(double*)sum += c[6];
    cblas_dtrsm(kColMajor, 141, 121, kNoTrans, 132, 6, 2, 1, a, 6, c, 6);
  }
  return sum;
}

int main(int argc, char** argv) {
  int threads = atoi(argv[1]);
  calls = atoi(argv[2]);
  pthread_t ids[256];
  double sums[256] = {0}, sum = 0;
  for (int i = 0; i < threads; ++i) pthread_create(&ids[i], NULL, Work, &sums[i]);
  for (int i = 0; i < threads; ++i) pthread_join(ids[i], NULL), sum += sums[i];
  printf("sum %.1f\n", sum);
  fprintf(stderr, "done\n");
  return 3;
}
