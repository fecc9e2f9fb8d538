// libcuda.so.1: memory, copies, modules, launches, streams and events. The counterparts of cudart/,
// for programs with a static runtime.
#include <cstring>

#include "activity.h"

using fake::Kernel;
using fake::StreamOf;

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kNotReady = 600;

int Synchronously(int status) {
  fake::WaitForStream(nullptr, false);
  return status;
}

}  // namespace

// --- memory and copies ---

FAKE(int, cuMemAlloc_v2, void** out, size_t bytes) {
  *out = fake::AllocateDevice(fake::CurrentDevice(), bytes);
  return *out != nullptr ? kSuccess : 2;
}

FAKE(int, cuMemFree_v2, void* memory) { return fake::Free(memory) ? kSuccess : kInvalidValue; }

FAKE(int, cuMemHostAlloc, void** out, size_t bytes, unsigned) {
  *out = fake::AllocatePinned(bytes);
  return *out != nullptr ? kSuccess : 2;
}

FAKE(int, cuMemAllocHost_v2, void** out, size_t bytes) { return behave_cuMemHostAlloc(out, bytes, 0); }
FAKE(int, cuMemFreeHost, void* memory) { return behave_cuMemFree_v2(memory); }

FAKE(int, cuMemGetInfo_v2, size_t* free, size_t* total) {
  fake::DeviceMemory(fake::CurrentDevice(), free, total);
  return kSuccess;
}

// Callers decide by CU_POINTER_ATTRIBUTE_MEMORY_TYPE 2 and DEVICE_ORDINAL 9; the rest is a pointer or a number of 8
// bytes.
FAKE(int, cuPointerGetAttribute, void* value, int attribute, const void* pointer) {
  int device = 0;
  const fake::Memory memory = fake::Classify(pointer, &device);
  if (memory == fake::Memory::kPageable) return kInvalidValue;
  switch (attribute) {
    case 2:
      *static_cast<unsigned*>(value) = memory == fake::Memory::kPinned ? 1 : 2;
      break;
    case 3:
    case 4:
      *static_cast<const void**>(value) = pointer;
      break;
    case 8:
      *static_cast<int*>(value) = memory == fake::Memory::kManaged;
      break;
    case 9:
      *static_cast<int*>(value) = device;
      break;
    default:
      *static_cast<uint32_t*>(value) = 0;
  }
  return kSuccess;
}

FAKE(int, cuMemcpyAsync, void* destination, const void* source, size_t bytes, void* stream) {
  fake::Copy(stream, destination, source, bytes);
  return kSuccess;
}

FAKE(int, cuMemcpy, void* destination, const void* source, size_t bytes) {
  return Synchronously(behave_cuMemcpyAsync(destination, source, bytes, nullptr));
}

FAKE(int, cuMemcpyHtoD_v2, void* to, const void* from, size_t bytes) {
  return Synchronously(behave_cuMemcpyAsync(to, from, bytes, nullptr));
}
FAKE(int, cuMemcpyDtoH_v2, void* to, const void* from, size_t bytes) {
  return Synchronously(behave_cuMemcpyAsync(to, from, bytes, nullptr));
}
FAKE(int, cuMemcpyDtoD_v2, void* to, const void* from, size_t bytes) {
  return Synchronously(behave_cuMemcpyAsync(to, from, bytes, nullptr));
}

FAKE(int, cuMemcpyHtoDAsync_v2, void* to, const void* from, size_t bytes, void* stream) {
  return behave_cuMemcpyAsync(to, from, bytes, stream);
}

FAKE(int, cuMemcpyDtoHAsync_v2, void* to, const void* from, size_t bytes, void* stream) {
  return behave_cuMemcpyAsync(to, from, bytes, stream);
}

FAKE(int, cuMemcpyDtoDAsync_v2, void* to, const void* from, size_t bytes, void* stream) {
  return behave_cuMemcpyAsync(to, from, bytes, stream);
}

FAKE(int, cuMemcpyWithAttributesAsync, void* to, const void* from, size_t bytes, const void*, void* stream) {
  return behave_cuMemcpyAsync(to, from, bytes, stream);
}

FAKE(int, cuMemcpy3DWithAttributesAsync, const fake::CopyOperation* operation, uint64_t, void* stream) {
  fake::CopyOperations(stream, operation, 1);
  return kSuccess;
}

FAKE(int, cuMemcpy3DBatchAsync_v2, size_t count, const fake::CopyOperation* operations, uint64_t, void* stream) {
  fake::CopyOperations(stream, operations, count);
  return kSuccess;
}

FAKE(int, cuMemsetD8Async, void* memory, unsigned char value, size_t count, void* stream) {
  fake::Set(stream, memory, value, count);
  return kSuccess;
}

FAKE(int, cuMemsetD8_v2, void* memory, unsigned char value, size_t count) {
  return behave_cuMemsetD8Async(memory, value, count, nullptr);
}

FAKE(int, cuMemsetD32Async, void* memory, unsigned value, size_t count, void* stream) {
  fake::Set(stream, memory, static_cast<int>(value & 0xff), count * 4);
  return kSuccess;
}

FAKE(int, cuMemsetD32_v2, void* memory, unsigned value, size_t count) {
  return behave_cuMemsetD32Async(memory, value, count, nullptr);
}

