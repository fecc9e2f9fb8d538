// A program for sanitizers and allocators: 3 threads of 40 products (alternately linked and through dlsym), a forked child with
// 10, commonly replaced functions of the C library, and a fault to be found.
// sanitized FAULT: none, race, overflow, leak, undefined.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tiny_blas.h"

static __typeof__(&cblas_sgemm) found;
static int racing;
static int shared;

static void* Work(void* calls) {
  float c[1] = {0};
  for (int i = 0; i < *(int*)calls; ++i) {
    if (i % 2)
      found(101, 111, 111, 5, 6, 7, 1, c, 7, c, 6, 0, c, 6);
    else
      TinyGemm(2, 3, 4);
    if (racing) ++shared;
    free(strdup(getenv("VICTIM") ? "set" : "unset"));
  }
  return NULL;
}

static void* volatile leaked;

int main(int argc, char** argv) {
  int calls = 40, calls_in_child = 10;
  racing = strcmp(argv[1], "race") == 0;
  found = (__typeof__(found))dlsym(RTLD_DEFAULT, "cblas_sgemm");
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, Work, &calls);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  printf("%s %.1f\n", "done", 1.5);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    Work(&calls_in_child);
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("child %d\n", WEXITSTATUS(status));
  fflush(stdout);
  char* volatile memory = malloc(argc * 10);
  int volatile large = INT_MAX;
  if (strcmp(argv[1], "overflow") == 0) memory[argc * 10] = 1;
  if (strcmp(argv[1], "undefined") == 0) large += argc;
  if (strcmp(argv[1], "leak") == 0) {
    leaked = malloc(1000);
    leaked = NULL;
  }
  free(memory);
  return 0;
}
