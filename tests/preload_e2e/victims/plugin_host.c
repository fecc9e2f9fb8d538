// Opens plugins and calls their Work(). plugin_host local|deepbind|namespace PLUGIN… Built with HOST_GEMM and -rdynamic
// it defines sgemm_ itself, for all of them.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef HOST_GEMM
void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c,
            const int* ldc) {
  c[0] = (float)*k;
}
#endif

int main(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    int flags = RTLD_NOW | RTLD_LOCAL | (strcmp(argv[1], "deepbind") == 0 ? RTLD_DEEPBIND : 0);
    void* plugin = strcmp(argv[1], "namespace") == 0 ? dlmopen(LM_ID_NEWLM, argv[i], flags) : dlopen(argv[i], flags);
    if (plugin == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
    ((void (*)(void))dlsym(plugin, "Work"))();
  }
  fflush(stdout);
  return 0;
}
