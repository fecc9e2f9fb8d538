// Calls sgemm_ and prints, as one JSON object, what its threads and its process paid for it. Unaware of dlhook.
//   gemm_caller THREADS BATCHES CALLS [PAUSE_US [SETTLE_MS]]
// Each thread makes BATCHES times CALLS calls with 40 shapes, four call sites and 480 operands (as a network of some forty
// layers would), and sleeps PAUSE_US after each batch. Four calls of each thread come before and are not measured. SETTLE_MS: sleep
// after those and before the last reading, so that background work has begun and has finished.
//   thread_ns      per thread: CPU time of the thread per call, median of its batches
//   process_ns     CPU time of the whole process per call, background threads included
//   background_ns  CPU time per call of the parent (the launcher that drains) and of the processes in BENCH_WATCH
//   anon_kib, shmem_kib   memory: [before the first call, after the first tenth, at the end], all threads still alive
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu_time.h"

void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c, const int* ldc,
            size_t trans_a_length, size_t trans_b_length);

#define SHAPES 40
#define WARM_UP 4  // calls of each thread that are not measured

struct Worker {
  pthread_t thread;
  double* batch_ns;
};

static int g_threads, g_batches, g_calls, g_pause_us;
static pthread_barrier_t g_ready, g_start, g_tenth, g_end, g_leave;

static void CallAll(int calls) {
  static float operands[480];
  static const int sizes[SHAPES] = {8,   16,  24,  32,  40,  48,  56,  64,  72,  80,  88,  96,  104, 112,
                                    120, 128, 136, 144, 152, 160, 168, 176, 184, 192, 200, 208, 216, 224,
                                    232, 240, 248, 256, 264, 272, 280, 288, 296, 304, 312, 320};
  static const int lead = 512;
  static const float one = 1;
  for (int i = 0, at = 0; i < calls; i += 4, at = at + 4 == 160 ? 0 : at + 4) {
    const int* size = &sizes[at % SHAPES];
    float* base = operands + 3 * at;
    sgemm_("N", "N", size, size + 1, size + 2, &one, base, &lead, base + 1, &lead, &one, base + 2, &lead, 1, 1);
    sgemm_("T", "N", size + 1, size, size, &one, base + 3, &lead, base + 4, &lead, &one, base + 5, &lead, 1, 1);
    sgemm_("N", "T", size + 2, size + 1, size, &one, base + 6, &lead, base + 7, &lead, &one, base + 8, &lead, 1, 1);
    sgemm_("N", "N", size + 3, size, size + 1, &one, base + 9, &lead, base + 10, &lead, &one, base + 11, &lead, 1, 1);
  }
}

static void* Work(void* argument) {
  struct Worker* worker = argument;
  int tenth = (g_batches + 9) / 10;
  struct timespec pause = {g_pause_us / 1000000, g_pause_us % 1000000 * 1000L};
  CallAll(WARM_UP);
  pthread_barrier_wait(&g_ready);
  pthread_barrier_wait(&g_start);
  for (int batch = 0; batch < g_batches; ++batch) {
    double before = Nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    CallAll(g_calls);
    worker->batch_ns[batch] = (Nanoseconds(CLOCK_THREAD_CPUTIME_ID) - before) / g_calls;
    if (g_pause_us > 0) nanosleep(&pause, NULL);
    if (batch + 1 == tenth) pthread_barrier_wait(&g_tenth);
  }
  pthread_barrier_wait(&g_end);
  pthread_barrier_wait(&g_leave);
  return NULL;
}

struct Memory {
  long anon_kib, shmem_kib;
};

static struct Memory ReadMemory(void) {
  struct Memory memory = {0, 0};
  char line[256];
  FILE* file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    sscanf(line, "RssAnon: %ld", &memory.anon_kib);
    sscanf(line, "RssShmem: %ld", &memory.shmem_kib);
  }
  if (file != NULL) fclose(file);
  return memory;
}

static void PrintThreads(struct Worker* workers) {
  printf("{\"thread_ns\": [");
  for (int i = 0; i < g_threads; ++i) {
    printf("%s%.4f", i == 0 ? "" : ", ", Median(workers[i].batch_ns, g_batches));
  }
  printf("]");
}

static struct Worker* StartWorkers(void) {
  pthread_barrier_t* barriers[] = {&g_ready, &g_start, &g_tenth, &g_end, &g_leave};
  for (int i = 0; i < 5; ++i) pthread_barrier_init(barriers[i], NULL, (unsigned)g_threads + 1);
  struct Worker* workers = calloc((size_t)g_threads, sizeof *workers);
  for (int i = 0; i < g_threads; ++i) {
    workers[i].batch_ns = calloc((size_t)g_batches, sizeof(double));
    if (pthread_create(&workers[i].thread, NULL, &Work, &workers[i]) != 0) exit(3);
  }
  return workers;
}

int main(int argc, char** argv) {
  if (argc < 4) return fprintf(stderr, "usage: gemm_caller THREADS BATCHES CALLS [PAUSE_US [SETTLE_MS]]\n"), 2;
  g_threads = atoi(argv[1]);
  g_batches = atoi(argv[2]);
  g_calls = atoi(argv[3]);
  g_pause_us = argc > 4 ? atoi(argv[4]) : 0;
  struct timespec settle = {0, (argc > 5 ? atoi(argv[5]) : 0) * 1000000L};
  struct Memory memory[3] = {ReadMemory()};
  struct Worker* workers = StartWorkers();
  pthread_barrier_wait(&g_ready);
  nanosleep(&settle, NULL);  // background threads and processes have started
  double process = Nanoseconds(CLOCK_PROCESS_CPUTIME_ID), background = BackgroundNanoseconds();
  pthread_barrier_wait(&g_start);
  pthread_barrier_wait(&g_tenth);
  memory[1] = ReadMemory();
  pthread_barrier_wait(&g_end);
  nanosleep(&settle, NULL);
  double calls = (double)g_threads * g_batches * g_calls;
  process = (Nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - process) / calls;
  background = (BackgroundNanoseconds() - background) / calls;
  memory[2] = ReadMemory();
  PrintThreads(workers);
  printf(", \"process_ns\": %.4f, \"background_ns\": %.4f", process, background);
  printf(", \"anon_kib\": [%ld, %ld, %ld]", memory[0].anon_kib, memory[1].anon_kib, memory[2].anon_kib);
  printf(", \"shmem_kib\": [%ld, %ld, %ld]}\n", memory[0].shmem_kib, memory[1].shmem_kib, memory[2].shmem_kib);
  fflush(stdout);
  pthread_barrier_wait(&g_leave);
  for (int i = 0; i < g_threads; ++i) pthread_join(workers[i].thread, NULL);
  return 0;
}
