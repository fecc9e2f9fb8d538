// Not linked to any BLAS; reaches it by dlopen + dlsym. opened CALLS [deepbind], or
// opened CALLS version LIBRARY: of this library, by dlvsym
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"

int main(int argc, char** argv) {
  const char* how = argc > 2 ? argv[2] : "";
  int flags = RTLD_NOW | RTLD_LOCAL | (strcmp(how, "deepbind") == 0 ? RTLD_DEEPBIND : 0);
  void* library = dlopen(argc > 3 ? argv[3] : "libopenblas.so.0", flags);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  CblasSgemm* gemm = (CblasSgemm*)dlsym(library, "cblas_sgemm");
  if (strcmp(how, "version") == 0) gemm = (CblasSgemm*)dlvsym(library, "cblas_sgemm", "VERSION_1");
  float sum = 0;
  for (int i = 0; i < atoi(argv[1]); ++i) sum += SmallSgemm(gemm, 5, 6, 7);
  printf("sum %.1f missing %s\n", sum, dlsym(library, "no_such_function") ? "set" : "null");
  return 0;
}
