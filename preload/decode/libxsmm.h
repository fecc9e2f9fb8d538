// LIBXSMM (1.17): products, kernels that it looks up or builds, layers of its dnn part.
// Thread: any application thread, after the real function has returned. No lock, no allocation.
#pragma once

#include "preload/hook_arguments.h"

namespace dlhook::inline decode {

// C = op(A) op(B), column-major. Every pointer may be null: libxsmm_frontend.h, LIBXSMM_XGEMM, has the defaults.
void DecodeLibxsmmGemm(const LibxsmmGemmArgs& args, CallRecord* record);  // needs kGemmShapeWords and 3 addresses

// Products of one shape. With `threads`, each of them calls and computes its own part.
void DecodeLibxsmmBatch(const LibxsmmBatchArgs& args, CallRecord* record);  // needs kGemmShapeWords and no address

// A kernel for a product: by its shape, or by a descriptor that only the library can read.
void DecodeLibxsmmKernel(const LibxsmmKernelArgs& args, CallRecord* record);  // needs kGemmShapeWords and no address

// A layer's handle is created (result), or executed. Needs kLibxsmmShapeWords and no address.
void DecodeLibxsmmLayer(const LibxsmmLayerArgs& args, CallRecord* record);

// A tensor is copied between a plain format and the library's own. Needs kLibxsmmShapeWords and no address.
void DecodeLibxsmmCopy(const LibxsmmCopyArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
