// Signal handlers that call hooked functions, at any moment. signals MODE HANDLERS COUNTS: works until this many handlers
// have run. Each sets the timer for the next: on a machine where a handler takes longer than the timer, work would stand still.
//   plain     handlers on the thread's own stack      alternate  on a small stack of their own
//   leave     every third handler leaves by siglongjmp, out of whatever it interrupted
//   first     as leave, and the process's first call is one that may be left
// Calls of the work are 20x20x20, those of handlers 5x6x7. COUNTS gets how many of each were begun and how many
// returned.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tiny_blas.h"

static volatile long begun, returned, handler_begun, handler_returned, handlers;
static volatile int may_leave, leave;
static sigjmp_buf again;
static timer_t timer;

static void SetTimer(void) {
  struct itimerspec soon = {.it_value = {0, 70 * 1000}};
  timer_settime(timer, 0, &soon, NULL);
}

static void Handle(int number) {
  ++handlers;
  ++handler_begun;
  TinyGemm(5, 6, 7);
  ++handler_returned;
  SetTimer();
  if (leave && may_leave && handlers % 3 == 0) siglongjmp(again, 1);
}

static void StartTimer(int signal, int flags) {
  static char stack[16384];
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_handler = Handle, .sa_flags = flags};
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
  sigaltstack(&alternate, NULL);
  sigaction(signal, &action, NULL);
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  SetTimer();
}

static void Work(long enough) {
  while (handlers < enough) {
    sigsetjmp(again, 1);
    may_leave = 1;
    for (int i = 0; i < 200; ++i) {
      ++begun;
      TinyGemm(20, 20, 20);
      ++returned;
    }
    may_leave = 0;
  }
}

static void FirstCall(void) {
  if (sigsetjmp(again, 1) == 0) {
    may_leave = 1;
    ++begun;
    TinyGemm(20, 20, 20);
    ++returned;
  }
  may_leave = 0;
}

int main(int argc, char** argv) {
  int alternate = strcmp(argv[1], "alternate") == 0;
  leave = strcmp(argv[1], "leave") == 0 || strcmp(argv[1], "first") == 0;
  StartTimer(SIGRTMIN, alternate ? SA_ONSTACK : 0);
  if (strcmp(argv[1], "first") == 0) FirstCall();
  Work(atol(argv[2]));
  signal(SIGRTMIN, SIG_IGN);
  FILE* counts = fopen(argv[3], "w");
  fprintf(counts, "%ld %ld %ld %ld\n", begun, returned, handler_begun, handler_returned);
  fclose(counts);
  puts("done");
  return 0;
}
