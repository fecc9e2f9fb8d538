// A fork storm. storm FORKERS ROUNDS: FORKERS threads each fork ROUNDS children while two other threads call without
// pause. Children are created alternately by fork, vfork and posix_spawn (of this program as `storm child`); all except
// vfork's make three calls, one of them on a separate thread, fork a grandchild that makes two, and leave by _exit.
// storm clone ROUNDS: the bare system call, unknown to the C library; each child makes two calls.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tiny_blas.h"

extern char** environ;
static atomic_int stop;
static int rounds, failed;

static void* OneCall(void* unused) {
  TinyGemm(3, 1, 1);
  return NULL;
}

static void Wait(pid_t child) {
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) failed = 1;
}

static void Child(void) {
  pthread_t thread;
  TinyGemm(3, 1, 1);
  if (pthread_create(&thread, NULL, OneCall, NULL) == 0) pthread_join(thread, NULL);
  TinyGemm(3, 1, 1);
  pid_t grandchild = fork();
  if (grandchild == 0) {
    TinyGemm(4, 1, 1);
    TinyGemm(4, 1, 1);
    _exit(0);
  }
  Wait(grandchild);
  _exit(failed);
}

static void* Fork(void* unused) {
  char* argv[] = {"storm", "child", NULL};
  for (int i = 0; i < rounds; ++i) {
    pid_t child;
    if (i % 3 == 0 && (child = fork()) == 0) Child();
    if (i % 3 == 1 && (child = vfork()) == 0) {
      TinyGemm(5, 1, 1);
      _exit(0);
    }
    if (i % 3 == 2 && posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ)) child = -1;
    Wait(child);
    TinyGemm(6, 1, 1);
  }
  return NULL;
}

static int Clone(int count) {
  for (int i = 0; i < count; ++i) {
    TinyGemm(6, 1, 1);
    pid_t child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    if (child == 0) {
      TinyGemm(4, 1, 1);
      TinyGemm(4, 1, 1);
      _exit(0);
    }
    Wait(child);
  }
  return puts(failed ? "failed" : "done") < 0;
}

static void* Call(void* unused) {
  for (int i = 0; i < 2000 || !stop; ++i) {
    if (i < 2000) TinyGemm(7, 1, 1);
    if (i % 100 == 99) usleep(500);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (strcmp(argv[1], "child") == 0) Child();
  if (strcmp(argv[1], "clone") == 0) return Clone(atoi(argv[2]));
  pthread_t callers[2], forkers[16];
  int count = atoi(argv[1]);
  rounds = atoi(argv[2]);
  for (int i = 0; i < 2; ++i) pthread_create(&callers[i], NULL, Call, NULL);
  for (int i = 0; i < count; ++i) pthread_create(&forkers[i], NULL, Fork, NULL);
  for (int i = 0; i < count; ++i) pthread_join(forkers[i], NULL);
  stop = 1;
  for (int i = 0; i < 2; ++i) pthread_join(callers[i], NULL);
  puts(failed ? "failed" : "done");
  return 0;
}
