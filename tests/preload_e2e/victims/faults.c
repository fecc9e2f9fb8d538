// Serves its own page faults. faults missing|protected: 100 calls whose operands are in pages that are missing (or
// protected, like every large private mapping of the process except stacks) and registered with userfaultfd; a thread
// answers, and if pages are missing makes a call itself before each answer. Exit code 77: userfaultfd is not available.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tiny_blas.h"

enum { kPage = 4096, kPages = 100 };
static int faults;
static atomic_int served;
static char page[kPage];

static void* Serve(void* unused) {
  struct uffd_msg message;
  while (read(faults, &message, sizeof message) == sizeof message) {
    uint64_t at = message.arg.pagefault.address & ~(uint64_t)(kPage - 1);
    ++served;
    if (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
      struct uffdio_writeprotect open = {{at, kPage}, 0};
      ioctl(faults, UFFDIO_WRITEPROTECT, &open);
    } else {
      TinyGemm(1, 1, 1);
      struct uffdio_copy copy = {at, (uintptr_t)page, kPage, 0, 0};
      ioctl(faults, UFFDIO_COPY, &copy);
    }
  }
  return NULL;
}

static void Protect(uint64_t start, uint64_t bytes) {
  struct uffdio_register range = {{start, bytes}, UFFDIO_REGISTER_MODE_WP, 0};
  struct uffdio_writeprotect protect = {{start, bytes}, UFFDIO_WRITEPROTECT_MODE_WP};
  if (ioctl(faults, UFFDIO_REGISTER, &range) == 0) ioctl(faults, UFFDIO_WRITEPROTECT, &protect);
}

// The shim's own mappings are among them. Not the serving thread's stack, nor the memory around it.
static void ProtectAll(uint64_t but_start, uint64_t but_end) {
  FILE* file = fopen("/proc/self/maps", "r");
  char line[512];
  uint64_t starts[256], ends[256];
  int count = 0;
  while (fgets(line, sizeof line, file) != NULL && count < 256) {
    char access[8], path[256] = "";
    uint64_t start, end;
    if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &start, &end, access, path) < 3) continue;
    int is_wanted = strcmp(access, "rw-p") == 0 && path[0] == 0 && end - start >= 16 * kPage;
    if (!is_wanted || (start < but_end && but_start < end)) continue;
    starts[count] = start;
    ends[count++] = end;
  }
  fclose(file);
  for (int i = 0; i < count; ++i) Protect(starts[i], ends[i] - starts[i]);
}

int main(int argc, char** argv) {
  int is_missing = strcmp(argv[1], "missing") == 0;
  setvbuf(stdout, NULL, _IONBF, 0);
  faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  struct uffdio_api api = {.api = UFFD_API};
  if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0) return 77;
  char* operands = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_t server;
  pthread_attr_t attributes;
  char* fence = mmap(NULL, 66 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* stack = fence + kPage;  // a mapping of its own
  mprotect(stack, 64 * kPage, PROT_READ | PROT_WRITE);
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, 64 * kPage);
  TinyGemm(1, 1, 1);
  pthread_create(&server, &attributes, &Serve, NULL);
  struct uffdio_register range = {{(uintptr_t)operands, kPages * kPage}, UFFDIO_REGISTER_MODE_MISSING, 0};
  if (is_missing && ioctl(faults, UFFDIO_REGISTER, &range) != 0) return 77;
  if (!is_missing) {
    memset(operands, 0, kPages * kPage);
    ProtectAll((uintptr_t)stack, (uintptr_t)stack + 64 * kPage);
  }
  for (int i = 0; i < kPages; ++i) {
    float* operand = (float*)(operands + i * kPage);
    cblas_sgemm(101, 111, 112, 1, 1, 1, 1, operand, 1, operand, 1, 0, operand, 1);
    *(volatile float*)operand = 1;
  }
  printf("%d\n", served >= kPages);
  return 3;
}
