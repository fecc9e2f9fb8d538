// A process that runs out of a resource. limits RESOURCE WHEN: RESOURCE is descriptors, address_space, file_size,
// processes, processes_left (one more, for a separate user; then ten calls), locked (all memory is), locked_little (all
// new memory is, and at most 2 MiB may be) or none; the limit is set `before` the first call or `later`. Then 50 calls,
// ten on each of five successive threads, and what the program itself could still do.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tiny_blas.h"

static void* Calls(void* unused) {
  for (int i = 0; i < 10; ++i) TinyGemm(2, 3, 4);
  return NULL;
}

static void Limit(int resource, rlim_t value) {
  struct rlimit limit = {value, value};
  if (setrlimit(resource, &limit)) abort();
}

static rlim_t AddressSpaceInUse(void) {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (fscanf(file, "%ld", &pages) != 1) abort();
  fclose(file);
  return (rlim_t)pages * 4096;
}

// From here on the limit for locked memory applies, also to root.
static void LockNewMemory(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data)) abort();
  data[0].effective &= ~(1u << CAP_IPC_LOCK);
  data[0].permitted &= ~(1u << CAP_IPC_LOCK);
  if (syscall(SYS_capset, &header, data) || mlockall(MCL_FUTURE)) puts("may not lock");
  Limit(RLIMIT_MEMLOCK, 2 << 20);
}

static void LeaveOneProcess(void) {
  if (setgid(12346) || setuid(12346)) puts("may not change user");
  Limit(RLIMIT_NPROC, 2);
  Calls(NULL);
}

static void Apply(const char* resource) {
  if (strcmp(resource, "descriptors") == 0) Limit(RLIMIT_NOFILE, 0);
  if (strcmp(resource, "address_space") == 0) Limit(RLIMIT_AS, AddressSpaceInUse() + (1 << 20));
  if (strcmp(resource, "file_size") == 0) Limit(RLIMIT_FSIZE, 4096);
  if (strcmp(resource, "processes") == 0) Limit(RLIMIT_NPROC, 1);
  if (strcmp(resource, "processes_left") == 0) LeaveOneProcess();
  if (strcmp(resource, "locked") == 0 && mlockall(MCL_CURRENT | MCL_FUTURE)) puts("may not lock");
  if (strcmp(resource, "locked_little") == 0) LockNewMemory();
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  if (strcmp(argv[2], "later") == 0) Calls(NULL);
  Apply(argv[1]);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 128 << 10);
  int threads = 0;
  for (int i = 0; i < 5; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, Calls, NULL) == 0 && ++threads)
      pthread_join(thread, NULL);
    else
      Calls(NULL);
  }
  printf("%d threads\n", threads);
  errno = 0;
  int file = open("/dev/null", O_RDWR);
  printf("%d %s\n", file >= 0, strerror(errno));
  void* memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  printf("%d more\n", memory != MAP_FAILED);
  return 0;
}
