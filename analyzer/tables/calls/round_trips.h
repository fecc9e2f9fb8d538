// Reorders that undo each other: a tensor leaves an op, is moved from format A to B, and is moved
// back to A before the next op reads it.
#ifndef DLHOOK_ANALYZER_TABLES_CALLS_ROUND_TRIPS_H_
#define DLHOOK_ANALYZER_TABLES_CALLS_ROUND_TRIPS_H_

#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline tables {

struct RoundTrip {
  CallIndex away = 0;  // A -> B
  CallIndex back = 0;  // B -> A
};

// The log names no tensors, so a pair is two reorders on one thread in one iteration with equal
// dims and exchanged formats and types, such that
// - the op before the first one has a tensor of these dims in format A, and so has the op after
//   the second one;
// - both ops are of the same pass: what leaves the forward pass and what enters the backward pass
//   are different tensors;
// - the op after isn't the weights' gradient of the op before, which reads tensors of its own: a
//   data gradient doesn't flow there;
// - of several candidates it is the last first half: the next use.
std::vector<RoundTrip> FindRoundTrips(const TraceModel& model);

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_CALLS_ROUND_TRIPS_H_
