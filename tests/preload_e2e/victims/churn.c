// Many threads. churn THREADS AT_ONCE CALLS: THREADS in all, AT_ONCE alive together, CALLS cblas_sgemm each.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"

static int calls;

static void* Work(void* unused) {
  for (int i = 0; i < calls; ++i) SmallSgemm(cblas_sgemm, 2, 3, 4);
  return NULL;
}

int main(int argc, char** argv) {
  int threads = atoi(argv[1]), at_once = atoi(argv[2]);
  calls = atoi(argv[3]);
  pthread_t ids[256];
  for (int started = 0; started < threads; started += at_once) {
    for (int i = 0; i < at_once; ++i)
      if (pthread_create(&ids[i], NULL, Work, NULL)) return 1;
    for (int i = 0; i < at_once; ++i) pthread_join(ids[i], NULL);
  }
  printf("%d threads\n", threads);
  return 0;
}
