// Work(calls): copies 1, 2, 3 … bytes to the device by the runtime that this plugin is linked to; returns its version.
#include <stdio.h>

#include "cuda.h"

int Work(int calls) {
  static char host[64];
  void* device;
  int version = 0;
  cudaRuntimeGetVersion(&version);
  if (cudaMalloc(&device, sizeof host) != 0) return -1;
  for (int i = 1; i <= calls; ++i) cudaMemcpy(device, host, (size_t)i, kHostToDevice);
  cudaFree(device);
  return version;
}