// --- modules and launches ---

FAKE(int, cuModuleLoadData, void** module, const void*) {
  *module = fake::New<Kernel>();
  return kSuccess;
}

FAKE(int, cuModuleLoadDataEx, void** module, const void* image, unsigned, void*, void*) {
  return behave_cuModuleLoadData(module, image);
}

FAKE(int, cuModuleLoad, void** module, const char*) { return behave_cuModuleLoadData(module, nullptr); }

FAKE(int, cuLibraryLoadData, void** library, const void* image, void*, void*, unsigned, void*, void*, unsigned) {
  return behave_cuModuleLoadData(library, image);
}

FAKE(int, cuModuleGetFunction, void** function, void*, const char* name) {
  auto* kernel = fake::New<Kernel>();
  kernel->name = strdup(name);  // lives as long as the process, like the kernel
  *function = kernel;
  return kSuccess;
}

FAKE(int, cuLibraryGetKernel, void** kernel, void* library, const char* name) {
  return behave_cuModuleGetFunction(kernel, library, name);
}

FAKE(int, cuKernelGetFunction, void** function, void* kernel) {
  *function = kernel;
  return kSuccess;
}

FAKE(int, cuFuncGetName, const char** name, void* function) {
  *name = static_cast<Kernel*>(function)->name;
  return kSuccess;
}

FAKE(int, cuFuncGetAttribute, int* value, int attribute, void*) {
  *value = attribute == 0 ? 1024 : 0;
  return kSuccess;
}

FAKE(int, cuOccupancyMaxActiveBlocksPerMultiprocessor, int* blocks, void*, int threads, size_t) {
  *blocks = threads > 0 ? 2048 / threads : 1;
  return kSuccess;
}

FAKE(int, cuLaunchKernel, void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
     unsigned block_y, unsigned block_z, unsigned shared, void* stream, void**, void**) {
  fake::LaunchKernel(static_cast<Kernel*>(function), {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, stream,
                     shared);
  return kSuccess;
}

FAKE(int, cuLaunchCooperativeKernel, void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** arguments) {
  return behave_cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments,
                               nullptr);
}

// CUlaunchConfig: six sizes, shared bytes, stream.
FAKE(int, cuLaunchKernelEx, const unsigned* config, void* function, void** arguments, void** extra) {
  void* stream = nullptr;
  memcpy(&stream, reinterpret_cast<const char*>(config) + 32, sizeof stream);
  return behave_cuLaunchKernel(function, config[0], config[1], config[2], config[3], config[4], config[5], config[6],
                               stream, arguments, extra);
}

// --- streams, events ---

FAKE(int, cuStreamCreateWithPriority, void** stream, unsigned flags, int priority) {
  *stream = fake::NewStream(flags, priority);
  return kSuccess;
}

FAKE(int, cuStreamCreate, void** stream, unsigned flags) { return behave_cuStreamCreateWithPriority(stream, flags, 0); }

FAKE(int, cuStreamDestroy_v2, void* stream) {
  fake::DeleteStream(StreamOf(stream));
  return kSuccess;
}

FAKE(int, cuStreamWaitEvent, void* stream, void* event, unsigned) {
  fake::Wait(stream, static_cast<fake::Event*>(event));
  return kSuccess;
}

FAKE(int, cuStreamSynchronize, void* stream) {
  fake::WaitForStream(stream);
  return kSuccess;
}

FAKE(int, cuStreamQuery, void* stream) { return fake::IsOver(StreamOf(stream)->completes_ns) ? kSuccess : kNotReady; }

FAKE(int, cuCtxSynchronize, ) {
  fake::WaitForDevice();
  return kSuccess;
}

FAKE(int, cuEventSynchronize, void* event) {
  fake::WaitForEvent(static_cast<fake::Event*>(event));
  return kSuccess;
}

FAKE(int, cuEventQuery, void* event) {
  return fake::IsOver(static_cast<fake::Event*>(event)->completes_ns) ? kSuccess : kNotReady;
}

FAKE(int, cuStreamGetCtx, void* stream, void** context) {
  *context = fake::ContextOf(StreamOf(stream)->device);
  return kSuccess;
}

FAKE(int, cuStreamIsCapturing, void* stream, int* capturing) {
  *capturing = StreamOf(stream)->capture != nullptr;
  return kSuccess;
}

FAKE(int, cuEventCreate, void** event, unsigned flags) {
  auto* fresh = fake::New<fake::Event>();
  fresh->flags = flags;
  *event = fresh;
  return kSuccess;
}

FAKE(int, cuEventDestroy_v2, void* event) {
  fake::Delete(static_cast<fake::Event*>(event));
  return kSuccess;
}

FAKE(int, cuEventRecord, void* event, void* stream) {
  fake::Record(static_cast<fake::Event*>(event), stream);
  return kSuccess;
}

FAKE(int, cuEventElapsedTime, float* milliseconds, void* begin, void* end) {
  if (!fake::IsOver(static_cast<fake::Event*>(end)->completes_ns)) return kNotReady;
  *milliseconds =
      static_cast<float>(static_cast<fake::Event*>(end)->nanoseconds - static_cast<fake::Event*>(begin)->nanoseconds) /
      1e6f;
  return kSuccess;
}
