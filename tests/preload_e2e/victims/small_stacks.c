// The first call of a process, and of many threads, where there is little room: small_stacks THREADS [BYTES]. On the smallest
// stacks that the C library allows; with BYTES in a signal handler on an alternate stack of this size above a guard page.
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tiny_blas.h"

enum { kPage = 4096, kMostBytes = 1 << 16 };

static void Handle(int number) { TinyGemm(2, 3, 4); }

static void* Call(void* unused) {
  TinyGemm(2, 3, 4);
  return NULL;
}

static void* CallInHandler(void* bytes) {
  char* memory = mmap(NULL, kPage + kMostBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(memory, kPage, PROT_NONE);
  stack_t alternate = {.ss_sp = memory + kPage, .ss_size = *(size_t*)bytes};
  if (sigaltstack(&alternate, NULL) != 0) exit(3);
  raise(SIGUSR1);
  return NULL;
}

int main(int argc, char** argv) {
  size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
  struct sigaction action = {.sa_handler = Handle, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, sysconf(_SC_THREAD_STACK_MIN))) return 1;
  for (int i = 0; i < atoi(argv[1]); ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, bytes ? CallInHandler : Call, &bytes)) return 2;
    pthread_join(thread, NULL);
  }
  puts("done");
  return 0;
}
