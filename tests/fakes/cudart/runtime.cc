// libcudart: devices, errors, memory.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "activity.h"
#include "device_properties.h"

using fake::CurrentDevice;

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kInvalidDevice = 101;
// An H100.
constexpr int kCapability[] = {9, 0};
constexpr int kProcessorCount = 132, kThreadsOfProcessor = 2048;
constexpr int kSharedBytes = 48 << 10, kSharedBytesOptIn = 227 << 10;

template <class T>
void Put(void* structure, size_t offset, T value) {
  memcpy(static_cast<char*>(structure) + offset, &value, sizeof value);
}

void FillCommonProperties(void* properties, int device) {
  using namespace device_properties;
  snprintf(static_cast<char*>(properties), 256, "dlhook fake GPU %d", device);
  size_t free = 0, total = 0;
  fake::DeviceMemory(device, &free, &total);
  Put<size_t>(properties, kTotalMemory, total);
  Put<size_t>(properties, kSharedPerBlock, kSharedBytes);
  Put<int>(properties, kRegistersPerBlock, 65536);
  Put<int>(properties, kWarp, 32);
  Put<size_t>(properties, kPitch, 0x7fffffff);
  Put<int>(properties, kThreadsPerBlock, 1024);
  const int block_sizes[] = {1024, 1024, 64}, grid_sizes[] = {0x7fffffff, 65535, 65535};
  memcpy(static_cast<char*>(properties) + kBlockSizes, block_sizes, sizeof block_sizes);
  memcpy(static_cast<char*>(properties) + kGridSizes, grid_sizes, sizeof grid_sizes);
  Put<size_t>(properties, kConstantMemory, 64 << 10);
  Put<int>(properties, device_properties::kMajor, kCapability[0]);
  Put<int>(properties, device_properties::kMinor, kCapability[1]);
  Put<size_t>(properties, kTextureAlignment, 512);
}

void FillProperties(void* properties, int device) {
  using namespace device_properties;
#if FAKE_CUDA_VERSION >= 13000
  memset(properties, 0, kSize13);
  FillCommonProperties(properties, device);
  Put<int>(properties, kProcessors13, kProcessorCount);
  for (const size_t yes : {kConcurrentKernels13, kUnifiedAddressing13, kStreamPriorities13, kCooperativeLaunch13,
                           kMemoryPools13, kClusterLaunch13}) {
    Put<int>(properties, yes, 1);
  }
  Put<int>(properties, kBus13, 0x10 + device);
  Put<int>(properties, kBusWidth13, 5120);
  Put<int>(properties, kL2Cache13, 50 << 20);
  Put<int>(properties, kThreadsPerProcessor13, kThreadsOfProcessor);
  Put<size_t>(properties, kSharedPerProcessor13, 228 << 10);
  Put<int>(properties, kRegistersPerProcessor13, 65536);
  Put<size_t>(properties, kSharedPerBlockOptIn13, kSharedBytesOptIn);
  Put<int>(properties, kBlocksPerProcessor13, 32);
#else
  memset(properties, 0, kFilled12);
  FillCommonProperties(properties, device);
  Put<int>(properties, kProcessors12, kProcessorCount);
#endif
}

bool Valid(int device) { return device >= 0 && device < fake::DeviceCount(); }

}  // namespace

// --- devices and errors ---

FAKE(int, cudaGetDeviceCount, int* count) {
  *count = fake::DeviceCount();
  return *count > 0 ? kSuccess : kNoDevice;
}

FAKE(int, cudaGetDevice, int* device) {
  *device = CurrentDevice();
  return kSuccess;
}

FAKE(int, cudaSetDevice, int device) {
  if (!Valid(device)) return kInvalidDevice;
  fake::SetCurrentDevice(device);
  return kSuccess;
}

FAKE(int, cudaGetDeviceProperties, void* properties, int device) {
  if (!Valid(device)) return kInvalidDevice;
  FillProperties(properties, device);
  return kSuccess;
}

FAKE(int, cudaGetDeviceProperties_v2, void* properties, int device) {
  return behave_cudaGetDeviceProperties(properties, device);
}

FAKE(int, cudaDeviceGetAttribute, int* value, int attribute, int device) {
  if (!Valid(device)) return kInvalidDevice;
  const std::pair<int, int> values[] = {
      {1, 1024},
      {2, 1024},
      {3, 1024},
      {4, 64},
      {5, 0x7fffffff},
      {6, 65535},
      {7, 65535},  // sizes of blocks and grids
      {8, kSharedBytes},
      {10, 32},
      {16, kProcessorCount},
      {39, kThreadsOfProcessor},
      {41, 1},
      {75, kCapability[0]},
      {76, kCapability[1]},
      {97, kSharedBytesOptIn},
  };
  *value = 0;
  for (const auto& [known, given] : values) {
    if (known == attribute) *value = given;
  }
  return kSuccess;
}

// Resets the context; all requested work has been executed already.
FAKE(int, cudaDeviceReset, ) {
  fake::DestroyContext(CurrentDevice());
  return kSuccess;
}

