// Linked with the toolkit's libcudart_static.a, if available: requests devices, memory and a copy, prints the results.
#include <cuda_runtime_api.h>
#include <stdio.h>

int main(void) {
  int count;
  void* device = NULL;
  char host[64] = "";
  printf("count %d\n", cudaGetDeviceCount(&count));
  printf("malloc %d\n", cudaMalloc(&device, sizeof host));
  printf("copy %d\n", cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
  return 0;
}
