// Loaded by Multiply.java: linked to OpenBLAS, which thus gets into a local scope of the JVM, and also opens it by
// name. Per call one cblas_sgemm 8x9x10 through its own PLT and one dgemm_ 4x5x6 through a looked-up pointer.
#include <dlfcn.h>
#include <stddef.h>

#include "blas.h"

float Java_Multiply_multiply(void* environment, void* class, int calls) {
  void (*gemm)(const char*, const char*, const int*, const int*, const int*, const double*, const double*, const int*,
               const double*, const int*, const double*, double*, const int*) = NULL;
  *(void**)&gemm = dlsym(dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL), "dgemm_");
  double a[32], b[32], c[32], one = 1, zero = 0;
  for (int i = 0; i < 32; ++i) a[i] = b[i] = 1;
  float sum = 0;
  for (int i = 0; i < calls; ++i) {
    int m = 4, n = 5, k = 6;
    gemm("T", "N", &m, &n, &k, &one, a, &k, b, &k, &zero, c, &m);
    sum += SmallSgemm(cblas_sgemm, 8, 9, 10) + c[0];
  }
  return sum;
}
