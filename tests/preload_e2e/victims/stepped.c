// One call, interrupted at each of its instructions in turn by a "signal handler" that calls another function:
// stepped ACTION VIA STATE FIRST STRIDE COUNTS. The processor stops after each instruction (trap flag); SIGTRAP stands for a
// signal that the shim can block, so nothing happens where the interrupted mask blocks SIGUSR2.
//   ACTION  call   the handler calls dgemm        same   sgemm            leave  dgemm, then siglongjmp
//           fork   a child calls dgemm three times, returns into the call and ends
//           fibre  switches to a fibre on a higher stack, which calls dgemm and switches back
//           above  like call, on an alternate stack above the thread's own that is disarmed (SS_AUTODISARM)
//   VIA     direct, or dlsym: by a pointer        STATE  warm, or first: the first call of a new thread
// Instructions FIRST, FIRST + STRIDE, … up to the call's last. COUNTS gets how many calls were begun and how many returned.
// Ends with 1 if the wrong function ran.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "tiny_blas.h"

enum { kStackBytes = 1 << 18 };
typedef void Gemm(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
static Gemm* volatile sgemm;
static volatile long begun, returned, handler_doubles, countdown, wrong, instruction, stride;
static volatile int is_hit, is_child;
static const char* action;
static sigjmp_buf again;
static ucontext_t interrupted, fibre;
static char *low_stack, *high_stack;

static int Does(const char* what) { return strcmp(action, what) == 0; }

static void Add(volatile long* count, long calls) { __atomic_fetch_add(count, calls, __ATOMIC_RELAXED); }

static void Single(void) {
  float c[1] = {0};
  Add(&begun, 1);
  sgemm(101, 111, 112, 20, 20, 20, 1, c, 20, c, 20, 0, c, 20);
  Add(&returned, 1);
}

static void Double(void) {
  double c[1] = {0};
  long singles = tiny_blas_singles, doubles = tiny_blas_doubles;
  Add(&begun, 1);
  cblas_dgemm(101, 111, 112, 5, 6, 7, 1, c, 7, c, 7, 0, c, 7);
  Add(&returned, 1);
  Add(&handler_doubles, 1);
  if (tiny_blas_singles != singles || tiny_blas_doubles != doubles + 1) ++wrong;
}

static void Fibre(void) {
  for (;;) {
    Double();
    swapcontext(&fibre, &interrupted);
  }
}

static void Fork(void) {
  pid_t child = fork();
  if (child == 0) {
    is_child = 1;
    for (int i = 0; i < 3; ++i) Double();
    return;
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) {
    printf("a child ended with status 0x%x\n", status);
    ++wrong;
  }
  Add(&begun, 4),
      Add(&returned, 3);  // the interrupted call returns in the child, too, which may not have seen it begin
}

static void OnStep(int number, siginfo_t* info, void* context) {
  ucontext_t* at = context;
  if (sigismember(&at->uc_sigmask, SIGUSR2) || --countdown != 0) return;
  is_hit = 1;
  at->uc_mcontext.gregs[REG_EFL] &= ~0x100;  // no more steps
  if (Does("fork")) return Fork();
  if (Does("fibre")) {
    swapcontext(&interrupted, &fibre);
    return;
  }
  if (Does("same")) Single();
  if (!Does("same")) Double();
  if (Does("leave")) siglongjmp(again, 1);
}

static void Step(void) {
  long doubles = tiny_blas_doubles - handler_doubles, singles = tiny_blas_singles;
  countdown = instruction;
  is_hit = 0;
  if (sigsetjmp(again, 1) == 0) {
    asm volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    Single();
    asm volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
  }
  countdown = 0;
  long ran = tiny_blas_singles - singles - (is_hit && Does("same"));
  if (tiny_blas_doubles - handler_doubles != doubles || ran > 1 || (ran < 1 && !Does("leave"))) ++wrong;
  if (is_child) _exit(wrong != 0);
  for (int i = 0; i < 3; ++i) Single();
}

static void SetAlternateStack(void) {
  stack_t above = {.ss_sp = high_stack, .ss_size = kStackBytes, .ss_flags = (int)(1u << 31)};  // SS_AUTODISARM
  if (Does("above") && sigaltstack(&above, NULL) != 0) abort();
}

static void* StepOnce(void* unused) {
  SetAlternateStack();
  Step();
  return NULL;
}

// On a thread whose stack is below the fibre's and the handlers'.
static void OnNewThread(void* (*function)(void*), void* argument) {
  pthread_attr_t low;
  pthread_t thread;
  pthread_attr_init(&low);
  pthread_attr_setstack(&low, low_stack, kStackBytes);
  if (pthread_create(&thread, &low, function, argument) != 0) abort();
  pthread_join(thread, NULL);
}

static void* StepThroughWarm(void* unused) {
  SetAlternateStack();
  for (int i = 0; i < 5; ++i) Single();
  for (is_hit = 1; is_hit; instruction += stride) Step();
  return NULL;
}

int main(int argc, char** argv) {
  action = argv[1];
  sgemm = strcmp(argv[2], "dlsym") == 0 ? (Gemm*)dlsym(RTLD_DEFAULT, "cblas_sgemm") : cblas_sgemm;
  instruction = atol(argv[4]);
  stride = atol(argv[5]);
  low_stack = mmap(NULL, 2 * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  high_stack = low_stack + kStackBytes;
  getcontext(&fibre);
  fibre.uc_stack = (stack_t){.ss_sp = high_stack, .ss_size = kStackBytes};
  makecontext(&fibre, Fibre, 0);
  struct sigaction trap = {.sa_sigaction = OnStep, .sa_flags = SA_SIGINFO | (Does("above") ? SA_ONSTACK : 0)};
  sigaction(SIGTRAP, &trap, NULL);
  Double();
  if (strcmp(argv[3], "warm") == 0) OnNewThread(StepThroughWarm, NULL);
  if (strcmp(argv[3], "first") == 0) {
    for (is_hit = 1; is_hit; instruction += stride) OnNewThread(StepOnce, NULL);
  }
  FILE* counts = fopen(argv[6], "w");
  fprintf(counts, "%ld %ld\n", begun, returned);
  fclose(counts);
  printf("%ld wrong\n", wrong);
  return wrong != 0;
}
