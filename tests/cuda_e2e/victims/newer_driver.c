// A libcuda.so.1 of the future: from CUDA 99.0 on a name has a variant with another argument list. As in a genuine
// driver, the returned function need not be the one that the loader finds under that name.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int Copy(uint64_t dst, const void* src, size_t bytes) { return printf("v2 %#lx %zu\n", (long)dst, bytes) < 0; }

int cuMemcpyHtoD_v2(uint64_t dst, const void* src, size_t bytes) { return Copy(dst, src, bytes); }

int cuMemcpyHtoD_v9(size_t bytes, double factor, uint64_t dst, int* left) {
  *left = (int)bytes - 1;
  return printf("v9 %zu %g %#lx\n", bytes, factor, (long)dst) < 0;
}

int cuGetProcAddress_v2(const char* symbol, void** out, int version, uint64_t flags, int* found) {
  *found = strcmp(symbol, "cuMemcpyHtoD") == 0 ? 0 : 1;
  *out = *found != 0 ? NULL : version >= 99000 ? (void*)cuMemcpyHtoD_v9 : (void*)Copy;
  return *found != 0 ? 500 : 0;
}
