// What a host thread did while a GPU had nothing to do: see host_watch.h.
#include "analyzer/gpu/host_watch.h"

#include <algorithm>

#include "analyzer/layers/gpu_places.h"

namespace dlhook::analyzer::inline gpu {
namespace {

bool BlocksAsCopy(const Op& op) {
  if (!op.copy() || op.captured) return false;
  const CopyCall& copy = *op.copy();
  const bool takes_host =
      copy.direction == CopyDirection::kHostToDevice || copy.direction == CopyDirection::kDeviceToHost;
  return takes_host && (!copy.asynchronous || copy.host_memory == HostMemory::kPageable);
}

}  // namespace

HostRules::HostRules(const TraceModel& model) : model_(model), activities_(model), states_(ReadThreadStates(model)) {
  for (const Op& op : model.ops) {
    const bool is_collective = op.collective() && !op.is_asynchronous;
    roles_.push_back(BlocksAsCopy(op) ? Role::kBlockingCopy : is_collective ? Role::kHostCollective : Role::kOther);
  }
  input_around_.reserve(model.scopes.size());
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {  // parents precede their children
    const ScopeIndex parent = model.scopes.parent[scope];
    input_around_.push_back(activities_.IsInput(scope) ? scope : parent == kNone ? kNone : input_around_[parent]);
  }
  requested_ns_.resize(model.threads.size());
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    const ThreadIndex thread = model.gpu.thread[activity];
    if (thread != kNone) requested_ns_[thread].push_back(AskedNs(activity));
  }
  for (std::vector<int64_t>& of_thread : requested_ns_) std::sort(of_thread.begin(), of_thread.end());
}

const ThreadStates* HostRules::StatesOf(ThreadIndex thread) const {
  const auto found =
      std::find_if(states_.begin(), states_.end(), [&](const ThreadStates& states) { return states.thread == thread; });
  return found == states_.end() ? nullptr : &*found;
}

// For a kernel that a library call launches: the launch itself, if it was recorded.
int64_t HostRules::AskedNs(GpuIndex activity) const {
  const int64_t requested_ns = model_.gpu.requested_ns[activity];
  return requested_ns != GpuActivityColumns::kNotKnown ? requested_ns : GpuAskedNs(model_, activity);
}

ScopeIndex HostRules::InputAround(const Activity& activity) const {
  switch (activity.kind) {
    case ActivityKind::kScope:
    case ActivityKind::kDataLoading:
      return input_around_[activity.index];
    case ActivityKind::kCall:
    case ActivityKind::kWaiting: {
      const ScopeIndex scope = model_.calls.ScopeOf(activity.index);
      return scope == kNone ? kNone : input_around_[scope];
    }
    default:
      return kNone;
  }
}

bool HostRules::WaitsForGpu(const Activity& activity) const {
  return activity.kind == ActivityKind::kWaiting ||
         (activity.kind == ActivityKind::kCall && IsBlockingCopy(activity.index));
}

HostWatch::HostWatch(const TraceModel& model, const HostRules& rules, ThreadIndex thread)
    : rules_(rules), states_(rules.StatesOf(thread)), thread_(model, rules.activities(), thread) {}

void HostWatch::Watch(int64_t start_ns, int64_t end_ns, const std::function<void(const Seen&)>& take) {
  while (thread_.next_time_ns() <= start_ns && thread_.next_time_ns() != INT64_MAX) Next();
  while (start_ns < end_ns) {
    const int64_t until_ns = std::min(end_ns, thread_.next_time_ns());
    if (start_ns < until_ns) {
      if (rules_.WaitsForGpu(thread_.now())) watched_ns_ += until_ns - start_ns;
      take({start_ns, until_ns, thread_.now()});
    }
    start_ns = std::max(start_ns, until_ns);
    if (start_ns < end_ns) Next();
  }
}

int64_t HostWatch::UseWaited(int64_t wanted_ns) {
  const int64_t used_ns = std::min(wanted_ns, waited_ns_);
  waited_ns_ -= used_ns;
  return used_ns;
}

int64_t HostWatch::WithoutProcessor(const Interval& time, bool may_be_blocked) {
  if (states_ == nullptr || time.start_ns >= time.end_ns) return 0;
  const StateSums sums = states_->In(time);
  const int64_t of_ns = may_be_blocked ? sums.wall_ns : sums.running_ns + sums.queued_ns;
  if (of_ns <= 0 || sums.queued_ns <= 0) return 0;
  const auto length_ns = static_cast<double>(time.end_ns - time.start_ns);
  left_ns_ += length_ns * std::min(1.0, static_cast<double>(sums.queued_ns) / static_cast<double>(of_ns));
  const auto taken_ns = static_cast<int64_t>(std::min(left_ns_, length_ns));
  left_ns_ -= static_cast<double>(taken_ns);
  return taken_ns;
}

void HostWatch::Next() {
  const int64_t end_ns = thread_.next_time_ns();
  if (rules_.WaitsForGpu(thread_.now())) AddWait(piece_start_ns_, end_ns, thread_.now().index);
  piece_start_ns_ = end_ns;
  thread_.Step();
}

// A wait may have several parts: the driver's call may be inside the runtime's, and .item() waits in a copy and then,
// with nothing left to wait for, in cudaStreamSynchronize.
void HostWatch::AddWait(int64_t start_ns, int64_t end_ns, CallIndex call) {
  const std::vector<int64_t>& asked = rules_.AskedBy(thread_.thread());
  bool has_asked = false;
  for (; next_asked_ < asked.size() && asked[next_asked_] < end_ns; ++next_asked_)
    has_asked |= asked[next_asked_] < start_ns;
  if (has_asked) waited_ns_ = longest_wait_ns_ = 0;
  waited_ns_ += end_ns - start_ns - watched_ns_;
  watched_ns_ = 0;
  if (end_ns - start_ns < longest_wait_ns_) return;
  longest_wait_ns_ = end_ns - start_ns;
  last_wait_ = call;
}

}  // namespace dlhook::analyzer::gpu
