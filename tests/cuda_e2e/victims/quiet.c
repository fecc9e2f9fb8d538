// Programs of which dlhook must leave no trace. quiet noise: only very frequent queries; quiet names: looks up each
// name that it reads, in the global scope, without a CUDA library in the process.
#define _GNU_SOURCE
#include "tell.h"

static int (*cudaGetDevice)(int* device);
static int (*cudaGetDeviceCount)(int* count);
static int (*cudaGetLastError)(void);
static int (*cudaSetDevice)(int device);

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "names") == 0) {
    char name[256];
    int there = 0, asked = 0;
    for (; scanf("%255s", name) == 1; ++asked) {
      if (dlsym(RTLD_DEFAULT, name) == NULL) continue;
      ++there;
      printf("there: %s\n", name);
    }
    printf("%d asked, %d there\n", asked, there);
    return 0;
  }
  int number;
  void* library = Open("libcudart.so.13");
  LOAD(library, cudaGetDevice);
  LOAD(library, cudaGetDeviceCount);
  LOAD(library, cudaGetLastError);
  LOAD(library, cudaSetDevice);
  DO_PLAIN(cudaGetDeviceCount, &number);
  for (int i = 0; i < 10; ++i) DO_PLAIN(cudaGetDevice, &number);
  DO_PLAIN(cudaSetDevice, 0);
  DO_PLAIN(cudaGetLastError);
  return 0;
}
