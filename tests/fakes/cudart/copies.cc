// libcudart: copies and memsets. They really copy, when their stream gets to them: at once, or at a graph's launch.
#include "activity.h"

namespace {

constexpr int kSuccess = 0;

int Synchronously(int status) {
  fake::WaitForStream(nullptr, false);
  return status;
}

}  // namespace

FAKE(int, cudaMemcpyAsync, void* destination, const void* source, size_t bytes, int, void* stream) {
  fake::Copy(stream, destination, source, bytes);
  return kSuccess;
}

FAKE(int, cudaMemcpy, void* destination, const void* source, size_t bytes, int kind) {
  return Synchronously(behave_cudaMemcpyAsync(destination, source, bytes, kind, nullptr));
}

FAKE(int, cudaMemcpyPeerAsync, void* destination, int, const void* source, int, size_t bytes, void* stream) {
  return behave_cudaMemcpyAsync(destination, source, bytes, 3, stream);
}

FAKE(int, cudaMemcpyPeer, void* destination, int, const void* source, int, size_t bytes) {
  return Synchronously(behave_cudaMemcpyAsync(destination, source, bytes, 3, nullptr));
}

FAKE(int, cudaMemcpy2DAsync, void* destination, size_t destination_pitch, const void* source, size_t source_pitch,
     size_t width, size_t height, int, void* stream) {
  for (size_t row = 0; row < height; ++row) {
    fake::Copy(stream, static_cast<char*>(destination) + row * destination_pitch,
               static_cast<const char*>(source) + row * source_pitch, width);
  }
  return kSuccess;
}

FAKE(int, cudaMemcpy2D, void* destination, size_t destination_pitch, const void* source, size_t source_pitch,
     size_t width, size_t height, int kind) {
  return Synchronously(
      behave_cudaMemcpy2DAsync(destination, destination_pitch, source, source_pitch, width, height, kind, nullptr));
}

FAKE(int, cudaMemcpyToSymbolAsync, const void* symbol, const void* source, size_t bytes, size_t offset, int kind,
     void* stream) {
  char* address =
      static_cast<char*>(const_cast<void*>(symbol));  // the shadow variable of the host stands for the device's
  return behave_cudaMemcpyAsync(address + offset, source, bytes, kind, stream);
}

FAKE(int, cudaMemcpyToSymbol, const void* symbol, const void* source, size_t bytes, size_t offset, int kind) {
  return Synchronously(behave_cudaMemcpyToSymbolAsync(symbol, source, bytes, offset, kind, nullptr));
}

FAKE(int, cudaMemcpyFromSymbolAsync, void* destination, const void* symbol, size_t bytes, size_t offset, int kind,
     void* stream) {
  return behave_cudaMemcpyAsync(destination, static_cast<const char*>(symbol) + offset, bytes, kind, stream);
}

FAKE(int, cudaMemcpyFromSymbol, void* destination, const void* symbol, size_t bytes, size_t offset, int kind) {
  return Synchronously(behave_cudaMemcpyFromSymbolAsync(destination, symbol, bytes, offset, kind, nullptr));
}

FAKE(int, cudaMemcpyBatchAsync, void* const* destinations, const void* const* sources, const size_t* sizes,
     size_t count, void*, size_t*, size_t, void* stream) {
  for (size_t i = 0; i < count; ++i) fake::Copy(stream, destinations[i], sources[i], sizes[i]);
  return kSuccess;
}

FAKE(int, cudaMemcpyWithAttributesAsync, void* to, const void* from, size_t bytes, const void*, void* stream) {
  fake::Copy(stream, to, from, bytes);
  return kSuccess;
}

FAKE(int, cudaMemcpy3DWithAttributesAsync, const fake::CopyOperation* operation, uint64_t, void* stream) {
  fake::CopyOperations(stream, operation, 1);
  return kSuccess;
}

FAKE(int, cudaMemsetAsync, void* memory, int value, size_t bytes, void* stream) {
  fake::Set(stream, memory, value, bytes);
  return kSuccess;
}

FAKE(int, cudaMemset, void* memory, int value, size_t bytes) {
  return behave_cudaMemsetAsync(memory, value, bytes, nullptr);
}

FAKE(int, cudaMemset2DAsync, void* memory, size_t pitch, int value, size_t width, size_t height, void* stream) {
  for (size_t row = 0; row < height; ++row) fake::Set(stream, static_cast<char*>(memory) + row * pitch, value, width);
  return kSuccess;
}

FAKE(int, cudaMemset2D, void* memory, size_t pitch, int value, size_t width, size_t height) {
  return behave_cudaMemset2DAsync(memory, pitch, value, width, height, nullptr);
}
