// Usage: last_thread MODE: processes that end with their last thread rather than by exit(). main, each thread, each child
// and exit() make two calls.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tiny_blas.h"

static pthread_t main_thread;

static void Call(void) {
  TinyGemm(1, 1, 1);
  TinyGemm(1, 1, 1);
}

static void* Return(void* mode) {
  pthread_join(main_thread, NULL);
  Call();
  printf("thread\n");  // in a buffer that exit() writes
  if (strcmp(mode, "waits") == 0) {
    fflush(stdout);
    getchar();
    Call();
  }
  return NULL;
}

static void* Leave(void* mode) {
  Return(mode);
  fflush(stdout);
  syscall(SYS_exit, 0);
  return NULL;
}

static int Child(void* unused) {
  Call();
  return 7;
}

static int Clone(int flags) {
  int status;
  pid_t child = clone(Child, (char*)malloc(65536) + 65536, flags | SIGCHLD, NULL);
  if (waitpid(child, &status, 0) == child) printf("child %d\n", WEXITSTATUS(status));
  return 5;
}

int main(int argc, char** argv) {
  char* mode = argv[1];
  int is_first = strncmp(mode, "first_", 6) == 0;  // the child makes the first call
  pthread_t thread;
  main_thread = pthread_self();
  atexit(Call);
  if (!is_first) Call();
  if (is_first) mode += 6;
  if (strcmp(mode, "returns") == 0 || strcmp(mode, "waits") == 0) pthread_create(&thread, NULL, Return, mode);
  if (strcmp(mode, "leaves") == 0) pthread_create(&thread, NULL, Leave, mode);
  if (strcmp(mode, "main_leaves") == 0) syscall(SYS_exit, 3);
  if (strcmp(mode, "clone") == 0) return Clone(0);
  if (strcmp(mode, "shares") == 0) return Clone(CLONE_VM);
  if (strcmp(mode, "vfork") == 0) return Clone(CLONE_VM | CLONE_VFORK);
  if (strcmp(mode, "fork") == 0 && fork() != 0) return wait(NULL) > 0 ? 5 : 1;
  pthread_exit(NULL);
}
