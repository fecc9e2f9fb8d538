// A process that drops a right: privileges WHAT WHEN. It makes ten calls (`later`) or none (`before`), then WHAT:
// setuid, setgid, user_namespace, pid_namespace, chroot DIRECTORY, undumpable or filter (seccomp: only what a finished
// program needs); then ten more calls, and except for `filter` ten on a new thread.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tiny_blas.h"

static void* Calls(void* unused) {
  for (int i = 0; i < 10; ++i) TinyGemm(2, 3, 4);
  return NULL;
}

// Kills the process for any system call except these: writing, a lock's, freeing memory, ending.
static int Filter(void) {
#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
  struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                               ALLOW(SYS_write),
                               ALLOW(SYS_futex),
                               ALLOW(SYS_munmap),
                               ALLOW(SYS_exit_group),
                               ALLOW(SYS_rt_sigreturn),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int GiveAway(const char* what, const char* folder) {
  if (strcmp(what, "setuid") == 0) return setuid(65534);
  if (strcmp(what, "setgid") == 0) return setgid(65534);
  if (strcmp(what, "user_namespace") == 0) return unshare(CLONE_NEWUSER);
  if (strcmp(what, "pid_namespace") == 0) return unshare(CLONE_NEWPID);
  if (strcmp(what, "chroot") == 0) return chroot(folder) || chdir("/");
  if (strcmp(what, "undumpable") == 0) return prctl(PR_SET_DUMPABLE, 0);
  if (strcmp(what, "filter") == 0) return Filter();
  return 0;
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  if (strcmp(argv[2], "later") == 0) Calls(NULL);
  int result = GiveAway(argv[1], argv[3]);
  printf("%d %s\n", result, result ? strerror(errno) : "");
  Calls(NULL);
  puts("called");
  if (strcmp(argv[1], "filter") == 0) return 4;
  pthread_t thread;
  if (pthread_create(&thread, NULL, Calls, NULL) == 0) pthread_join(thread, NULL);
  printf("%d %d\n", (int)getuid(), (int)getgid());
  return 5;
}
