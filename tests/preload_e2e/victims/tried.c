// What `dlhook try` and `dlhook contend` are tried on: steps of a network of two layers, to no end. Variables say what else it does:
//   REST_MS      sleeps so long in each step         STEPS    ends by itself after so many
//   WORK         computes each product so often      LOSSES   prints REST_MS as its loss, in each step
//   SHARES       rests for a part of the time, by OMP_NUM_THREADS; "lock": for a multiple
//   ONEDNN_DEFAULT_FPMATH_MODE   rests for a quarter of the time, and the loss is another one
//   STUBBORN     ignores SIGINT and SIGTERM          WRITES   writes a file of this name again and again
//   FORKS        starts a worker, and one in a session of its own, which sleep for ever
//   FAILS        ends with code 3 in its third step; "pinned": only if it may use one processor
//   PLANT        see planted_blas.c
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "blas.h"

enum { kBatch = 32, kIn = 48, kHidden = 64, kOut = 16 };
static float in[kBatch * kIn], hidden[kBatch * kHidden], out[kBatch * kOut], first[kIn * kHidden],
    second[kHidden * kOut], first_change[kIn * kHidden], second_change[kHidden * kOut];

static int Number(const char* name, int standard) {
  const char* const text = getenv(name);
  return text == NULL ? standard : atoi(text);
}

static void Product(int trans_a, int trans_b, int m, int n, int k, const float* a, const float* b, float* c) {
  for (int i = Number("WORK", 1); i > 0; --i) {
    cblas_sgemm(kRowMajor, trans_a, trans_b, m, n, k, 1, a, trans_a == kTrans ? m : k, b, trans_b == kTrans ? k : n, 0,
                c, n);
  }
}

static void Step(void) {
  Product(kNoTrans, kNoTrans, kBatch, kHidden, kIn, in, first, hidden);
  Product(kNoTrans, kNoTrans, kBatch, kOut, kHidden, hidden, second, out);
  Product(kTrans, kNoTrans, kHidden, kOut, kBatch, hidden, out, second_change);
  Product(kNoTrans, kTrans, kBatch, kHidden, kOut, out, second, hidden);
  Product(kTrans, kNoTrans, kIn, kHidden, kBatch, in, hidden, first_change);
}

// As if threads shared the rest of a step, or got in each other's way: others' wait for a processor would be in real ones.
static void Rest(int ms) {
  const char* const shares = getenv("SHARES");
  const int threads = shares == NULL ? 1 : Number("OMP_NUM_THREADS", 1);
  const int is_locked = shares != NULL && strcmp(shares, "lock") == 0;
  const long us = is_locked ? ms * 1000L * threads : ms * 1000L / threads;
  const struct timespec rest = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&rest, NULL);
}

static int Processors(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

static void StartWorker(int has_session) {
  if (fork() != 0) return;
  if (has_session) setsid();
  for (;;) pause();
}

int main(void) {
  const int rest_ms = Number("REST_MS", 10), steps = Number("STEPS", 0);
  if (getenv("STUBBORN") != NULL) {
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
  }
  if (getenv("FORKS") != NULL) {
    StartWorker(0);
    StartWorker(1);
  }
  for (int step = 0; steps == 0 || step < steps; ++step) {
    const int is_short = getenv("ONEDNN_DEFAULT_FPMATH_MODE") != NULL;
    Step();
    Rest(is_short ? rest_ms / 4 : rest_ms);
    if (getenv("LOSSES") != NULL) {
      printf("step %d: loss=%d.%d\n", step, rest_ms, is_short ? 25 : 5);
      fflush(stdout);
    }
    if (getenv("WRITES") != NULL) {
      FILE* const file = fopen(getenv("WRITES"), "w");
      fprintf(file, "%d\n", step);
      fclose(file);
    }
    const int fails = getenv("FAILS") != NULL && (strcmp(getenv("FAILS"), "pinned") != 0 || Processors() == 1);
    if (fails && step == 2) return fputs("it must fail\n", stderr), 3;
  }
  return 0;
}
