// Dies at a random moment. killed MODE MICROSECONDS COUNTERS THREADS: THREADS threads call cblas_sgemm without end; after
// each call a thread adds one to its counter in the file COUNTERS (mapped, so it outlives the process); another thread
// ends the process after MICROSECONDS. COUNTERS holds, per thread, {tid, completed calls}.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "blas.h"

struct Counter {
  int64_t tid;
  volatile int64_t completed;
};
static struct Counter* counters;
// Not a constant, so that the compiler keeps the access.
static volatile intptr_t nowhere = 8;

static void* Work(void* index) {
  struct Counter* counter = &counters[(intptr_t)index];
  counter->tid = gettid();
  for (;;) {
    SmallSgemm(cblas_sgemm, 60, 60, 60);
    counter->completed = counter->completed + 1;
  }
  return NULL;
}

int main(int argc, char** argv) {
  const char* mode = argv[1];
  int file = open(argv[3], O_RDWR | O_CREAT, 0600);
  if (ftruncate(file, 4096)) return 1;
  counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  for (intptr_t i = 0; i < atoi(argv[4]); ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, Work, (void*)i);
  }
  usleep(atoi(argv[2]));
  if (strcmp(mode, "abort") == 0) abort();
  if (strcmp(mode, "segv") == 0) *(volatile int*)nowhere = 1;
  if (strcmp(mode, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(mode, "_exit") == 0) _exit(0);
  if (strcmp(mode, "exec") == 0) execl("/bin/true", "true", (char*)NULL);
  return 9;
}
