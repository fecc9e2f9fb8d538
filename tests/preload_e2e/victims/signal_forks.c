// A signal handler forks in the middle of calls; each child returns into the interrupted code, finishes its call and
// ends. Arguments: the number of forks. Prints "done" if every child ended well, else how the first other one ended.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tiny_blas.h"

static pid_t g_parent;
static volatile int g_forks;
static volatile int g_bad_status;

static void SetTimer(int microseconds) {
  struct itimerval timer = {{0, 0}, {0, microseconds}};
  setitimer(ITIMER_REAL, &timer, NULL);
}

static void OnAlarm(int signal) {
  (void)signal;
  pid_t child = fork();
  if (child == 0) return;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  if (status != 0 && g_bad_status == 0) g_bad_status = status;
  ++g_forks;
  SetTimer(20 + rand() % 200);
}

int main(int argc, char** argv) {
  int forks = argc > 1 ? atoi(argv[1]) : 300;
  g_parent = getpid();
  TinyGemm(1, 1, 1);
  struct sigaction action = {.sa_handler = OnAlarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  SetTimer(300);
  while (g_forks < forks) {
    TinyGemm(1, 1, 1);
    if (getpid() != g_parent) _exit(0);
  }
  SetTimer(0);
  if (g_bad_status == 0) {
    puts("done");
  } else {
    printf("a child ended with status 0x%x\n", g_bad_status);
  }
  return 0;
}
