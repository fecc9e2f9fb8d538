// Puts the calls of one thread into each other.
#ifndef DLHOOK_ANALYZER_MODEL_NESTING_H_
#define DLHOOK_ANALYZER_MODEL_NESTING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/model/clock_map.h"
#include "analyzer/model/staging.h"

namespace dlhook::analyzer::inline model {

// The step of the durations in oneDNN's log, 1/1024 ms rounded up.
constexpr int64_t kTapResolutionNs = 977;

struct NestingCounts {
  int64_t lost_parents = 0;  // a call names a parent that is not in the trace
  int64_t clipped = 0;       // a call was shortened by more than kTapResolutionNs to nest
};

// `calls`: as recorded, in the order of their ends. Afterwards: as nested, in the order of their
// starts, a parent before its children (see StagedCall), every call inside its parent and beside
// its siblings.
//
// A hook knows the call around it. A tap call (a line of a library's log) is told only when it is
// over: it adopts those hook calls with the same recorded parent that lie inside it. Its start (end
// minus a duration counted in steps of kTapResolutionNs, and an end that is late by the printing of
// the line) is not exact, so
//   - a hook call shorter than a step that starts within a step of the tap call's start stands
//   before it;
//   - one that began before it is inside if more than a step, and at least half of the hook call,
//   overlaps: then the tap
//     call begins with it; else the hook call stands before it;
//   - what stands before a tap call clips its start. Tap calls never hold tap calls.
void NestCalls(const ClockMap& clock, absl::Span<StagedCall> calls, NestingCounts* counts);

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_NESTING_H_
