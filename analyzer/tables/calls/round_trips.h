// Reorders that undo each other: an op writes a tensor in format A, it is converted to B, and back to A before the next
// op reads it.
#pragma once

#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline tables {

struct RoundTrip {
  CallIndex away = 0;      // A -> B
  CallIndex back = 0;      // B -> A
  CallIndex producer = 0;  // the op before the first one
  CallIndex consumer = 0;  // the op after the second one
};

// The log does not identify tensors. A pair is two reorders on one thread in one step, with equal dims and swapped
// formats and types, if
// - the op before the first one has a tensor of these dims in format A, and so has the op after the second one;
// - both ops are in the forward pass, or both in the backward pass: what leaves the former and what enters the latter
//   are different tensors;
// - the op after is not the weight gradient of the op before, which reads its own tensors: no data gradient flows there;
// - of several candidates, the first half is the latest one.
std::vector<RoundTrip> FindRoundTrips(const TraceModel& model);

}  // namespace dlhook::analyzer::tables
