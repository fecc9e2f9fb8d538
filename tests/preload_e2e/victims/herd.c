// Threads that all make their first call at the same moment: herd THREADS CALLS.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tiny_blas.h"

static pthread_barrier_t start;
static int calls;

static void* Work(void* unused) {
  pthread_barrier_wait(&start);
  for (int i = 0; i < calls; ++i) TinyGemm(2, 3, 4);
  return NULL;
}

int main(int argc, char** argv) {
  int threads = atoi(argv[1]);
  calls = atoi(argv[2]);
  pthread_t* ids = calloc(threads, sizeof *ids);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 128 << 10);
  pthread_barrier_init(&start, NULL, threads);
  for (int i = 0; i < threads; ++i)
    if (pthread_create(&ids[i], &small, Work, NULL)) return 1;
  for (int i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
  printf("%d threads\n", threads);
  return 0;
}
