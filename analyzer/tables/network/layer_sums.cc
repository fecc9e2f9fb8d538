#include "analyzer/tables/network/layer_sums.h"

#include "absl/container/flat_hash_set.h"
#include "analyzer/analysis/folded_time.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/calls/tensor_class.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/columns.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline tables {
namespace {

// Real nesting is a few calls deep; only a damaged trace goes beyond.
constexpr int kMaxDepth = 64;

int64_t BackwardOf(const NsByDirection& ns) {
  using enum LayerDirection;
  int64_t sum_ns = 0;
  for (const LayerDirection direction : {kBackward, kBackwardData, kBackwardWeights, kBackwardBias}) {
    sum_ns += ns[static_cast<size_t>(direction)];
  }
  return sum_ns;
}

// When the steps of a set ran, by process and thread.
class StepTimes {
 public:
  // Tells `sums` of which steps they are.
  StepTimes(const TraceModel& model, const StepSet& set, LayerSums* sums)
      : all_(model.processes.size()), threads_(model.processes.size()) {
    std::vector<std::map<ThreadIndex, std::vector<Interval>>> of_thread(model.processes.size());
    std::set<ThreadIndex> of_threads;
    for (const auto& [process, step] : set.steps) {
      all_[process].push_back({step->start_ns, step->end_ns});
      of_thread[process][step->thread].push_back(all_[process].back());
      of_threads.insert(step->thread);
    }
    for (std::vector<Interval>& intervals : all_) std::ranges::stable_sort(intervals, {}, &Interval::start_ns);
    for (ProcessIndex process = 0; process < threads_.size(); ++process) {
      for (auto& [thread, intervals] : of_thread[process]) {
        std::ranges::stable_sort(intervals, {}, &Interval::start_ns);
        threads_[process].emplace(thread, std::move(intervals));
      }
    }
    sums->step_count = std::ssize(set.steps);
    sums->total_ns = set.total_ns;
    if (sums->step_count > 0) {
      const std::string threads =
          of_threads.contains(kNone)
              ? ""
              : absl::StrCat(of_threads.size() > 1 ? " of " : " of thread ", ThreadLabel(model, of_threads));
      sums->sentence = absl::StrCat("Mean of ", SteadySteps(sums->step_count, set.kind, set.sort), threads, " of ",
                                    HumanTime(sums->total_ns / sums->step_count),
                                    "; shares of time add up to it exactly.", set.left_out.Sentence());
      return;
    }
    for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
      const ProcessInfo& info = model.processes[process];
      all_[process].push_back({info.start_ns, info.end_ns});
      threads_[process].emplace(kNone, all_[process]);
      sums->total_ns += info.end_ns - info.start_ns;
    }
    sums->sentence =
        absl::StrCat("No steady steps were found: times are of the whole run, ", HumanTime(sums->total_ns), ".");
  }

  // By start; steps of different threads may overlap.
  const std::vector<Interval>& Of(ProcessIndex process) const { return all_[process]; }
  // kNone: steps of the whole process.
  std::map<ThreadIndex, IntervalFinder>& ByThread(ProcessIndex process) { return threads_[process]; }

  // Whether the time is inside a step of this thread.
  bool Contains(ProcessIndex process, ThreadIndex thread, int64_t time_ns) {
    if (thread != asked_of_) {
      const auto finder = [&](ThreadIndex of) {
        const auto intervals = threads_[process].find(of);
        return intervals == threads_[process].end() ? nullptr : &intervals->second;
      };
      asked_of_ = thread;
      of_asked_ = {finder(thread), finder(kNone)};
    }
    return absl::c_any_of(of_asked_,
                          [&](IntervalFinder* intervals) { return intervals != nullptr && intervals->Has(time_ns); });
  }

 private:
  std::vector<std::vector<Interval>> all_;
  std::vector<std::map<ThreadIndex, IntervalFinder>> threads_;
  ThreadIndex asked_of_ = kNone;                  // by Contains last …
  std::array<IntervalFinder*, 2> of_asked_ = {};  // … and the steps of that thread, and of its whole process
};

