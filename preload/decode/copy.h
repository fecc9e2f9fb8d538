// Copies, fills and allocations of the CUDA runtime and driver: arguments -> CopyShape, AllocationShape.
// Thread: any application thread, after the real function has returned.
// The members of the *Args structs are the parameter names of preload/api/*.api.
#pragma once

#include "preload/abi/arguments.h"
#include "preload/format/record.h"

namespace dlhook::inline decode {

struct CopyArgs {
  CopyDirection direction = CopyDirection::kUnknown;  // if the function's name implies it
  bool asynchronous = false;
  uint64_t element_bytes = 1;  // unit of count and width in the driver's memsets
  const void* dst = nullptr;
  const void* src = nullptr;
  uint64_t bytes = 0;  // two-dimensional forms use width * height instead
  uint64_t count = 0;
  int32_t kind = -1;  // cudaMemcpyKind
  uint64_t width = 0;
  uint64_t height = 0;
  int32_t src_device = 0;
  int32_t dst_device = 0;
  const void* stream = nullptr;
  const void* real = nullptr;
};
// Needs kCopyShapeWords and 4 addresses; the last is a sample of the contents, 0: none.
void DecodeCopy(const CopyArgs& args, CallRecord* record);

// Everything is in one structure: cudaMemcpy3DParms, cudaMemcpy3DPeerParms, CUDA_MEMCPY2D, CUDA_MEMCPY3D,
// CUDA_MEMCPY3D_PEER.
enum class CopyStruct : uint8_t { kRuntime3d, kRuntime3dPeer, kDriver2d, kDriver3d, kDriver3dPeer };
struct CopyStructArgs {
  CopyStruct layout = CopyStruct::kRuntime3d;
  bool asynchronous = false;
  const void* parameters = nullptr;
  const void* stream = nullptr;
  const void* real = nullptr;
};
void DecodeCopyStruct(const CopyStructArgs& args, CallRecord* record);

// cudaMemcpy3DBatchOp and CUDA_MEMCPY3D_BATCH_OP, which have the same layout. Addresses are those of the first.
struct CopyOperationsArgs {
  const void* operations = nullptr;
  uint64_t count = 1;
  const void* stream = nullptr;
  const void* real = nullptr;
};
void DecodeCopyOperations(const CopyOperationsArgs& args, CallRecord* record);

// cudaMemcpy3DBatchAsync, whose last parameters depend on the runtime's version.
struct RuntimeCopyOperationsArgs {
  const void* operations = nullptr;
  uint64_t count = 0;
  int64_t stream = 0;
  int64_t last = 0;
  const void* real = nullptr;
};
void DecodeRuntimeCopyOperations(const RuntimeCopyOperationsArgs& args, CallRecord* record);

// cudaMemset3D: the cudaPitchedPtr and the cudaExtent are passed by value.
struct Set3dArgs {
  bool asynchronous = false;
  Struct32 pitched = {};  // address, pitch, width, height
  Struct24 extent = {};   // width in bytes, height, depth
  const void* stream = nullptr;
  const void* real = nullptr;
};
void DecodeSet3d(const Set3dArgs& args, CallRecord* record);

// Arrays of copies in one call. Addresses are those of the first.
struct CopyBatchArgs {
  const void* const* dst = nullptr;
  const void* const* src = nullptr;
  const uint64_t* bytes = nullptr;
  uint64_t count = 0;
  const void* stream = nullptr;
  const void* real = nullptr;
};
void DecodeCopyBatch(const CopyBatchArgs& args, CallRecord* record);

// cudaMemcpyBatchAsync, whose last parameters depend on the runtime's version.
struct RuntimeCopyBatchArgs {
  const void* const* dst = nullptr;
  const void* const* src = nullptr;
  const uint64_t* bytes = nullptr;
  uint64_t count = 0;
  int64_t stream = 0;
  int64_t last = 0;
  const void* real = nullptr;
};
void DecodeRuntimeCopyBatch(const RuntimeCopyBatchArgs& args, CallRecord* record);

struct AllocationArgs {
  AllocationKind kind = AllocationKind::kDevice;
  bool is_free = false;
  const void* out = nullptr;      // void**: receives the address
  const void* pointer = nullptr;  // for a free, or registered memory
  uint64_t bytes = 0;
  uint64_t width = 0;  // for pitched memory: bytes = width * height
  uint64_t height = 0;
  const void* stream = nullptr;
};
// Needs kAllocationShapeWords and 2 addresses.
void DecodeAllocation(const AllocationArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
