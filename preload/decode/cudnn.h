// The legacy interface of cuDNN: everything about a call is in descriptors, which the library's own getters read at
// call time.
// Thread: any application thread, after the real function has returned. Needs no GPU.
#pragma once

#include "preload/hook_arguments.h"

namespace dlhook::inline decode {

// Needs kCudnnShapeWords and 3 addresses: input, filter (or what else is read), result.
void DecodeCudnn(const CudnnArgs& args, CallRecord* record);

// cudnnRNN{Forward, BackwardData_v8, BackwardWeights_v8}: the data's own descriptors.
void DecodeCudnnRnn(const CudnnRnnArgs& args, CallRecord* record);

// cudnnFind…Algorithm[Ex], cudnnGet…Algorithm_v7: the problem and the candidates. Needs kSearchShapeWords and no address.
void DecodeCudnnSearch(const CudnnSearchArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