class Summer {
 public:
  Summer(const TraceModel& model, const LayerAnalysis& analysis, const LayerGroups& groups, const RunTotals& totals,
         const StepSet& set, const Peaks* peaks)
      : model_(model),
        analysis_(analysis),
        attribution_(analysis.attribution()),
        time_(FoldedTime::Of(model, analysis)),
        groups_(groups),
        peaks_(peaks),
        steps_(model, set, &sums_) {
    sums_.groups.resize(groups.groups().size());
    const TensorClasses classes(model, totals);
    for (const Op& op : model.ops) {
      is_move_.push_back(MoveOf(op, classes).has_value());
      bounds_.push_back(peaks == nullptr ? std::nullopt : peaks->BoundOf(op));
    }
    FindLayoutScopes();
    FindSlices();
  }

  LayerSums Sum() {
    for (ProcessIndex process = 0; process < model_.processes.size(); ++process) DivideProcess(process);
    if (!model_.samples.empty()) DivideBySamples();
    SumScopes();
    SumCalls();
    FindMeasuredSteps();
    SumGpu();
    SetErrors();
    return std::move(sums_);
  }

 private:
  // What runs inside `contiguous`: the copy into another format.
  void FindLayoutScopes() {
    const std::vector<ScopeName> names = ReadScopeNames(model_);
    is_layout_.resize(model_.scopes.size());
    if (absl::c_none_of(names, [](const ScopeName& name) { return name.is_layout_copy; })) return;
    for (ScopeIndex scope = 0; scope < model_.scopes.size(); ++scope) {
      const ScopeIndex parent = model_.scopes.parent[scope];
      is_layout_[scope] =
          names[model_.scopes.look[scope].name].is_layout_copy || (parent != kNone && is_layout_[parent]);
    }
  }

  // In the windows of XLA's profiler, oneDNN's calls are slices of XLA's own products, which count.
  void FindSlices() {
    std::vector<std::vector<Interval>> windows(model_.processes.size());
    if (!model_.compiled_ops.empty()) {
      for (const ScopeWindow& window : model_.scope_windows) {
        if (OneDnnIsXlas(model_.processes[window.process]))
          windows[window.process].push_back({window.start_ns, window.end_ns});
      }
    }
    for (std::vector<Interval>& intervals : windows) slices_.emplace_back(std::move(intervals));
  }

  bool IsSlice(CallIndex call) {
    return model_.ops[model_.calls.op[call]].family == kOneDnnTap.family &&
           slices_[model_.threads[model_.calls.thread[call]].process].Has(model_.calls.start_ns[call]);
  }

  void DivideProcess(ProcessIndex process) {
    if (steps_.Of(process).empty()) return;
    time_.ForEach(process, [&](const TimePiece& piece) {
      ForEachStepAt(process, piece, [&](bool is_own) {
        if (is_own) {
          AddPiece(piece);
        } else {
          sums_.groups[groups_.other_threads()].share_ns += piece.share_ns;
        }
      });
    });
  }

  // Counts time of a step, found by `at_ns` among `steps` of the process, for the row's error.
  void AddToStep(GroupIndex group, ProcessIndex process, const std::vector<Interval>& steps, int64_t at_ns,
                 int64_t host_ns, int64_t gpu_ns) {
    if (model_.scope_windows.empty()) return;
    StepSums& of_group = by_step_[group];
    // Most come in the order of steps.
    const bool is_same = of_group.last != nullptr && process == of_group.last_process &&
                         at_ns >= of_group.last_step.start_ns && at_ns < of_group.last_step.end_ns;
    if (!is_same) {
      const auto after =
          absl::c_upper_bound(steps, at_ns, [](int64_t ns, const Interval& step) { return ns < step.start_ns; });
      if (after == steps.begin()) return;
      of_group.last_process = process;
      of_group.last_step = *std::prev(after);
      of_group.last = &of_group.by_start[{process, of_group.last_step.start_ns}];
    }
    NsOfStep& sum = *of_group.last;
    sum.host += static_cast<double>(host_ns);
    sum.gpu += static_cast<double>(gpu_ns);
  }

