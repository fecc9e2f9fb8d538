// Feature detection: looks up BLAS names in every way before and after a BLAS is loaded. Must print the same with
// dlhook. probe CALLS
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"

static const char* Look(void* handle, const char* name) {
  dlerror();
  void* found = dlsym(handle, name);
  // The message names the executable; only whether there is one is compared.
  return found ? "set" : dlerror() ? "null with message" : "null";
}

static void LookAll(const char* when, void* self) {
  const char* names[] = {"cblas_sgemm", "sgemm_", "scipy_cblas_sgemm64_", "cblas_sgemm_pack", "printf"};
  for (int i = 0; i < 5; ++i)
    printf("%s %s: default %s, next %s, self %s\n", when, names[i], Look(RTLD_DEFAULT, names[i]),
           Look(RTLD_NEXT, names[i]), Look(self, names[i]));
}

int main(int argc, char** argv) {
  void* self = dlopen(NULL, RTLD_NOW);
  LookAll("before", self);
  void* local = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  LookAll("local", self);
  dlopen("libopenblas.so.0", RTLD_NOW | RTLD_GLOBAL);
  LookAll("global", self);
  CblasSgemm* gemm = (CblasSgemm*)dlsym(RTLD_DEFAULT, "cblas_sgemm");
  float sum = 0;
  for (int i = 0; gemm && i < atoi(argv[1]); ++i) sum += SmallSgemm(gemm, 3, 4, 5);
  printf("sum %.1f\n", sum);
  return local ? 0 : 1;
}
