// Steps on two devices with two streams each: concurrent copies and kernels, concurrent kernels, waiting at the end of
// each. Reports nothing: the fakes' log has the work.
#include "cuda.h"
#include "tell.h"

enum { kDevices = 2, kStreams = 2, kSteps = 6, kBytes = 1 << 16 };

static void FirstStub(void) { puts("not on a device"); }
static void SecondStub(void) { puts("also not on a device"); }
static void *memory[kDevices], *pinned, *streams[kDevices][kStreams];

static void Start(void) {
  static int image;
  void** handle = __cudaRegisterFatBinary(&image);
  __cudaRegisterFunction(handle, (const char*)FirstStub, NULL, "_Z5firstPf", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFunction(handle, (const char*)SecondStub, NULL, "_Z6secondPfi", -1, NULL, NULL, NULL, NULL, NULL);
  QUIET(cudaMallocHost, &pinned, 2 * kBytes);
  for (int device = 0; device < kDevices; ++device) {
    QUIET(cudaSetDevice, device);
    QUIET(cudaMalloc, &memory[device], 2 * kBytes);
    for (int i = 0; i < kStreams; ++i) QUIET(cudaStreamCreate, &streams[device][i]);
  }
}

static void Launch(void (*stub)(void), void* stream) {
  const dim3 grid = {7, 3, 2}, block = {32, 4, 1};
  QUIET(cudaLaunchKernel, (void*)stub, grid, block, NULL, 48, stream);
}

static void Step(int device) {
  void** own = streams[device];
  char* there = memory[device];
  QUIET(cudaSetDevice, device);
  QUIET(cudaMemcpyAsync, there, pinned, kBytes, kHostToDevice, own[0]);
  Launch(FirstStub, own[1]);
  Launch(SecondStub, own[0]);
  if (device == 0) QUIET(cudaMemcpyAsync, (char*)pinned + kBytes, there + kBytes, kBytes, kDeviceToHost, own[1]);
  QUIET(cudaMemsetAsync, there, 7, 333, own[0]);
  QUIET(cudaMemcpyAsync, there + kBytes, there, kBytes, kDeviceToDevice, own[0]);
}

int main(void) {
  Start();
  for (int step = 0; step < kSteps; ++step) {
    for (int device = 0; device < kDevices; ++device) Step(device);
    for (int device = 0; device < kDevices; ++device) {
      QUIET(cudaSetDevice, device);
      for (int i = 0; i < kStreams; ++i) QUIET(cudaStreamSynchronize, streams[device][i]);
    }
  }
  return 0;
}