FAKE(int, cudaDeviceGetPCIBusId, char* id, int length, int device) {
  snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", 0x10 + device);
  return kSuccess;
}

FAKE(int, cudaDeviceCanAccessPeer, int* can, int device, int peer) {
  *can = device != peer;
  return kSuccess;
}

FAKE(int, cudaDeviceGetStreamPriorityRange, int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return kSuccess;
}

FAKE(int, cudaRuntimeGetVersion, int* version) {
  *version = FAKE_CUDA_VERSION;
  return kSuccess;
}

FAKE(int, cudaDriverGetVersion, int* version) {
  *version = FAKE_CUDA_VERSION;
  return kSuccess;
}

FAKE(int, cudaGetLastError, ) {
  const int error = fake::LastRuntimeError();
  fake::SetLastRuntimeError(kSuccess);
  return error;
}

FAKE(int, cudaPeekAtLastError, ) { return fake::LastRuntimeError(); }

FAKE(const char*, cudaGetErrorName, int error) { return error == kSuccess ? "cudaSuccess" : "cudaErrorOfTheFakes"; }

FAKE(const char*, cudaGetErrorString, int error) {
  static thread_local char text[64];
  snprintf(text, sizeof text, error == kSuccess ? "no error" : "error %d of the fake CUDA runtime", error);
  return text;
}

// --- memory ---

FAKE(int, cudaMalloc, void** out, size_t bytes) {
  *out = fake::AllocateDevice(CurrentDevice(), bytes);
  return *out != nullptr ? kSuccess : kOutOfMemory;
}

FAKE(int, cudaMallocAsync, void** out, size_t bytes, void*) { return behave_cudaMalloc(out, bytes); }
FAKE(int, cudaMallocFromPoolAsync, void** out, size_t bytes, void*, void*) { return behave_cudaMalloc(out, bytes); }

FAKE(int, cudaMallocManaged, void** out, size_t bytes, unsigned) {
  *out = fake::AllocateManaged(bytes);
  return *out != nullptr ? kSuccess : kOutOfMemory;
}

FAKE(int, cudaMallocPitch, void** out, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return behave_cudaMalloc(out, *pitch * height);
}

FAKE(int, cudaHostAlloc, void** out, size_t bytes, unsigned) {
  *out = fake::AllocatePinned(bytes);
  return *out != nullptr ? kSuccess : kOutOfMemory;
}

FAKE(int, cudaMallocHost, void** out, size_t bytes) { return behave_cudaHostAlloc(out, bytes, 0); }

FAKE(int, cudaFree, void* memory) { return fake::Free(memory) ? kSuccess : kInvalidValue; }
FAKE(int, cudaFreeAsync, void* memory, void*) { return behave_cudaFree(memory); }
FAKE(int, cudaFreeHost, void* memory) { return behave_cudaFree(memory); }

FAKE(int, cudaHostRegister, void* memory, size_t bytes, unsigned) {
  fake::RegisterPinned(memory, bytes);
  return kSuccess;
}

FAKE(int, cudaHostUnregister, void* memory) {
  fake::UnregisterPinned(memory);
  return kSuccess;
}

FAKE(int, cudaHostGetDevicePointer, void** out, void* host, unsigned) {
  *out = host;
  return kSuccess;
}

FAKE(int, cudaMemGetInfo, size_t* free, size_t* total) {
  fake::DeviceMemory(CurrentDevice(), free, total);
  return kSuccess;
}

// cudaPointerAttributes: {type, device, devicePointer, hostPointer, …}; nothing after hostPointer is written: the
// struct of CUDA 11 and 12 is shorter.
FAKE(int, cudaPointerGetAttributes, void* attributes, const void* pointer) {
  int device = 0;
  const fake::Memory memory = fake::Classify(pointer, &device);
  const int types[] = {0, 1, 2, 3};  // unregistered, host, device, managed: in the order of fake::Memory
  const bool host = memory != fake::Memory::kDevice && memory != fake::Memory::kPageable;
  Put<int>(attributes, 0, types[static_cast<int>(memory)]);
  Put<int>(attributes, 4, memory == fake::Memory::kPageable ? -2 : device);
  Put<const void*>(attributes, 8, memory == fake::Memory::kPageable ? nullptr : pointer);
  Put<const void*>(attributes, 16, host || memory == fake::Memory::kPageable ? pointer : nullptr);
  return kSuccess;
}

FAKE(int, cudaDeviceGetDefaultMemPool, void** pool, int device) {
  static char pools[64];
  *pool = &pools[device % 64];
  return kSuccess;
}

FAKE(int, cudaDeviceGetMemPool, void** pool, int device) { return behave_cudaDeviceGetDefaultMemPool(pool, device); }

FAKE(int, cudaMemPoolGetAttribute, void*, int attribute, void* value) {
  if (attribute >= 4)
    Put<uint64_t>(value, 0, 0);
  else
    Put<int>(value, 0, 0);
  return kSuccess;
}

FAKE(int, cudaGetSymbolAddress, void** address, const void* symbol) {
  *address = const_cast<void*>(symbol);
  return kSuccess;
}
