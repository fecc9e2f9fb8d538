// Why a GPU does not compute: the rules are in gpu_idle.h. Gaps come in order of time, so each thread is traversed
// once.
#include "analyzer/gpu/gpu_idle.h"

#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline gpu {
namespace {

using What = IdlePiece::What;

// Where all work begins later than this after its launch, the clock's error is not why.
constexpr int64_t kMostClockErrorNs = 1'000'000;

What WhatOf(const Activity& activity) {
  switch (activity.kind) {
    case ActivityKind::kCall:
    case ActivityKind::kWaiting:
      return What::kCall;
    case ActivityKind::kScope:
    case ActivityKind::kDataLoading:
      return What::kScope;
    case ActivityKind::kNotSeen:
      return What::kPython;
    case ActivityKind::kUnattributed:
      break;
  }
  return What::kNothing;
}

// Sets and copies on the device begin like kernels do.
bool IsCopyBeyondDevice(const TraceModel& model, GpuIndex activity) {
  if (GpuWorkOf(model, activity) != GpuWork::kCopy || model.gpu.kind[activity] == GpuActivityKind::kSet) return false;
  const CopyDirection direction = model.gpu.direction[activity];
  return direction != CopyDirection::kSet && direction != CopyDirection::kDeviceToDevice;
}

// Follows one thread forward in time: what it did while a GPU had nothing to do, and how far ahead it would be if it had not
// waited for the GPU.
class HostWatch {
 public:
  HostWatch(const TraceModel& model, const HostRules& rules, ThreadIndex thread)
      : rules_(rules), states_(rules.StatesOf(thread)), thread_(model, rules.activities(), thread) {}

