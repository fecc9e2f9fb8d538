// Text for ops, for tables and for comparing steps.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

// Distinguishes a problem from others of its kind and direction: the problem itself; oneDNN's `alg` if it says what is
// computed rather than how ("eltwise_relu", "pooling_max"); for a reorder also its formats.
std::string ProblemLabel(const Op& op);

// "convolution"; "create:convolution" for creating a primitive, "search:convolution" for asking which algorithm to use,
// "trial:convolution" for a trial, "capture:convolution" for a call captured into a CUDA graph.
std::string KindLabel(const Op& op);

// "src:abcd wei:Acdb16a dst:aBcd16b", without missing tensors.
std::string FormatsLabel(const Op& op);

// Whether calls of the op distinguish parts of a step. Not: creating primitives, searching for algorithms, trials,
// capturing graphs; allocators, streams, events and waiting, which accompany the work.
bool TellsSteps(const Op& op);

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
