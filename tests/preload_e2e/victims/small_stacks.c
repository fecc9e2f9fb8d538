// The first call of a process, and of many threads, on the smallest stacks that the C library allows: small_stacks
// THREADS.
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tiny_blas.h"

static void* Call(void* unused) {
  TinyGemm(2, 3, 4);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, sysconf(_SC_THREAD_STACK_MIN))) return 1;
  for (int i = 0; i < atoi(argv[1]); ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, Call, NULL)) return 2;
    pthread_join(thread, NULL);
  }
  puts("done");
  return 0;
}
