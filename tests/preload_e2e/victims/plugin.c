// A plugin that plugin_host opens and calls. Built in several ways:
//   (nothing)    linked to OpenBLAS, calls its sgemm_ through its PLT
//   OWN_GEMM     defines sgemm_ itself
//   WEAK_GEMM    refers to it weakly, and to nothing that has it
//   ASKS         linked to a BLAS of two functions, calls one, then asks by weak references for two others
//   GROUP        only loads the plugin that asks, beside a library that defines what it asks for
#include <stdio.h>

#ifdef ASKS
#include "tiny_blas.h"
#pragma weak cblas_zgemm
void cblas_zgemm(void);
static void (*const g_table[])(void) = {cblas_zgemm};  // beside the slots of code, in read-only memory
#endif

#ifdef WEAK_GEMM
__attribute__((weak))
#endif
void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc);

#ifdef OWN_GEMM
void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c,
            const int* ldc) {
  c[0] = (float)*k;
}
#endif

#ifndef GROUP
void Work(void) {
#ifdef ASKS
  TinyGemm(2, 3, 4);
  if (sgemm_) puts("sgemm_ is there");
  if (*(void (*volatile const*)(void))g_table) puts("cblas_zgemm is there");
  if (cblas_zgemm) cblas_zgemm();
  puts("asked");
#elif defined WEAK_GEMM
  puts(&sgemm_ == NULL ? "no sgemm_" : "sgemm_ is there");  // not called: it may be null
#else
  int size = 4;
  float one = 1, zero = 0, a[16], c[16] = {0};
  for (int i = 0; i < 16; ++i) a[i] = 1;
  sgemm_("N", "N", &size, &size, &size, &one, a, &size, a, &size, &zero, c, &size);
  printf("%.1f\n", c[0]);
#endif
}
#endif
