// A program that ends in the middle of CUPTI, as one does whose handler of a signal calls exit: while a lock of CUPTI's is
// held that nobody will release. exits_inside BUFFER_BYTES: launches until CUPTI gets its next buffer; the pages for that
// are asked of this program's own mmap.
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda.h"
#include "tell.h"

static size_t fatal_bytes;

void* mmap(void* address, size_t bytes, int protection, int flags, int file, long offset) {
  if (bytes == fatal_bytes) {
    fatal_bytes = 0;
    exit(7);
  }
  return (void*)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
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
  fatal_bytes = (size_t)atol(arguments[1]);
  for (int i = 0; i < 20000; ++i) QUIET(cudaLaunchKernel, (void*)Stub, one, one, NULL, 0, NULL);
  return 0;
}