  struct Seen {
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    Activity activity;
  };
  // What the thread did in [start_ns, end_ns), piece by piece. Spans must be disjoint and ascending.
  void Watch(int64_t start_ns, int64_t end_ns, const std::function<void(const Seen&)>& take) {
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

  // At the piece that is being taken: the call in which the thread last waited for the GPU (kNone: none yet), and up to
  // that part of its waiting that has been neither used nor watched yet. Waits without a request for work between them
  // count as one, named after the longest.
  CallIndex last_wait() const { return last_wait_; }
  int64_t UseWaited(int64_t wanted_ns) {
    const int64_t used_ns = std::min(wanted_ns, waited_ns_);
    waited_ns_ -= used_ns;
    return used_ns;
  }

  // How much of a time in which it had something to do it had no processor for, by the looks around it: as a part of what
  // it was not blocked in, or, where it may have been, of all. What rounding leaves is added to later times.
  int64_t WithoutProcessor(const Interval& time, bool may_be_blocked) {
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

 private:
  void Next() {
    const int64_t end_ns = thread_.next_time_ns();
    if (rules_.WaitsForGpu(thread_.now())) AddWait(piece_start_ns_, end_ns, thread_.now().index);
    piece_start_ns_ = end_ns;
    thread_.Step();
  }

  // A wait may have several parts: the driver's call may be inside the runtime's, and .item() waits in a copy and then,
  // with nothing left to wait for, in cudaStreamSynchronize.
  void AddWait(int64_t start_ns, int64_t end_ns, CallIndex call) {
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

class IdleDivision {
 public:
  IdleDivision(const TraceModel& model, const HostRules& rules, const GpuTimeline& timeline, GpuDeviceIndex device,
               const std::function<void(const IdlePiece&)>& take)
      : model_(model),
        rules_(rules),
        timeline_(timeline),
        take_(take),
        range_(GpuRangeOf(model, device)),
        latency_ns_(kLaunchLatencyNs + (device < model.gpu_clock_error_ns.size()
                                            ? std::min(model.gpu_clock_error_ns[device], kMostClockErrorNs)
                                            : 0)),
        next_(range_.first) {}

  void Divide(const IntervalSet& gaps) {
    // The first cause that applies takes the time.
    const IntervalSet communication = gaps.Intersection(timeline_.communication);
    const IntervalSet busy = gaps.Intersection(timeline_.busy).Difference(communication);
    const IntervalSet to_device = busy.Intersection(timeline_.to_device);
    const IntervalSet from_device = busy.Intersection(timeline_.from_device).Difference(to_device);
    const IntervalSet others = busy.Difference(to_device).Difference(from_device);
    Add(communication, IdleCause::kCommunication, What::kNothing);
    Add(to_device, IdleCause::kCopies, What::kToDevice);
    Add(from_device, IdleCause::kCopies, What::kFromDevice);
    Add(others, IdleCause::kCopies, What::kOtherCopy);
    Add(gaps.Difference(communication).Difference(busy), IdleCause::kUnknown, What::kNothing);
    absl::c_sort(parts_, [](const Part& a, const Part& b) { return a.span.start_ns < b.span.start_ns; });
    auto gap = gaps.intervals().begin();
    for (const Part& part : parts_) {
      while (gap->end_ns <= part.span.start_ns) ++gap;
      gap_start_ns_ = gap->start_ns;
      Take(part);
    }
  }

 private:
  struct Part {
    Interval span;
    IdleCause cause = IdleCause::kUnknown;  // kUnknown: nothing runs
    What what = What::kNothing;
  };

  void Add(const IntervalSet& spans, IdleCause cause, What what) {
    for (const Interval& span : spans.intervals()) parts_.push_back({span, cause, what});
  }

  void Emit(int64_t start_ns, int64_t end_ns, IdleCause cause, What what, uint32_t index = kNone) {
    if (start_ns < end_ns) take_({start_ns, end_ns, cause, what, index, gap_start_ns_, NextAt(start_ns)});
  }

  // The first activity that begins at this time or later. Called with ascending times.
  GpuIndex NextAt(int64_t ns) {
    while (next_ < range_.second && model_.gpu.start_ns[next_] < ns) ++next_;
    return next_ < range_.second ? next_ : kNone;
  }

  void Take(const Part& part) {
    const auto& [span, cause, what] = part;
    if (cause != IdleCause::kUnknown) return Emit(span.start_ns, span.end_ns, cause, what);
    const GpuIndex next = NextAt(span.start_ns);
    // After the last work, the thread that requested it is the best guess.
    const GpuIndex asked_with = next != kNone ? next : range_.second > range_.first ? range_.second - 1 : kNone;
    if (asked_with == kNone || model_.gpu.thread[asked_with] == kNone) {
      return Emit(span.start_ns, span.end_ns, IdleCause::kUnknown, What::kNothing);
    }
    const int64_t requested_ns =
        next == kNone ? span.end_ns : std::clamp(rules_.AskedNs(next), span.start_ns, span.end_ns);
    TakeUnasked(model_.gpu.thread[asked_with], ThreadBefore(asked_with), {span.start_ns, requested_ns});
    if (next != kNone) TakeAsked(next, requested_ns, span.end_ns);
  }

  ThreadIndex ThreadBefore(GpuIndex activity) const {
    return activity > range_.first ? model_.gpu.thread[activity - 1] : kNone;
  }

  HostWatch& WatchOf(ThreadIndex thread) {
    std::unique_ptr<HostWatch>& watch = watches_[thread];
    if (watch == nullptr) watch = std::make_unique<HostWatch>(model_, rules_, thread);
    return *watch;
  }

  // While nothing is known of the asking thread, the thread that asked before is examined: the program's, before it
  // starts the backward pass on one of autograd's threads.
  void TakeUnasked(ThreadIndex thread, ThreadIndex before, const Interval& span) {
    if (span.start_ns >= span.end_ns) return;
    HostWatch& watch = WatchOf(thread);
    const bool has_other = before != kNone && before != thread;
    watch.Watch(span.start_ns, span.end_ns, [&](const HostWatch::Seen& seen) {
      if (!has_other || seen.activity.kind != ActivityKind::kUnattributed) return TakeSeen(watch, seen);
      HostWatch& other = WatchOf(before);
      other.Watch(seen.start_ns, seen.end_ns, [&](const HostWatch::Seen& of_other) { TakeSeen(other, of_other); });
    });
  }

  void TakeSeen(HostWatch& watch, const HostWatch::Seen& seen) {
    const auto& [start_ns, end_ns, activity] = seen;
    const bool is_call = activity.kind == ActivityKind::kCall;
    if (activity.kind == ActivityKind::kWaiting) {
      return Emit(start_ns, end_ns, IdleCause::kSynchronization, What::kCall, activity.index);
    }
    if (is_call && rules_.IsProfiler(activity.index)) {
      return Emit(start_ns, end_ns, IdleCause::kProfiler, What::kNothing);
    }
    if (is_call && rules_.IsBlockingCopy(activity.index)) {
      return Emit(start_ns, end_ns, IdleCause::kCopies, What::kCall, activity.index);
    }
    if (is_call && rules_.IsHostCollective(activity.index)) {
      return Emit(start_ns, end_ns, IdleCause::kCommunication, What::kCall, activity.index);
    }
    const ScopeIndex input = rules_.InputAround(activity);
    if (input != kNone) return Emit(start_ns, end_ns, IdleCause::kInput, What::kScope, input);
    const int64_t late_ns = start_ns + watch.UseWaited(end_ns - start_ns);
    Emit(start_ns, late_ns, IdleCause::kSynchronization, What::kCall, watch.last_wait());
    const What what = WhatOf(activity);
    if (what == What::kNothing) return Emit(late_ns, end_ns, IdleCause::kUnknown, what);
    TakeSlowHost(watch, {late_ns, end_ns}, end_ns, what, activity.index);
  }

  // What the thread did in `time`, for which the device waited until `until_ns`.
  void TakeSlowHost(HostWatch& watch, const Interval& time, int64_t until_ns, What what, uint32_t index) {
    const int64_t ran_ns = time.start_ns + watch.WithoutProcessor(time, what == What::kPython);
    Emit(time.start_ns, ran_ns, IdleCause::kNoProcessor, what, index);
    Emit(ran_ns, until_ns, IdleCause::kLaunch, what, index);
  }

  void TakeAsked(GpuIndex next, int64_t start_ns, int64_t end_ns) {
    const CallIndex call = model_.gpu.launch_call[next];
    const What what = call == kNone ? What::kAsked : What::kCall;
    if (IsCopyBeyondDevice(model_, next)) return Emit(start_ns, end_ns, IdleCause::kCopies, what, call);
    int64_t returned_ns = start_ns;
    if (call != kNone) returned_ns = std::max(start_ns, model_.calls.EndOf(call));
    const int64_t launched_ns = std::min(end_ns, returned_ns + latency_ns_);
    const ThreadIndex thread = model_.gpu.thread[next];
    const IntervalSet profiler = rules_.ProfilerOn(thread, {start_ns, launched_ns});
    for (const Interval& held : profiler.intervals()) {
      TakeSlowHost(WatchOf(thread), {start_ns, std::min(held.start_ns, returned_ns)}, held.start_ns, what, call);
      Emit(held.start_ns, held.end_ns, IdleCause::kProfiler, What::kNothing);
      start_ns = held.end_ns;
    }
    TakeSlowHost(WatchOf(thread), {start_ns, std::min(end_ns, returned_ns)}, launched_ns, what, call);
    Emit(launched_ns, end_ns, IdleCause::kUnknown, What::kAsked);
  }

  const TraceModel& model_;
  const HostRules& rules_;
  const GpuTimeline& timeline_;
  const std::function<void(const IdlePiece&)>& take_;
  const std::pair<GpuIndex, GpuIndex> range_;
  const int64_t latency_ns_;
  GpuIndex next_;
  std::vector<Part> parts_;
  int64_t gap_start_ns_ = 0;
  absl::flat_hash_map<ThreadIndex, std::unique_ptr<HostWatch>> watches_;
};

bool BlocksAsCopy(const Op& op) {
  if (!op.copy() || op.captured) return false;
  const CopyCall& copy = *op.copy();
  const bool takes_host =
      copy.direction == CopyDirection::kHostToDevice || copy.direction == CopyDirection::kDeviceToHost;
  return takes_host && (!copy.asynchronous || copy.host_memory == HostMemory::kPageable);
}

}  // namespace

const char* IdleCauseName(IdleCause cause) {
  return NameIn<IdleCause::kUnknown>(cause, {"launch-bound", "synchronization", "copies", "input pipeline",
                                             "communication", "no processor", "profiler", "not known"});
}

void DivideIdleTime(const TraceModel& model, const HostRules& rules, const std::vector<GpuTimeline>& timelines,
                    GpuDeviceIndex device, const Interval& time, const std::function<void(const IdlePiece&)>& take) {
  const IntervalSet gaps =
      IntervalSet({time}).Difference(timelines[device].compute).Difference(BusyForOthers(model, timelines, device));
  IdleDivision(model, rules, timelines[device], device, take).Divide(gaps);
}

HostRules::HostRules(const TraceModel& model) : model_(model), activities_(model), states_(ReadThreadStates(model)) {
  for (const Op& op : model.ops) {
    const bool is_collective = op.collective() && !op.is_asynchronous;
    roles_.push_back(op.family == kProfilerFamily ? Role::kProfiler
                     : BlocksAsCopy(op)           ? Role::kBlockingCopy
                     : is_collective              ? Role::kHostCollective
                                                  : Role::kOther);
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
  for (std::vector<int64_t>& of_thread : requested_ns_) absl::c_sort(of_thread);
  if (!absl::c_linear_search(roles_, Role::kProfiler)) return;
  std::vector<std::vector<Interval>> of_profiler(model.threads.size());
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    if (IsProfiler(call))
      of_profiler[model.calls.thread[call]].push_back({model.calls.start_ns[call], model.calls.EndOf(call)});
  }
  for (std::vector<Interval>& of_thread : of_profiler) profiler_.push_back(IntervalSet(std::move(of_thread)));
}

const ThreadStates* HostRules::StatesOf(ThreadIndex thread) const {
  const auto found = absl::c_find_if(states_, [&](const ThreadStates& states) { return states.thread == thread; });
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

}  // namespace dlhook::analyzer::gpu
