// Decoders: arguments of calls -> the shapes of their records. Those of matrix products are in gemm.h and cuda_gemm.h.
// Thread: any application thread, after the real function has returned. No allocation; none needs a GPU.
#pragma once

#include "preload/hook_arguments.h"

namespace dlhook::inline decode {

// Copies, fills and allocations of the CUDA runtime and driver -> CopyShape, AllocationShape.

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

// Collectives and point-to-point messages of NCCL, NVSHMEM and MPI -> CollectiveShape.

// Needs kCollectiveShapeWords and 3 addresses: send buffer, receive buffer, stream.
void DecodeNccl(const NcclArgs& args, CallRecord* record);
void DecodeNvshmem(const NvshmemArgs& args, CallRecord* record);
void DecodeMpi(const MpiArgs& args, CallRecord* record);

// A communicator was destroyed: its address may be reused.
void TrackCommunicatorGone(const CommunicatorGoneArgs& args);

// A new MPI communicator may have the handle of a freed one (after MPI_Comm_free its handle can't be read any more).
void TrackCommunicatorNew(const CommunicatorNewArgs& args);

// The legacy interface of cuDNN: everything about a call is in descriptors, which the library's own getters read at
// call time.

// Needs kCudnnShapeWords and 3 addresses: input, filter (or what else is read), result.
void DecodeCudnn(const CudnnArgs& args, CallRecord* record);

// cudnnRNN{Forward, BackwardData_v8, BackwardWeights_v8}: the data's own descriptors.
void DecodeCudnnRnn(const CudnnRnnArgs& args, CallRecord* record);

// cudnnFind…Algorithm[Ex], cudnnGet…Algorithm_v7: the problem and the candidates. Needs kSearchShapeWords and no address.
void DecodeCudnnSearch(const CudnnSearchArgs& args, CallRecord* record);

// Kernel launches of the CUDA runtime and driver -> LaunchShape. Each needs kLaunchShapeWords and 1 address.
void DecodeLaunch(const LaunchArgs& args, CallRecord* record);
void DecodeDriverLaunch(const DriverLaunchArgs& args, CallRecord* record);
void DecodeLaunchConfig(const LaunchConfigArgs& args, CallRecord* record);

// LIBXSMM (1.17): products, kernels that it looks up or builds, layers of its dnn part.

// C = op(A) op(B), column-major. Every pointer may be null: libxsmm_frontend.h, LIBXSMM_XGEMM, has the defaults.
void DecodeLibxsmmGemm(const LibxsmmGemmArgs& args, CallRecord* record);  // needs kGemmShapeWords and 3 addresses

// Products of one shape. With `threads`, each of them calls and computes its own part.
void DecodeLibxsmmBatch(const LibxsmmBatchArgs& args, CallRecord* record);  // needs kGemmShapeWords and no address

// A kernel for a product: by its shape, or by a descriptor that only the library can read.
void DecodeLibxsmmKernel(const LibxsmmKernelArgs& args, CallRecord* record);  // needs kGemmShapeWords and no address

// Notes which kernels were handed out, and that calls through their pointers are not seen. A lock is taken for the first
// kernel that the program itself asks for, and, where samples are taken, for new ones, whose names go into a file.
void TrackLibxsmmKernel(const LibxsmmKernelArgs& args);

// A layer's handle is created (result), or executed. Needs kLibxsmmShapeWords and no address.
void DecodeLibxsmmLayer(const LibxsmmLayerArgs& args, CallRecord* record);

// A tensor is copied between a plain format and the library's own. Needs kLibxsmmShapeWords and no address.
void DecodeLibxsmmCopy(const LibxsmmCopyArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