  // The two steps of a window are taken for independent.
  void SetErrors() {
    for (ProcessIndex process = 0; process < model_.processes.size() && !model_.scope_windows.empty(); ++process) {
      const std::vector<Interval>& steps = steps_.Of(process);
      std::vector<int64_t> borders;
      for (const Interval& step : steps) borders.insert(borders.end(), {step.start_ns, step.end_ns});
      absl::c_sort(borders);
      if (steps.empty()) continue;
      const auto add = [&](const TimePiece& piece) {
        ForEachStepAt(process, piece, [&](bool is_own) {
          if (is_own) AddToStep(groups_.OfPiece(piece).group, process, steps, piece.start_ns, piece.share_ns, 0);
        });
      };
      DivideTime(model_, process, borders, add, IntervalSet(steps).intervals());
    }
    const auto error_of = [](const StepSums::ByStart& steps, double NsOfStep::*ns, int64_t count) {
      if (count < 2) return 0.0;
      double sum = 0, squares = 0;
      for (const auto& [start, step] : steps) {
        sum += step.*ns;
        squares += step.*ns * (step.*ns);
      }
      const auto n = static_cast<double>(count);
      return std::sqrt(std::max(squares - sum * sum / n, 0.0) / (n - 1) / n);
    };
    for (const auto& [group, of_group] : by_step_) {
      const auto& steps = of_group.by_start;
      sums_.groups[group].error_ns = error_of(steps, &NsOfStep::host, sums_.step_count);
      sums_.groups[group].gpu_error_ns = error_of(steps, &NsOfStep::gpu, sums_.gpu_step_count);
    }
  }

  // `is_own`: of the step's thread, or of none.
  void ForEachStepAt(ProcessIndex process, const TimePiece& piece, absl::FunctionRef<void(bool is_own)> take) {
    for (auto& [thread, intervals] : steps_.ByThread(process)) {
      if (intervals.Has(piece.start_ns)) take(thread == kNone || piece.thread == kNone || piece.thread == thread);
    }
  }

