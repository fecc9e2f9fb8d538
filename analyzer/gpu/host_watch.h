// What a host thread did while a GPU had nothing to do, and how far ahead it would be if it had not waited for the GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "analyzer/model/trace_model.h"
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

 private:
  enum class Role : uint8_t { kOther, kBlockingCopy, kHostCollective };

  const TraceModel& model_;
  const ActivityRules activities_;
  std::vector<Role> roles_;                         // by op
  std::vector<ScopeIndex> input_around_;            // by scope, including itself
  std::vector<std::vector<int64_t>> requested_ns_;  // by thread
  const std::vector<ThreadStates> states_;
};

// Follows one thread forward in time.
class HostWatch {
 public:
  HostWatch(const TraceModel& model, const HostRules& rules, ThreadIndex thread);

  struct Seen {
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    Activity activity;
  };
  // What the thread did in [start_ns, end_ns), piece by piece. Spans must be disjoint and ascending.
  void Watch(int64_t start_ns, int64_t end_ns, const std::function<void(const Seen&)>& take);

  // At the piece that is being taken: the call in which the thread last waited for the GPU (kNone: none yet), and up to
  // that part of its waiting that has been neither used nor watched yet. Waits without a request for work between them
  // count as one, named after the longest.
  CallIndex last_wait() const { return last_wait_; }
  int64_t UseWaited(int64_t wanted_ns);

  // How much of a time in which it had something to do it had no processor for, by the looks around it: as a part of what
  // it was not blocked in, or, where it may have been, of all. What rounding leaves is added to later times.
  int64_t WithoutProcessor(const Interval& time, bool may_be_blocked);

 private:
  void Next();
  void AddWait(int64_t start_ns, int64_t end_ns, CallIndex call);

  const HostRules& rules_;
  const ThreadStates* const states_;
  ThreadActivity thread_;
  double left_ns_ = 0;  // by WithoutProcessor
  int64_t piece_start_ns_ = INT64_MIN;
  size_t next_asked_ = 0;  // of AskedBy: not before the last wait's end
  CallIndex last_wait_ = kNone;
  int64_t longest_wait_ns_ = 0;
  int64_t waited_ns_ = 0;
  int64_t watched_ns_ = 0;  // of the current wait
};

}  // namespace dlhook::analyzer::gpu
