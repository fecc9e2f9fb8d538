// Makes calls as fast as it can: flood MODE THREADS CALLS FILE. Each thread makes CALLS products, alternating three
// shapes; FILE is a mapping that outlives the process and holds, per thread: finished calls, nanoseconds spent inside
// of the products, and nanoseconds spent around them.
//
// MODE: plain; stop (its parent, the launcher, is stopped from the first call to the last); short (CALLS threads one
// after another, with THREADS calls each, counted as one); handler (a timer's handler makes calls, too: counted as the
// second thread's); fork (a child is forked in the middle and makes a tenth of the calls: counted as the second
// thread's); kill (SIGKILL after CALLS calls); filter (a seccomp filter after the first call that kills for madvise,
// kill, statfs and nanosleep).
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tiny_blas.h"

struct Counter {
  volatile int64_t calls, inside_ns, around_ns, padding[5];
};
static struct Counter* counters;
static __thread struct Counter* counter;
static long calls;
static volatile sig_atomic_t ends;

static int64_t Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void Inside(void) {
  int64_t start = Now();
  counter->inside_ns += Now() - start;
}

static void Call(struct Counter* own, long number) {
  counter = own;
  int64_t start = Now();
  TinyGemm(2 + number % 3, 3, 4);
  own->around_ns += Now() - start;
  own->calls = own->calls + 1;
}

static void* Work(void* own) {
  for (long i = 0; i < calls; ++i) Call(own, i);
  return NULL;
}

static void* WorkShort(void* length) {
  for (long i = 0; i < (intptr_t)length; ++i) Call(counters, i);
  return NULL;
}

// One at a time: if a handler takes longer than the timer, the work would stand still.
static void SetTimer(void) {
  struct itimerval soon = {{0, 0}, {0, 200}};
  setitimer(ITIMER_REAL, &soon, NULL);
}

static void Handler(int number) {
  struct Counter* interrupted = counter;
  for (int i = 0; i < 3; ++i) Call(&counters[1], i);
  counter = interrupted;
  if (!ends) SetTimer();
}

static void Filter(void) {
#define KILL(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
  struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                               KILL(SYS_madvise),
                               KILL(SYS_kill),
                               KILL(SYS_statfs),
                               KILL(SYS_nanosleep),
                               KILL(SYS_clock_nanosleep),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(9);
}

int main(int argc, char** argv) {
  const char* mode = argv[1];
  int threads = atoi(argv[2]);
  calls = atol(argv[3]);
  int file = open(argv[4], O_RDWR | O_CREAT, 0600);
  if (ftruncate(file, 1 << 20)) return 1;
  counters = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  tiny_blas_inside = Inside;
  if (strcmp(mode, "short") == 0) {
    for (long i = 0; i < calls; ++i) {
      pthread_t thread;
      pthread_create(&thread, NULL, WorkShort, (void*)(intptr_t)threads);
      pthread_join(thread, NULL);
    }
    return 0;
  }
  if (strcmp(mode, "stop") == 0) {
    Call(&counters[0], 0);
    kill(getppid(), SIGSTOP);
  }
  if (strcmp(mode, "filter") == 0) {
    Call(&counters[0], 0);
    Filter();
  }
  if (strcmp(mode, "handler") == 0) {
    signal(SIGALRM, Handler);
    SetTimer();
  }
  pthread_t ids[256];
  for (int i = 1; i < threads; ++i) pthread_create(&ids[i], NULL, Work, &counters[i]);
  Work(&counters[0]);
  if (strcmp(mode, "kill") == 0) kill(getpid(), SIGKILL);
  for (int i = 1; i < threads; ++i) pthread_join(ids[i], NULL);
  if (strcmp(mode, "handler") == 0) {
    ends = 1;
    signal(SIGALRM, SIG_IGN);
  }
  if (strcmp(mode, "fork") == 0) {
    int child = fork();
    calls /= 10;
    Work(&counters[child == 0]);
    if (child == 0) exit(0);
    waitpid(child, NULL, 0);
  }
  if (strcmp(mode, "stop") == 0) kill(getppid(), SIGCONT);
  return 0;
}
