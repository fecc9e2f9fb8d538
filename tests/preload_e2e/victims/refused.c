// Runs a program for which the kernel refuses system calls, as in sandboxes: refused ERRNO NUMBER[,NUMBER…] PROGRAM
// [ARGUMENT…].
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char** argv) {
  static struct sock_filter code[512];
  unsigned short length = 0;
  unsigned answer = SECCOMP_RET_ERRNO | (unsigned)atoi(argv[1]);
  code[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (char* number = strtok(argv[2], ","); number != NULL; number = strtok(NULL, ",")) {
    code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(number), 0, 1);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
  }
  code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {length, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 77;
  execvp(argv[3], argv + 3);
  perror(argv[3]);
  return 127;
}
