// The calls around a call, and what kind of call it is.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

// An op of a linear-algebra, neural-network or communication library, which computes something and may launch kernels
// or move data for it. Not launches, copies, allocations, or calls of which only the name is known.
bool IsLibraryOp(const Op& op);

// The innermost library op around `call`, kNone if none.
CallIndex EnclosingLibraryOp(const TraceModel& model, CallIndex call);

// "convolution backward-data", "gemm".
std::string KindAndDirection(const Op& op);

// A call that returns only when earlier GPU work (of a stream, up to an event) is done.
bool WaitsForGpu(const Op& op);

// cudaEventElapsedTime, cuEventElapsedTime: the operand is the returned time.
bool IsElapsedTime(const Op& op);

// cudaEventRecord, cuEventRecordWithFlags …
bool IsEventRecord(const Op& op);

// cudaGraphLaunch, cuGraphLaunch.
bool IsGraphLaunch(const Op& op);

}  // namespace dlhook::analyzer::calls
