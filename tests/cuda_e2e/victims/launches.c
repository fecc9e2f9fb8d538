// Kernel launches of every kind by a program that is linked to the runtime, with what nvcc's start-up code registers;
// then the capture of a stream into a graph and its replay. launches [invalidated]: captures that fail instead
#include "cuda.h"
#include "tell.h"

// Host stubs, whose addresses identify kernels.
static void AddStub(void) { puts("not on a device"); }
static void ScaleStub(void) { puts("not on a device"); }

static const char kAdd[] = "_Z3addPKfS0_Pf";
static const char kScale[] = "_Z5scalePff";
static void* stream;

static void Register(void) {
  static int image;
  void** handle = __cudaRegisterFatBinary(&image);
  __cudaRegisterFunction(handle, (const char*)AddStub, (char*)kAdd, kAdd, -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFunction(handle, (const char*)ScaleStub, (char*)kScale, kScale, -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFatBinaryEnd(handle);
}

static const char* Launch(const char* kernel, dim3 grid, dim3 block, unsigned shared, const char* more) {
  static char facts[512];
  char dynamic[64] = "";
  if (shared != 0) snprintf(dynamic, sizeof dynamic, "launch.shared_bytes=%u", shared);
  snprintf(facts, sizeof facts,
           "launch.kernel=%s launch.grid_x=%u launch.grid_y=%u launch.grid_z=%u launch.block_x=%u launch.block_y=%u "
           "launch.block_z=%u "
           "%s %s",
           kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, dynamic, more);
  return facts;
}

static void Launches(void) {
  dim3 grid = {7, 3, 2}, block = {32, 4, 1}, one = {1, 1, 1}, long_grid = {2147483647, 65535, 65534};
  void* kernel;
  void* library;
  float numbers[2] = {0};
  void* arguments[] = {&numbers[0], &numbers[1]};
  DO(Launch(kAdd, grid, block, 48, ""), cudaLaunchKernel, (void*)AddStub, grid, block, arguments, 48, stream);
  DO(Launch(kScale, long_grid, one, 0, ""), cudaLaunchKernel, (void*)ScaleStub, long_grid, one, arguments, 0, NULL);
  DO_PLAIN(__cudaGetKernel, &kernel, (void*)ScaleStub);
  DO(Launch(kScale, grid, one, 5, ""), __cudaLaunchKernel, kernel, grid, one, arguments, 5, stream);
  DO(Launch(kAdd, one, block, 100, "launch.cooperative=true"), cudaLaunchCooperativeKernel, (void*)AddStub, one, block,
     arguments, 100, stream);
  LaunchConfig config = {.grid = grid, .block = block, .shared_bytes = 1 << 16, .stream = stream};
  DO(Launch(kScale, grid, block, 1 << 16, ""), cudaLaunchKernelExC, &config, (void*)ScaleStub, arguments);
  // 72 bytes each: cluster dimension, programmatic stream serialization, priority.
  int attributes[3][18] = {{4, 0, 2, 1, 1}, {6, 0, 1}, {8, 0, -5}};
  config.attributes = attributes;
  config.attribute_count = 3;
  DO(Launch(kScale, grid, block, 1 << 16,
            "launch.cluster_x=2 launch.cluster_y=1 launch.cluster_z=1 launch.programmatic=true "
            "launch.priority=-5"),
     cudaLaunchKernelExC, &config, (void*)ScaleStub, arguments);
  DO_PLAIN(cudaLibraryLoadData, &library, kAdd, NULL, NULL, 0, NULL, NULL, 0);
  DO_PLAIN(cudaLibraryGetKernel, &kernel, library, "from_a_library");
  DO(Launch("from_a_library", one, grid, 0, ""), cudaLaunchKernel, kernel, one, grid, arguments, 0, stream);
}

static void Capture(void) {
  dim3 grid = {5, 1, 1}, block = {64, 1, 1};
  void *device, *pinned, *other, *graph, *executable;
  DO("allocation.kind=DEVICE allocation.bytes=4096", cudaMalloc, &device, 4096);
  DO("allocation.kind=PINNED allocation.bytes=4096", cudaMallocHost, &pinned, 4096);
  DO_PLAIN(cudaStreamCreate, &other);
  DO_PLAIN(cudaStreamBeginCapture, stream, 2);
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=512 copy.asynchronous=true copy.host_memory=PINNED captured=true",
     cudaMemcpyAsync, device, pinned, 512, kHostToDevice, stream);
  DO(Launch(kAdd, grid, block, 0, "captured=true"), cudaLaunchKernel, (void*)AddStub, grid, block, NULL, 0, stream);
  DO("copy.direction=SET copy.bytes=99 copy.asynchronous=true captured=true", cudaMemsetAsync, device, 1, 99, stream);
  // Another stream at the same time: executed.
  DO(Launch(kScale, grid, block, 0, ""), cudaLaunchKernel, (void*)ScaleStub, grid, block, NULL, 0, other);
  void *to[] = {device}, *from[] = {pinned};
  size_t sizes[] = {64}, none = 0;
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=64 copy.copies=1 copy.host_memory=PINNED copy.asynchronous=true "
     "captured=true",
     cudaMemcpyBatchAsync, to, from, sizes, 1, NULL, &none, 0, stream);
  DO_PLAIN(cudaStreamEndCapture, stream, &graph);
  DO(Launch(kAdd, grid, block, 0, ""), cudaLaunchKernel, (void*)AddStub, grid, block, NULL, 0, stream);
  DO_PLAIN(cudaGraphInstantiate, &executable, graph, 0);
  DO_PLAIN(cudaGraphDestroy, graph);
  for (int i = 0; i < 3; ++i) DO_PLAIN(cudaGraphLaunch, executable, stream);
  DO_PLAIN(cudaStreamSynchronize, stream);
  DO_PLAIN(cudaGraphExecDestroy, executable);
}

// A capture that fails (by DLHOOK_FAKE_FAIL): the program destroys the stream, and the next one often has its address.
static void Invalidated(void) {
  dim3 one = {1, 1, 1};
  void *graph, *other;
  DO_PLAIN(cudaStreamBeginCapture, stream, 2);
  DO(Launch(kAdd, one, one, 0, "captured=true"), cudaLaunchKernel, (void*)AddStub, one, one, NULL, 0, stream);
  FAILS(901, "", cudaStreamBeginCapture, stream, 2);
  FAILS(901, "", cudaStreamEndCapture, stream, &graph);
  DO_PLAIN(cudaStreamDestroy, stream);
  DO_PLAIN(cudaStreamCreate, &stream);
  DO(Launch(kAdd, one, one, 1, ""), cudaLaunchKernel, (void*)AddStub, one, one, NULL, 1, stream);
  DO_PLAIN(cudaStreamCreate, &other);
  DO_PLAIN(cudaStreamBeginCapture, stream, 2);
  FAILS(401, "", cudaStreamEndCapture, other, &graph);  // was never begun
  DO(Launch(kAdd, one, one, 2, "captured=true"), cudaLaunchKernel, (void*)AddStub, one, one, NULL, 2, stream);
  DO_PLAIN(cudaStreamEndCapture, stream, &graph);
  DO(Launch(kAdd, one, one, 3, ""), cudaLaunchKernel, (void*)AddStub, one, one, NULL, 3, stream);
}

int main(int argc, char** argv) {
  Register();
  DO_PLAIN(cudaStreamCreate, &stream);
  if (argc > 1 && strcmp(argv[1], "invalidated") == 0) {
    Invalidated();
    return 0;
  }
  Launches();
  Capture();
  return 0;
}
