// A plugin with a kernel called KERNEL, registered at load time like by nvcc's code, and Run(), which launches it.
#include <stddef.h>

#include "cuda.h"

static void** handle;

static void Stub(void) {}

__attribute__((constructor)) static void Load(void) {
  static int image;
  handle = __cudaRegisterFatBinary(&image);
  __cudaRegisterFunction(handle, (const char*)Stub, NULL, KERNEL, -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFatBinaryEnd(handle);
}

__attribute__((destructor)) static void Unload(void) { __cudaUnregisterFatBinary(handle); }

// Returns the address that identifies the kernel.
const void* Run(unsigned blocks) {
  const dim3 grid = {blocks, 1, 1}, block = {32, 1, 1};
  cudaLaunchKernel((void*)Stub, grid, block, NULL, 0, NULL);
  return (void*)Stub;
}
