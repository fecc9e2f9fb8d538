// Copies, fills and allocations of the CUDA runtime and driver: arguments -> CopyShape, AllocationShape.
// Thread: any application thread, after the real function has returned.
#pragma once

#include "preload/hook_arguments.h"

namespace dlhook::inline decode {

// Needs kCopyShapeWords and 4 addresses; the last is a sample of the contents, 0: none.
void DecodeCopy(const CopyArgs& args, CallRecord* record);

void DecodeCopyStruct(const CopyStructArgs& args, CallRecord* record);

// cudaMemcpy3DBatchOp and CUDA_MEMCPY3D_BATCH_OP, which have the same layout. Addresses are those of the first.
void DecodeCopyOperations(const CopyOperationsArgs& args, CallRecord* record);

// cudaMemcpy3DBatchAsync.
void DecodeRuntimeCopyOperations(const RuntimeCopyOperationsArgs& args, CallRecord* record);

// cudaMemset3D: the cudaPitchedPtr and the cudaExtent are passed by value.
void DecodeSet3d(const Set3dArgs& args, CallRecord* record);

// Arrays of copies in one call. Addresses are those of the first.
void DecodeCopyBatch(const CopyBatchArgs& args, CallRecord* record);

// cudaMemcpyBatchAsync.
void DecodeRuntimeCopyBatch(const RuntimeCopyBatchArgs& args, CallRecord* record);

// Needs kAllocationShapeWords and 2 addresses.
void DecodeAllocation(const AllocationArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
