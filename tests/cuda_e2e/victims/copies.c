// Every form of cudaMemcpy and cudaMemset in a program linked to the runtime, with all kinds of host memory.
#include "cuda.h"
#include "tell.h"

enum { kBytes = 1 << 16 };

static char variable[256];  // stands for a __device__ variable
static void *device, *peer, *pinned, *managed, *stream;
static char* pageable;

static void Allocate(void) {
  size_t pitch;
  void* pitched;
  DO(Facts("allocation.kind=DEVICE allocation.bytes=%d", kBytes), cudaMalloc, &device, kBytes);
  DO(Facts("allocation.kind=PINNED allocation.bytes=%d", kBytes), cudaMallocHost, &pinned, kBytes);
  DO(Facts("allocation.kind=MANAGED allocation.bytes=%d", kBytes), cudaMallocManaged, &managed, kBytes, 1);
  DO("allocation.kind=DEVICE allocation.bytes=10000", cudaMallocPitch, &pitched, &pitch, 100, 100);
  DO("allocation.kind=DEVICE allocation.is_free=true", cudaFree, pitched);
  DO_PLAIN(cudaStreamCreate, &stream);
  DO(Facts("allocation.kind=POOL allocation.bytes=%d", kBytes), cudaMallocAsync, &pitched, kBytes, stream);
  DO("allocation.kind=POOL allocation.is_free=true", cudaFreeAsync, pitched, stream);
  QUIET(cudaSetDevice, 1);
  DO(Facts("allocation.kind=DEVICE allocation.bytes=%d", kBytes), cudaMalloc, &peer, kBytes);
  QUIET(cudaSetDevice, 0);
  pageable = malloc(kBytes);
}

static void Linear(void) {
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=1000 copy.host_memory=PAGEABLE", cudaMemcpy, device, pageable, 1000,
     kHostToDevice);
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=1001 copy.host_memory=PINNED", cudaMemcpy, device, pinned, 1001,
     kHostToDevice);
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=1002 copy.host_memory=MANAGED", cudaMemcpy, device, managed, 1002,
     kHostToDevice);
  DO("copy.direction=DEVICE_TO_HOST copy.bytes=1003 copy.host_memory=PAGEABLE", cudaMemcpy, pageable, device, 1003,
     kDeviceToHost);
  DO("copy.direction=DEVICE_TO_HOST copy.bytes=1004 copy.host_memory=PINNED", cudaMemcpy, pinned, device, 1004,
     kDeviceToHost);
  DO("copy.direction=DEVICE_TO_DEVICE copy.bytes=1005", cudaMemcpy, (char*)device + 8192, device, 1005,
     kDeviceToDevice);
  DO("copy.direction=HOST_TO_HOST copy.bytes=1006 copy.host_memory=PAGEABLE", cudaMemcpy, pageable + 8192, pageable,
     1006, kHostToHost);
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=1007 copy.host_memory=PINNED", cudaMemcpy, device, (char*)pinned + 64,
     1007, kDefault);
  DO("copy.direction=DEVICE_TO_HOST copy.bytes=1008 copy.host_memory=PAGEABLE", cudaMemcpy, pageable + 64, device, 1008,
     kDefault);
  DO("copy.direction=DEVICE_TO_DEVICE copy.bytes=1009", cudaMemcpy, (char*)device + 8192, device, 1009, kDefault);
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=1010 copy.host_memory=PAGEABLE", cudaMemcpy_ptds, device, pageable, 1010,
     kHostToDevice);
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=1011 copy.asynchronous=true copy.host_memory=PAGEABLE", cudaMemcpyAsync,
     device, pageable, 1011, kHostToDevice, stream);
  DO("copy.direction=DEVICE_TO_HOST copy.bytes=1012 copy.asynchronous=true copy.host_memory=PINNED", cudaMemcpyAsync,
     pinned, device, 1012, kDeviceToHost, stream);
  DO("copy.direction=DEVICE_TO_HOST copy.bytes=1013 copy.asynchronous=true copy.host_memory=PINNED",
     cudaMemcpyAsync_ptsz, pinned, device, 1013, kDeviceToHost, NULL);
}

// The same memory before, while and after being registered as pinned.
static void Registered(void) {
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=2000 copy.host_memory=PAGEABLE", cudaMemcpy, device, pageable, 2000,
     kHostToDevice);
  DO(Facts("allocation.kind=REGISTERED allocation.bytes=%d", kBytes), cudaHostRegister, pageable, kBytes, 0);
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=2001 copy.host_memory=PINNED", cudaMemcpy, device, pageable, 2001,
     kHostToDevice);
  DO("allocation.kind=REGISTERED allocation.is_free=true", cudaHostUnregister, pageable);
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=2002 copy.host_memory=PAGEABLE", cudaMemcpy, device, pageable, 2002,
     kHostToDevice);
}