  // Moves what samples tell of time that is not known better into the rows of the functions or lines that they met.
  void DivideBySamples() {
    const auto& samples = analysis_.Derived<GapSamples>(model_);
    std::map<GroupIndex, SampleSums> rows;
    std::vector<GroupPlace> places;
    std::map<std::pair<GroupIndex, LayerDirection>, uint32_t> known;
    for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
      for (const GapSample& at : samples.Of(process)) {
        const GroupIndex row = groups_.OfPiece(at.piece).group;
        if (!MayBeDivided(at.piece)) continue;
        const GroupPlace place = groups_.OfSample(at.sample);
        const auto [index, is_new] =
            known.try_emplace({place.group, place.direction}, static_cast<uint32_t>(places.size()));
        if (is_new) places.push_back(place);
        ForEachStepAt(process, at.piece, [&](bool is_own) {
          if (is_own) rows[row][index->second].Add(SumOfOne(model_.samples.cpu_ns[at.sample]));
        });
      }
    }
    for (const auto& [row, sums] : rows) {
      for (const SamplePart& part : SplitBySamples(open_[row].share_ns, sums).parts) {
        const bool is_told = places[part.place].group != kNone && part.samples >= kFewestOfPlace;
        if (is_told && places[part.place].group != row) Move(part.ns, row, places[part.place]);
      }
    }
  }

  void Move(int64_t ns, GroupIndex from, const GroupPlace& to) {
    LayerSums::Group& source = sums_.groups[from];
    LayerSums::Group& target = sums_.groups[to.group];
    OpenTime& open = open_[from];
    int64_t left_ns = ns;
    for (size_t i = 0; i < open.by_direction_ns.size(); ++i) {
      const double part = static_cast<double>(open.by_direction_ns[i]) / static_cast<double>(open.share_ns);
      const int64_t moved_ns = std::min<int64_t>(left_ns, std::llround(part * static_cast<double>(ns)));
      source.by_direction_ns[i] -= moved_ns;
      target.by_direction_ns[to.direction == LayerDirection::kUnknown ? i : static_cast<size_t>(to.direction)] +=
          moved_ns;
      left_ns -= moved_ns;
    }
    source.by_direction_ns[0] -= left_ns;  // of rounding
    target.by_direction_ns[0] += left_ns;
    source.share_ns -= ns;
    target.share_ns += ns;
  }

  // Of a loop over several layers, each gets its part.
  void Divide(LayerIndex layer, GroupIndex whole, int64_t ns,
              absl::FunctionRef<void(LayerSums::Group& group, int64_t ns)> add) {
    const bool is_row = layer != kNone && groups_.OfLayer(layer) != kNone;
    if (!is_row || attribution_.layers[layer].loop_parts.empty()) return add(sums_.groups[whole], ns);
    const std::vector<LoopPart>& parts = attribution_.layers[layer].loop_parts;
    int64_t left_ns = ns;
    for (const LoopPart& part : parts) {
      const auto rounded_ns = static_cast<int64_t>(std::llround(part.part * static_cast<double>(ns)));
      const int64_t part_ns = &part == &parts.back() ? left_ns : std::min(left_ns, rounded_ns);
      add(sums_.groups[groups_.OfLayer(part.layer)], part_ns);
      left_ns -= part_ns;
    }
  }

  void AddPiece(const TimePiece& piece) {
    const auto [row, direction_in_it] = groups_.OfPiece(piece);
    const auto direction = static_cast<size_t>(direction_in_it);
    const bool is_call = piece.kind == ActivityKind::kCall, is_scope = piece.kind == ActivityKind::kScope;
    const bool is_layout = is_call ? is_move_[model_.calls.op[piece.index]] : is_scope && is_layout_[piece.index];
    const LayerIndex layer = is_call || is_scope ? PlaceOf(attribution_, piece).layer : kNone;
    Divide(layer, row, piece.share_ns, [&](LayerSums::Group& group, int64_t ns) {
      group.share_ns += ns;
      group.by_direction_ns[direction] += ns;
      if (is_layout) group.layout_ns += ns;
    });
    if (model_.samples.empty() || !MayBeDivided(piece)) return;
    OpenTime& open = open_[row];
    open.share_ns += piece.share_ns;
    open.by_direction_ns[direction] += piece.share_ns;
  }

  bool MayBeDivided(const TimePiece& piece) const {
    return piece.kind != ActivityKind::kDataLoading && MaySamplesTell(model_, piece);
  }

  bool Counts(ThreadIndex thread, int64_t start_ns) {
    return steps_.Contains(model_.threads[thread].process, thread, start_ns);
  }

  // A scope or call that counts; kNone: it does not, for example because it began before the step.
  struct Counted {
    GroupIndex group = kNone;
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    LayerIndex layer = kNone;
  };
  Counted CountedScope(ScopeIndex scope) {
    const ScopeColumns& scopes = model_.scopes;
    if (scope == kNone || !Counts(scopes.thread[scope], scopes.start_ns[scope])) return {};
    return {groups_.OfScope(scope), scopes.start_ns[scope], scopes.EndOf(scope),
            attribution_.PlaceOfScope(scope).layer};
  }
  Counted CountedCall(CallIndex call) {
    const CallColumns& calls = model_.calls;
    if (!Counts(calls.thread[call], calls.start_ns[call])) return {};
    return {groups_.OfCall(call), calls.start_ns[call], calls.EndOf(call), attribution_.of_call[call].layer};
  }

  // Adds a duration to its group and subtracts it from the enclosing one. Only the enclosed part: in a damaged trace,
  // sequence numbers may contradict times.
  void AddNested(const Counted& inner, const Counted& around) {
    if (inner.group == around.group) return;
    Divide(inner.layer, inner.group, inner.end_ns - inner.start_ns, [](LayerSums::Group& group, int64_t ns) {
      group.thread_ns += ns;
      group.self_ns += ns;
    });
    if (around.group == kNone) return;
    const int64_t inside_ns = std::min(inner.end_ns, around.end_ns) - std::max(inner.start_ns, around.start_ns);
    sums_.groups[around.group].self_ns -= std::max<int64_t>(inside_ns, 0);
  }

  void SumScopes() {
    std::vector<std::pair<ScopeIndex, Counted>> open;  // those around a scope precede it
    for (ScopeIndex scope = 0; scope < model_.scopes.size(); ++scope) {
      const ScopeIndex parent = model_.scopes.parent[scope];
      while (!open.empty() && open.back().first != parent) open.pop_back();
      const Counted counted = CountedScope(scope);
      if (counted.group != kNone) AddNested(counted, open.empty() ? CountedScope(parent) : open.back().second);
      open.emplace_back(scope, counted);
    }
  }

  void SumCalls() {
    const SameWork same_work(model_);
    const CallColumns& calls = model_.calls;
    for (CallIndex call = 0; call < calls.size(); ++call) {
      const Counted counted = CountedCall(call);
      if (counted.group == kNone) continue;
      const CallIndex parent = calls.parent[call];
      AddNested(counted, parent != kNone ? CountedCall(parent) : CountedScope(calls.ScopeOf(call)));
      if (same_work.IsNested(call) || IsSlice(call)) continue;
      AddWork(model_.ops[calls.op[call]], &sums_.groups[counted.group]);
      AddBound(call, &sums_.groups[counted.group].bounds);
    }
  }

  // Other steps have GPU times for a part of their work at most: including them would make the mean too small.
  void FindMeasuredSteps() {
    if (model_.gpu.empty()) return;
    size_t count = 0;
    for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
      std::vector<Interval>& measured = measured_.emplace_back(steps_.Of(process));
      const IntervalSet blind = GpuUnmeasuredTime(model_, process);
      std::erase_if(measured, [&](const Interval& step) { return blind.CoveredNs(step.start_ns, step.end_ns) > 0; });
      count += measured.size();
    }
    sums_.gpu_step_count = static_cast<int64_t>(count);
    if (count > 0 && sums_.step_count > 0) return;
    for (ProcessIndex process = 0; process < measured_.size(); ++process) measured_[process] = steps_.Of(process);
    sums_.gpu_step_count = sums_.step_count;
  }

  void SumGpu() {
    const GpuActivityColumns& gpu = model_.gpu;
    if (gpu.empty()) return;
    const SameWork same_work(model_);
    const std::vector<Place> places = GpuPlaces(model_, attribution_);
    for (const std::vector<Interval>& measured : measured_) measured_time_.emplace_back(measured);
    std::vector<GroupIndex> group_of;
    int64_t busy_until_ns = INT64_MIN;
    for (GpuIndex activity = 0; activity < gpu.size(); ++activity) {  // by device, in order of time
      if (activity > 0 && gpu.device[activity] != gpu.device[activity - 1]) busy_until_ns = INT64_MIN;
      group_of.push_back(groups_.OfGpu(activity, places[activity]));
      if (!CountsGpu(activity)) continue;
      const int64_t new_ns = gpu.end_ns[activity] - std::max(gpu.start_ns[activity], busy_until_ns);
      sums_.gpu_busy_ns += std::max<int64_t>(new_ns, 0);
      busy_until_ns = std::max(busy_until_ns, gpu.end_ns[activity]);
      AddGpu(activity, places[activity], group_of.back());
      AddGpuWork(activity, places[activity], same_work, &sums_.groups[group_of.back()]);
    }
    for (GpuDeviceIndex device = 0; device < model_.gpu_devices.size(); ++device) DivideGpu(device, group_of, places);
  }

  bool CountsGpu(GpuIndex activity) const {
    const int64_t requested_ns = GpuAskedNs(model_, activity);
    const IntervalSet& measured = measured_time_[model_.gpu_devices[model_.gpu.device[activity]].process];
    return measured.CoveredNs(requested_ns, requested_ns + 1) > 0;
  }

  // A kernel over several layers is one of each.
  void AddGpu(GpuIndex activity, const Place& place, GroupIndex whole) {
    const bool is_kernel = model_.gpu.kind[activity] == GpuActivityKind::kKernel;
    const ProcessIndex process = model_.gpu_devices[model_.gpu.device[activity]].process;
    AddToStep(whole, process, measured_[process], GpuAskedNs(model_, activity), 0, model_.gpu.DurationNs(activity));
    Divide(place.layer, whole, model_.gpu.DurationNs(activity), [&](LayerSums::Group& group, int64_t ns) {
      group.gpu_ns += ns;
      group.gpu_by_direction_ns[static_cast<size_t>(place.direction)] += ns;
      ++group.gpu_activities;
      group.gpu_kernels += is_kernel;
    });
  }

  // Calls that return before their work is done count with their GPU work; captured calls with every launch of their
  // graph.
  void AddGpuWork(GpuIndex activity, const Place& place, const SameWork& same_work, LayerSums::Group* group) {
    const CallIndex launch = model_.gpu.graph[activity] == 0 ? kNone : model_.gpu.launch_call[activity];
    CallIndex call = model_.gpu.call[activity];
    bool is_bounded = false, is_rated = false;
    for (int depth = 0; call != kNone && depth < kMaxDepth; call = model_.calls.parent[call], ++depth) {
      const OpIndex op = model_.calls.op[call];
      if (same_work.IsNested(call)) continue;
      const bool is_first = executions_.insert({call, launch}).second;
      if (is_first) group->gpu_flops += static_cast<double>(model_.ops[op].flops.value_or(0));
      is_rated = is_rated || AddAtPeak(activity, model_.ops[op], is_first, place, group);
      if (is_bounded || !bounds_[op] || !model_.ops[op].on_gpu) continue;
      is_bounded = true;  // by the innermost: a product inside another op is part of it
      group->bounds.time_ns += static_cast<double>(model_.gpu.DurationNs(activity));
      if (is_first) group->bounds.Add(model_.ops[op], *bounds_[op], 1);
    }
  }

  // Whether what the call computes is known.
  bool AddAtPeak(GpuIndex activity, const Op& op, bool is_first, const Place& place, LayerSums::Group* group) {
    if (peaks_ == nullptr || !op.on_gpu || op.is_creation || op.is_trial || op.flops.value_or(0) == 0) return false;
    const std::optional<double> peak = peaks_->RateOf(op);
    if (peak) {
      sums_.gpu_peaks[PeakTypeOf(op)] = *peak;
    } else {
      sums_.gpu_types_without_peak.insert(PeakTypeOf(op));
    }
    sums_.gpu_rated_ns += model_.gpu.DurationNs(activity);
    if (!is_first || !peak) return true;
    const double ns = static_cast<double>(*op.flops) / *peak;
    sums_.gpu_rated_flops += static_cast<double>(*op.flops);
    group->gpu_peak_ns += ns;
    if (place.direction == LayerDirection::kRecompute) group->gpu_recompute_peak_ns += ns;
    return true;
  }

  void DivideGpu(GpuDeviceIndex device, const std::vector<GroupIndex>& group_of, const std::vector<Place>& places) {
    const auto [first, end] = GpuRangeOf(model_, device);
    if (first == end) return;  // the process does not use this GPU
    const ProcessIndex process = model_.gpu_devices[device].process;
    const IntervalSet blind = GpuBlindTime(model_, process);
    DivideGpuTime(model_, device, IntervalSet(steps_.Of(process)), [&](const GpuTimePiece& piece) {
      sums_.gpu_total_ns += piece.share_ns;
      if (piece.activity != kNone) {
        Divide(places[piece.activity].layer, group_of[piece.activity], piece.share_ns,
               [](LayerSums::Group& group, int64_t ns) { group.gpu_share_ns += ns; });
        return;
      }
      const int64_t blind_ns = blind.CoveredNs(piece.start_ns, piece.end_ns);
      sums_.groups[groups_.gpu_blind()].gpu_share_ns += blind_ns;
      sums_.groups[groups_.gpu_idle()].gpu_share_ns += piece.share_ns - blind_ns;
    });
  }

  static void AddWork(const Op& op, LayerSums::Group* group) {
    ++group->calls;
    if (op.is_creation || op.is_trial) return;
    group->flops += static_cast<double>(op.flops.value_or(0));
    group->bytes += static_cast<double>(op.bytes.value_or(0));
    if (op.flops && (op.is_asynchronous || op.captured)) group->has_rate = false;
  }

  // Calls inside others with a bound are part of these.
  void AddBound(CallIndex call, BoundSums* sums) const {
    const CallColumns& calls = model_.calls;
    const std::optional<Bound>& bound = bounds_[calls.op[call]];
    const Op& op = model_.ops[calls.op[call]];
    if (!bound || op.on_gpu || op.is_asynchronous) return;
    for (CallIndex around = calls.parent[call]; around != kNone; around = calls.parent[around]) {
      if (bounds_[calls.op[around]]) return;
    }
    sums->Add(op, *bound, 1);
    sums->time_ns += static_cast<double>(calls.duration_ns[call]);
  }

  const TraceModel& model_;
  const LayerAnalysis& analysis_;
  const Attribution& attribution_;
  const FoldedTime& time_;
  const LayerGroups& groups_;
  const Peaks* const peaks_;  // null: not wanted
  LayerSums sums_;
  StepTimes steps_;
  std::vector<std::vector<Interval>> measured_;                      // of these steps, by process
  std::vector<IntervalSet> measured_time_;                           // the same
  std::vector<std::optional<Bound>> bounds_;                         // by op
  std::vector<bool> is_move_;                                        // by op
  std::vector<bool> is_layout_;                                      // by scope
  std::vector<IntervalFinder> slices_;                               // when oneDNN's calls are parts, by process
  absl::flat_hash_set<std::pair<CallIndex, CallIndex>> executions_;  // call, launch of its graph
  // Of a row, the time that samples may divide.
  struct OpenTime {
    int64_t share_ns = 0;
    NsByDirection by_direction_ns{};
  };
  std::map<GroupIndex, OpenTime> open_;
  struct NsOfStep {
    double host = 0;
    double gpu = 0;
  };
  struct StepSums {
    using ByStart = std::map<std::pair<ProcessIndex, int64_t>, NsOfStep>;
    ByStart by_start;
    ProcessIndex last_process = 0;
    Interval last_step = {};
    NsOfStep* last = nullptr;
  };
  std::unordered_map<GroupIndex, StepSums> by_step_;  // of runs in windows
};

}  // namespace

