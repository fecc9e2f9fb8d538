// Nests the calls of one thread.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "analyzer/reader/clock_map.h"
#include "analyzer/reader/staging.h"

namespace dlhook::analyzer::inline reader {

// Resolution of the durations in oneDNN's log: 1/1024 ms, rounded up.
constexpr int64_t kTapResolutionNs = 977;

struct NestingCounts {
  int64_t lost_parents = 0;  // a call names a parent that is not in the trace
  int64_t clipped = 0;       // a call was shortened by more than kTapResolutionNs to nest
};

// `calls`: as recorded, in the order of their ends. Afterwards: nested, in the order of their starts, parents before
// their children (see StagedCall), every call inside its parent and disjoint from its siblings.
//
// A hook knows the call around it. A tap call (a line of a library's log) is reported only when it is over: it adopts
// the hook calls with the same recorded parent that lie inside it. Its start (its end minus a duration in steps of
// kTapResolutionNs, where the end is late by the time to print the line) is not exact, so
//   - a hook call shorter than a step that starts within a step of the tap call's start comes before it;
//   - a hook call that began before it is inside if they overlap by more than a step and by at least half of the hook
//     call: then the tap call begins with it; otherwise the hook call comes before it;
//   - what comes before a tap call clips its start. Tap calls never contain tap calls.
void NestCalls(const ClockMap& clock, absl::Span<StagedCall> calls, NestingCounts* counts);

}  // namespace dlhook::analyzer::reader