static void Peers(void) {
  DO("copy.direction=PEER copy.bytes=3000 copy.destination_device=1", cudaMemcpyPeer, peer, 1, device, 0, 3000);
  DO("copy.direction=PEER copy.bytes=3001 copy.source_device=1 copy.asynchronous=true", cudaMemcpyPeerAsync, device, 0,
     peer, 1, 3001, stream);
  Copy3dPeer copy = {
      .source = {device, 64, 64, 8}, .destination = {peer, 64, 64, 8}, .destination_device = 1, .extent = {40, 6, 2}};
  const char* facts =
      "copy.direction=PEER copy.bytes=480 copy.width_bytes=40 copy.height=6 copy.depth=2 copy.destination_device=1";
  DO(facts, cudaMemcpy3DPeer, &copy);
  char with_async[256];
  snprintf(with_async, sizeof with_async, "%s copy.asynchronous=true", facts);
  DO(with_async, cudaMemcpy3DPeerAsync, &copy, stream);
}

static void Shaped(void) {
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=3300 copy.width_bytes=100 copy.height=33 copy.host_memory=PAGEABLE",
     cudaMemcpy2D, device, 512, pageable, 128, 100, 33, kHostToDevice);
  DO("copy.direction=DEVICE_TO_HOST copy.bytes=220 copy.width_bytes=20 copy.height=11 copy.host_memory=PINNED "
     "copy.asynchronous=true",
     cudaMemcpy2DAsync, pinned, 32, device, 64, 20, 11, kDeviceToHost, stream);
  Copy3d up = {
      .source = {pageable, 64, 64, 8}, .destination = {device, 64, 64, 8}, .extent = {48, 7, 3}, .kind = kHostToDevice};
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=1008 copy.width_bytes=48 copy.height=7 copy.depth=3 "
     "copy.host_memory=PAGEABLE",
     cudaMemcpy3D, &up);
  Copy3d down = {
      .source = {device, 64, 64, 8}, .destination = {pinned, 64, 64, 8}, .extent = {16, 5, 2}, .kind = kDefault};
  DO("copy.direction=DEVICE_TO_HOST copy.bytes=160 copy.width_bytes=16 copy.height=5 copy.depth=2 "
     "copy.host_memory=PINNED "
     "copy.asynchronous=true",
     cudaMemcpy3DAsync, &down, stream);
  void* to[] = {device, (char*)device + 4096, (char*)device + 8192};
  void* from[] = {pinned, (char*)pinned + 512, (char*)pinned + 1024};
  size_t sizes[] = {100, 200, 300}, none = 0;
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=600 copy.copies=3 copy.host_memory=PINNED copy.asynchronous=true",
     cudaMemcpyBatchAsync, to, from, sizes, 3, NULL, &none, 0, stream);
}

static void Symbols(void) {
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=32 copy.host_memory=PAGEABLE", cudaMemcpyToSymbol, variable, pageable,
     32, 8, kHostToDevice);
  DO("copy.direction=DEVICE_TO_HOST copy.bytes=33 copy.host_memory=PAGEABLE", cudaMemcpyFromSymbol, pageable, variable,
     33, 8, kDeviceToHost);
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=34 copy.host_memory=PINNED copy.asynchronous=true",
     cudaMemcpyToSymbolAsync, variable, pinned, 34, 0, kHostToDevice, stream);
  DO("copy.direction=DEVICE_TO_HOST copy.bytes=35 copy.host_memory=PINNED copy.asynchronous=true",
     cudaMemcpyFromSymbolAsync, pinned, variable, 35, 0, kDeviceToHost, stream);
}

static void Sets(void) {
  Pitched pitched = {device, 64, 64, 16};
  Extent extent = {10, 9, 8};
  DO("copy.direction=SET copy.bytes=4000", cudaMemset, device, 7, 4000);
  DO("copy.direction=SET copy.bytes=4001 copy.asynchronous=true", cudaMemsetAsync, device, 7, 4001, stream);
  DO("copy.direction=SET copy.bytes=600 copy.width_bytes=20 copy.height=30", cudaMemset2D, device, 64, 7, 20, 30);
  DO("copy.direction=SET copy.bytes=651 copy.width_bytes=21 copy.height=31 copy.asynchronous=true", cudaMemset2DAsync,
     device, 64, 7, 21, 31, stream);
  DO("copy.direction=SET copy.bytes=720 copy.width_bytes=10 copy.height=9 copy.depth=8", cudaMemset3D, pitched, 7,
     extent);
  DO("copy.direction=SET copy.bytes=720 copy.width_bytes=10 copy.height=9 copy.depth=8 copy.asynchronous=true",
     cudaMemset3DAsync, pitched, 7, extent, stream);
}

int main(void) {
  Allocate();
  Linear();
  Registered();
  Peers();
  Shaped();
  Symbols();
  Sets();
  DO("allocation.kind=PINNED allocation.is_free=true", cudaFreeHost, pinned);
  DO("allocation.kind=DEVICE allocation.is_free=true", cudaFree, device);
  return 0;
}
