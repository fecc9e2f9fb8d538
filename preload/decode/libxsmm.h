// LIBXSMM (1.17): products, kernels that it looks up or builds, layers of its dnn part.
// Thread: any application thread, after the real function has returned. No lock, no allocation.
// The members of the *Args structs are the parameter names of preload/api/libxsmm.api.
#pragma once

#include "preload/abi/arguments.h"
#include "preload/format/record.h"

namespace dlhook::inline decode {

// C = op(A) op(B), column-major. Every pointer may be null: libxsmm_frontend.h, LIBXSMM_XGEMM, has the defaults.
struct LibxsmmGemmArgs {
  DataType input = DataType::kUnknown;  // by the function's name
  DataType output = DataType::kUnknown;
  int32_t input_precision = -1;  // libxsmm_gemm_precision, or as an argument
  int32_t output_precision = -1;
  const char* trans_a = nullptr;
  const char* trans_b = nullptr;
  const int32_t* m = nullptr;
  const int32_t* n = nullptr;
  const int32_t* k = nullptr;
  const void* a = nullptr;
  const int32_t* lda = nullptr;
  const void* b = nullptr;
  const int32_t* ldb = nullptr;
  const void* c = nullptr;
  const int32_t* ldc = nullptr;
};
void DecodeLibxsmmGemm(const LibxsmmGemmArgs& args, CallRecord* record);  // needs kGemmShapeWords and 3 addresses

// Products of one shape. With `threads`, each of them calls and computes its own part.
struct LibxsmmBatchArgs {
  int32_t input_precision = -1;
  int32_t output_precision = -1;
  const char* trans_a = nullptr;
  const char* trans_b = nullptr;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const int32_t* lda = nullptr;
  const int32_t* ldb = nullptr;
  const int32_t* ldc = nullptr;
  int64_t batch = 0;  // negative: without locks around C
  int32_t thread = 0;
  int32_t threads = 1;
};
void DecodeLibxsmmBatch(const LibxsmmBatchArgs& args, CallRecord* record);  // needs kGemmShapeWords and no address

// A kernel for a product: by its shape, or by a descriptor that only the library can read.
struct LibxsmmDispatchArgs {
  DataType input = DataType::kUnknown;
  DataType output = DataType::kUnknown;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const int32_t* lda = nullptr;
  const int32_t* ldb = nullptr;
  const int32_t* ldc = nullptr;
  const int32_t* flags = nullptr;
  const void* real = nullptr;
  uint64_t result = 0;  // the kernel's address; 0: there is none
};
void DecodeLibxsmmKernel(const LibxsmmDispatchArgs& args, CallRecord* record);  // needs kGemmShapeWords and no address

// A layer's handle is created (result), or executed. Needs kLibxsmmShapeWords and no address.
struct LibxsmmLayerArgs {
  LibxsmmLayer layer = LibxsmmLayer::kUnknown;
  bool creation = false;
  const void* handle = nullptr;
  int32_t kind = -1;  // libxsmm_dnn_compute_kind
  int32_t start_thread = 0;
  int32_t tid = 0;
  uint64_t result = 0;
};
void DecodeLibxsmmLayer(const LibxsmmLayerArgs& args, CallRecord* record);

// A tensor is copied between a plain format and the library's own. Needs kLibxsmmShapeWords and no address.
struct LibxsmmCopyArgs {
  LibxsmmLayer layer = LibxsmmLayer::kUnknown;
  const void* tensor = nullptr;
  int32_t plain_format = 0;  // libxsmm_dnn_tensor_format
  const void* real = nullptr;
};
void DecodeLibxsmmCopy(const LibxsmmCopyArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
