// Divides the time of a run exactly among the activities of its threads: the basis of wall shares of layers and phases
// and of the table `accounting`. Integer nanoseconds; the shares of an interval add up to its length.
//
// At each instant, each thread is in one activity (thread_activity.h):
//   kCall         in a library call: the innermost one
//   kScope        else in a scope, the innermost one: the framework's own work. User and NVTX ranges only bracket work:
//                 time directly in one is a gap (below), and counts as kScope only if nothing better is known
//   kWaiting      the innermost call waits for the GPU (WaitsForGpu)
//   kDataLoading  directly in a scope of an input pipeline (enumerate(DataLoader)#…, IteratorGetNext, Iterator::…), or in
//                 a gap inside one
//   kNotSeen      in a gap between scopes and calls of the thread, if those before and after it (or the range that begins
//                 or ends there) were made by Python. What the thread does in it is not known: it runs Python, or native
//                 code called from Python, or sleeps. Between two nodes of a backward pass, autograd's engine works:
//                 kScope, of the previous node. Where a gap belongs: gap_places.h
// or in none. Every instant is divided equally among the threads that work: in kCall or in kScope, except for
// TensorFlow's TraceMe events (TRACE_ME), in which a thread mostly waits for the executor's threads, whose nodes are
// scopes of their own, and for what XLA compiles while others work: JAX runs ahead of its operations. Instants in which no
// thread works are divided among the threads in other activities; of threads in gaps only among those in which modules run,
// if there are any: where a thread that feeds a queue and the one that trains both wait, the program waits in the latter.
// Instants without any activity are unattributed.
#pragma once

#include "absl/functional/function_ref.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline time {

enum class ActivityKind : uint8_t { kUnattributed, kCall, kScope, kNotSeen, kDataLoading, kWaiting };

// A piece of time in which a set of activities does not change, with this activity's exact part of it.
struct TimePiece {
  int64_t start_ns = 0;
  int64_t end_ns = 0;    // of the piece; the activity's part is share_ns
  int64_t share_ns = 0;  // wall share; parts of one piece add up to its length
  ActivityKind kind = ActivityKind::kUnattributed;
  uint32_t index =
      kNone;  // CallIndex of kCall and kWaiting, ScopeIndex of kScope and kDataLoading, ThreadIndex of kNotSeen
  ThreadIndex thread = kNone;  // kNone: unattributed
  UnseenGap gap = {};          // of kNotSeen
};

// The layer and direction of what a piece of time is: of a call, scope or gap.
Place PlaceOf(const Attribution& attribution, const TimePiece& piece);

// Calls `take` for every part of every piece of [model.start_ns, model.end_ns), in order of time; pieces are cut at
// `boundaries` (ascending), so that none crosses a boundary of a step or phase. For one process, or all together
// (kNone). Ignores aggregates. Linear in calls + scopes (times the number of concurrently active threads).
// `only`: not empty: only pieces that overlap these times (ascending, disjoint), which may be cut there. Of one thread the
// others are not looked at; of several, what they did before decides about remainders.
void DivideTime(const TraceModel& model, ProcessIndex process, const std::vector<int64_t>& boundaries,
                const std::function<void(const TimePiece&)>& take, const std::vector<Interval>& only = {});

// Whether one thread of the process made all its calls and scopes.
bool HasOneThread(const TraceModel& model, ProcessIndex process);

// What a process did at given times: the pieces of time (time_division.h) that hold them.
struct TimeOfThread {
  int64_t time_ns = 0;
  ThreadIndex thread = kNone;
  size_t index = 0;  // the caller's
};

// Calls `take` for each, in order of time, with the parts of a piece of time around it, one for each thread that has one.
void ForEachPlace(const TraceModel& model, ProcessIndex process, std::vector<TimeOfThread> times,
                  absl::FunctionRef<void(const TimeOfThread&, absl::Span<const TimePiece>)> take);

// The thread's own part; null: it has none.
const TimePiece* PartOf(ThreadIndex thread, absl::Span<const TimePiece> parts);

}  // namespace dlhook::analyzer::time