int64_t LayerSums::Group::backward_ns() const { return BackwardOf(by_direction_ns); }
int64_t LayerSums::Group::gpu_backward_ns() const { return BackwardOf(gpu_by_direction_ns); }

std::optional<LayerSums::Utilization> LayerSums::GpuUtilization() const {
  if (gpu_peaks.empty() || !gpu_types_without_peak.empty() || gpu_total_ns == 0) return std::nullopt;
  double peak_ns = 0, again_ns = 0;
  for (const Group& group : groups) {
    peak_ns += group.gpu_peak_ns;
    again_ns += group.gpu_recompute_peak_ns;
  }
  const double steps_ns =
      static_cast<double>(gpu_total_ns) * static_cast<double>(gpu_steps()) / static_cast<double>(steps());
  std::vector<std::string> peaks;
  for (const auto& [type, peak] : gpu_peaks) peaks.push_back(absl::StrFormat("%.0f TFLOP/s for %s", peak / 1000, type));
  return Utilization{100 * (peak_ns - again_ns) / steps_ns, 100 * peak_ns / steps_ns, absl::StrJoin(peaks, ", ")};
}

std::vector<StepSet> StepSetsOf(const std::vector<StepTrack>& tracks, std::optional<StepKind> wanted) {
  std::vector<StepKind> kinds = {StepKind::kTraining, StepKind::kInference, StepKind::kUnknown};
  if (wanted) kinds = {*wanted};
  for (StepKind kind : kinds) {
    std::map<std::string, StepSet> sorts;
    for (const StepTrack& track : tracks) {
      for (const Step& step : track.steps) {
        if (step.kind != kind) continue;
        StepSet& set = sorts.try_emplace(step.sort, StepSet{kind, step.sort, {}, {}, 0}).first->second;
        set.left_out.Add(step);
        if (!step.counts()) continue;
        set.steps.push_back({track.process, &step});
        set.total_ns += step.end_ns - step.start_ns;
      }
    }
    std::vector<StepSet> sets;
    for (auto& [sort, set] : sorts) {
      if (!set.steps.empty()) sets.push_back(std::move(set));
    }
    std::ranges::stable_sort(sets, std::ranges::greater(), &StepSet::total_ns);
    if (!sets.empty()) return sets;
  }
  return {};
}

LayerSums SumLayers(const TraceModel& model, const LayerAnalysis& analysis, const LayerGroups& groups,
                    const RunTotals& totals, const StepSet& set, const Peaks* peaks) {
  return Summer(model, analysis, groups, totals, set, peaks).Sum();
}

}  // namespace dlhook::analyzer::tables
