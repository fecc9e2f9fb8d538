// Not linked to any BLAS; reaches it by dlopen + dlsym. opened CALLS [deepbind]
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"

int main(int argc, char** argv) {
  int flags = RTLD_NOW | RTLD_LOCAL | (argc > 2 ? RTLD_DEEPBIND : 0);
  void* library = dlopen("libopenblas.so.0", flags);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  CblasSgemm* gemm = (CblasSgemm*)dlsym(library, "cblas_sgemm");
  float sum = 0;
  for (int i = 0; i < atoi(argv[1]); ++i) sum += SmallSgemm(gemm, 5, 6, 7);
  printf("sum %.1f missing %s\n", sum, dlsym(library, "no_such_function") ? "set" : "null");
  return 0;
}
