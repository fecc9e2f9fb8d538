// The legacy interface of cuDNN: everything about a call is in descriptors, which the library's own getters read at
// call time.
// Thread: any application thread, after the real function has returned. Needs no GPU. The members of the *Args structs
// are the parameter names of preload/api/cudnn.api.
#pragma once

#include "preload/format/record.h"

namespace dlhook::inline decode {

struct CudnnArgs {
  CudnnOperation operation = CudnnOperation::kUnknown;
  bool filters = false;  // x and y are described as filters
  const void* handle = nullptr;
  const void* x_descriptor = nullptr;
  const void* x = nullptr;
  const void* w_descriptor = nullptr;
  const void* w = nullptr;
  const void* y_descriptor = nullptr;
  const void* y = nullptr;
  const void* dx_descriptor = nullptr;
  const void* dx = nullptr;
  const void* dw_descriptor = nullptr;
  const void* dw = nullptr;
  const void* dy_descriptor = nullptr;
  const void* dy = nullptr;
  const void* db_descriptor = nullptr;
  const void* db = nullptr;
  const void* z_descriptor = nullptr;
  const void* z = nullptr;
  const void* bias_descriptor = nullptr;
  const void* bias = nullptr;
  const void* a_descriptor = nullptr;  // for reductions and pointwise functions: used as x
  const void* a = nullptr;
  const void* b_descriptor = nullptr;  // the second operand of a pointwise function
  const void* b = nullptr;
  const void* c_descriptor = nullptr;  // used as y
  const void* c = nullptr;
  const void* convolution = nullptr;
  const void* pooling = nullptr;
  const void* activation = nullptr;
  const void* pointwise = nullptr;
  const void* reduction = nullptr;
  int32_t algorithm = -1;
  int32_t mode = -1;
  uint64_t workspace_bytes = 0;
  const void* real = nullptr;
};
// Needs kCudnnShapeWords and 3 addresses: input, filter (or what else is read), result.
void DecodeCudnn(const CudnnArgs& args, CallRecord* record);

// cudnnRNN{Forward, BackwardData_v8, BackwardWeights_v8}: the data's own descriptors.
struct CudnnRnnArgs {
  CudnnOperation operation = CudnnOperation::kRnnForward;
  const void* handle = nullptr;
  const void* rnn = nullptr;
  const void* x_descriptor = nullptr;
  const void* x = nullptr;
  const void* y_descriptor = nullptr;
  const void* y = nullptr;
  uint64_t workspace_bytes = 0;
  const void* real = nullptr;
};
void DecodeCudnnRnn(const CudnnRnnArgs& args, CallRecord* record);

// cudnnFind…Algorithm[Ex], cudnnGet…Algorithm_v7: the problem and the candidates. Needs kSearchShapeWords and no address.
struct CudnnSearchArgs {
  CudnnOperation operation = CudnnOperation::kConvolutionForward;
  bool measured = false;
  const void* handle = nullptr;
  const void* x_descriptor = nullptr;
  const void* w_descriptor = nullptr;
  const void* y_descriptor = nullptr;
  const void* dx_descriptor = nullptr;
  const void* dw_descriptor = nullptr;
  const void* dy_descriptor = nullptr;
  const void* convolution = nullptr;
  int32_t requested = 1;
  const int32_t* returned = nullptr;
  const void* results = nullptr;       // cudnnConvolution…AlgoPerf_t[]
  const int32_t* algorithm = nullptr;  // until cuDNN 7: the single result
  const void* real = nullptr;
};
void DecodeCudnnSearch(const CudnnSearchArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
