// Ways to end a process. lifecycle MODE CALLS: the process makes CALLS calls of 6x7x8, then ends according to MODE.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "blas.h"

// Not a constant, so that the compiler keeps the access.
static volatile intptr_t nowhere = 8;

static void Calls(int count, int m) {
  for (int i = 0; i < count; ++i) SmallSgemm(cblas_sgemm, m, 7, 8);
}

// A child without exec that makes twice as many calls of 9x7x8.
static int ForkedChild(int calls, int leave_at_once) {
  pid_t child = fork();
  if (child == 0) {
    Calls(2 * calls, 9);
    if (leave_at_once) _exit(5);
    exit(5);
  }
  int status;
  waitpid(child, &status, 0);
  printf("child %d\n", WEXITSTATUS(status));
  Calls(calls, 6);
  return 0;
}

int main(int argc, char** argv) {
  const char* mode = argv[1];
  int calls = atoi(argv[2]);
  setvbuf(stdout, NULL, _IONBF, 0);
  if (strcmp(mode, "none") == 0) return puts("no calls") < 0;
  Calls(calls, 6);
  printf("%s after %d\n", mode, calls);
  if (strcmp(mode, "abort") == 0) abort();
  if (strcmp(mode, "segv") == 0) *(volatile int*)nowhere = 1;
  if (strcmp(mode, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(mode, "term") == 0) kill(getpid(), SIGTERM);
  if (strcmp(mode, "_exit") == 0) _exit(6);
  if (strcmp(mode, "quick_exit") == 0) quick_exit(7);
  if (strcmp(mode, "vfork") == 0) {  // the child has the parent's memory
    if (vfork() == 0) _exit(0);
    kill(getpid(), SIGKILL);
  }
  if (strcmp(mode, "fork") == 0) return ForkedChild(calls, 0);
  if (strcmp(mode, "fork_exit") == 0) return ForkedChild(calls, 1);
  if (strcmp(mode, "exec") == 0) execl("/proc/self/exe", argv[0], "return", argv[2], (char*)NULL);
  if (strcmp(mode, "exec_other") == 0) execl("/bin/echo", "echo", "other", (char*)NULL);
  return 9;
}
