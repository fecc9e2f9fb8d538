// Why a GPU does not compute: every nanosecond in which no kernel of the network runs on a device has exactly one cause.
//
// What the device itself does comes first:
//   communication   only communication runs: a kernel that moves data or waits for other ranks
//   copies          only copies run, or a memset (during communication: communication)
// While nothing runs, the work that ends the gap is examined. A thread of the host requested it at some time. Before
// that time, the cause depends on what the thread did:
//   profiler        what recorded an imported trace held it up in a call of the runtime (also after that time)
//   input pipeline  it was in a scope of the input pipeline, at any depth
//   communication   it was in a collective call on the host (MPI)
//   copies          it was in a copy that returns only when it is done
//   synchronization it waited for the GPU. Or it did any of the following, but would have done so earlier if it had not
//                   waited before: after a wait, as much time as the wait took, over all gaps until it waits again for
//                   new work
//   no processor    it was in other calls, in framework ops or in Python, and had no processor: as much of that time as
//                   looks from outside tell (time/thread_states.h)
//   launch-bound    the rest of it: the host issues work more slowly than the GPU completes it
//   not known       nothing is known of it at that time, nor of the thread that asked before; or the thread is not known
// After that time, while the work was requested but had not begun:
//   copies          it is a copy from or to the host or another device: pageable memory is staged, the driver prepares
//   launch-bound    until the asking call returned (or no processor, likewise), and kLaunchLatencyNs and the error of the GPU's clock,
//                   up to 1 ms, more
//   not known       later: it waits for another stream, another device, or the host
#pragma once

#include "analyzer/gpu/gpu_division.h"
#include "analyzer/time/thread_activity.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline gpu {

// What calls and scopes on the host mean for a GPU, looked up once per model.
class HostRules {
 public:
  explicit HostRules(const TraceModel& model);

  const ActivityRules& activities() const { return activities_; }
  // Copies that return only when the host's memory has been read or written (CUDA's manual, "API synchronization
  // behavior"): synchronous ones, and those with pageable memory.
  bool IsBlockingCopy(CallIndex call) const { return roles_[model_.calls.op[call]] == Role::kBlockingCopy; }
  // Communication on the host: MPI, Gloo.
  bool IsHostCollective(CallIndex call) const { return roles_[model_.calls.op[call]] == Role::kHostCollective; }
  // The innermost scope of an input pipeline around an activity of a thread, or kNone.
  ScopeIndex InputAround(const Activity& activity) const;
  bool WaitsForGpu(const Activity& activity) const;
  int64_t AskedNs(GpuIndex activity) const;
  // When this thread requested GPU work, ascending.
  const std::vector<int64_t>& AskedBy(ThreadIndex thread) const { return requested_ns_[thread]; }
  // What looks from outside saw of this thread; null: nothing.
  const ThreadStates* StatesOf(ThreadIndex thread) const;
  bool IsProfiler(CallIndex call) const { return roles_[model_.calls.op[call]] == Role::kProfiler; }
  // In which the profiler itself held up this thread.
  IntervalSet ProfilerOn(ThreadIndex thread, const Interval& time) const {
    return thread < profiler_.size() ? profiler_[thread].Intersection(IntervalSet({time})) : IntervalSet();
  }

 private:
  enum class Role : uint8_t { kOther, kBlockingCopy, kHostCollective, kProfiler };

  const TraceModel& model_;
  const ActivityRules activities_;
  std::vector<Role> roles_;                         // by op
  std::vector<ScopeIndex> input_around_;            // by scope, including itself
  std::vector<std::vector<int64_t>> requested_ns_;  // by thread
  const std::vector<ThreadStates> states_;
  std::vector<IntervalSet> profiler_;  // kProfilerFamily's time, by thread; empty: none
};

enum class IdleCause : uint8_t {
  kLaunch,
  kSynchronization,
  kCopies,
  kInput,
  kCommunication,
  kNoProcessor,
  kProfiler,
  kUnknown
};
inline constexpr int kIdleCauses = 8;
const char* IdleCauseName(IdleCause cause);

// A kernel begins a few microseconds after its launch call has returned, if the GPU is free; a longer delay is not due
// to the launch.
inline constexpr int64_t kLaunchLatencyNs = 20'000;

struct IdlePiece {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  IdleCause cause = IdleCause::kUnknown;
  // Details: the copy's direction, or what the host did: a call (including waits and copies), a scope, Python.
  enum class What : uint8_t {
    kNothing,
    kToDevice,
    kFromDevice,
    kOtherCopy,
    kCall,
    kScope,
    kPython,
    kAsked
  } what = What::kNothing;
  uint32_t index = kNone;    // CallIndex of kCall, ScopeIndex of kScope
  int64_t gap_start_ns = 0;  // of the gap between two kernels
  GpuIndex next = kNone;     // the first work that begins then or later; or kNone
};

// Calls `take` for all time of [start_ns, end_ns) in which the device does not compute, in ascending pieces, except
// while other processes keep it busy. Linear in activities, calls and scopes.
void DivideIdleTime(const TraceModel& model, const HostRules& rules, const std::vector<GpuTimeline>& timelines,
                    GpuDeviceIndex device, const Interval& time, const std::function<void(const IdlePiece&)>& take);

}  // namespace dlhook::analyzer::gpu
