// A program that ends in the middle of CUPTI, as if a signal handler called exit, while a lock of CUPTI's is held that
// will never be released. exits_inside BUFFER_BYTES: launches until CUPTI gets its next buffer; the system call that
// creates a mapping of this size raises the signal.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda.h"
#include "tell.h"

static void End(int signal) { exit(7); }

static void EndAtMappingsOf(unsigned bytes) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 3, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bytes, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  signal(SIGSYS, End);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) abort();
}

static void Stub(void) { puts("not on a device"); }

int main(int count, char** arguments) {
  static int image;
  const dim3 one = {1, 1, 1};
  void* device;
  if (count < 2) return 1;
  __cudaRegisterFunction(__cudaRegisterFatBinary(&image), (const char*)Stub, NULL, "kernel", -1, NULL, NULL, NULL, NULL,
                         NULL);
  QUIET(cudaMalloc, &device, 4096);
  QUIET(cudaLaunchKernel, (void*)Stub, one, one, NULL, 0, NULL);
  EndAtMappingsOf((unsigned)atol(arguments[1]));
  for (int i = 0; i < 20000; ++i) QUIET(cudaLaunchKernel, (void*)Stub, one, one, NULL, 0, NULL);
  return 0;
}
