#include "analyzer/diff/measured_run.h"

namespace dlhook::analyzer::inline diff {
namespace {

// The steps of one process, ascending.
using Intervals = std::vector<std::pair<int64_t, int64_t>>;

bool Overlaps(const Intervals& intervals, int64_t start_ns, int64_t end_ns) {
  const auto first = std::ranges::upper_bound(intervals, start_ns, {}, &std::pair<int64_t, int64_t>::second);
  return first != intervals.end() && first->first < std::max(end_ns, start_ns + 1);
}

template <typename Column>
void Keep(const Column& from, const std::vector<uint32_t>& kept, Column& to) {
  if (from.empty()) return;
  to.reserve(kept.size());
  for (uint32_t index : kept) to.push_back(from[index]);
}

// Turns indices into all elements into indices into those kept.
void Renumber(const std::vector<uint32_t>& number, std::vector<uint32_t>& indices) {
  for (uint32_t& index : indices) {
    if (index != kNone) index = number[index];
  }
}

class Slicer {
 public:
  Slicer(const TraceModel& model, const ComparedSteps& steps) : model_(model), steps_of_(model.processes.size()) {
    for (const StepTrack& track : steps.tracks) {
      for (const Step& step : track.steps) steps_of_[track.process].push_back({step.start_ns, step.end_ns});
    }
    kept_calls_ = Choose(model.calls, 0, call_number_);
    // What a thread does between two scopes is derived from both, so scopes shortly before and after a step are kept,
    // too. They do not count.
    const int64_t margin_ns = steps.count() == 0 ? 0 : steps.total_ns() / steps.count();
    kept_scopes_ = Choose(model.scopes, margin_ns, scope_number_);
    ChooseGpuWork();
  }

  TraceModel Cut() const {
    TraceModel slice;
    CopyWhatAllShare(slice);
    CutCalls(slice);
    CutScopes(slice);
    CutGpuWork(slice);
    for (const CounterSeries& series : model_.counters) {
      slice.counters.push_back(SliceOf(series, steps_of_[series.process]));
    }
    for (const FailedCall& failed : model_.failed_calls) {
      if (call_number_[failed.call] != kNone) slice.failed_calls.push_back({call_number_[failed.call], failed.status});
    }
    for (const auto& [call, stack] : model_.call_stacks) {
      if (call_number_[call] != kNone) slice.call_stacks.emplace_back(call_number_[call], stack);
    }
    for (CallIndex call : model_.operands.call) {
      if (call_number_[call] == kNone) continue;
      slice.operands.call.push_back(call_number_[call]);
      slice.operands.begin.push_back(slice.operands.value.size());
      const auto values = model_.OperandsOf(call);
      slice.operands.value.insert(slice.operands.value.end(), values.begin(), values.end());
    }
    return slice;
  }

  Attribution Cut(const Attribution& attribution) const {
    Attribution slice;
    slice.layers = attribution.layers;
    Keep(attribution.of_call, kept_calls_, slice.of_call);
    Keep(attribution.of_scope, kept_scopes_, slice.of_scope);
    slice.of_gap = attribution.of_gap;
    // A call captured into a CUDA graph is in no step; it is kept because it describes the graph's work.
    Keep(GpuPlaces(model_, attribution), kept_gpu_, slice.of_gpu);
    return slice;
  }

  // The part of [start, end) of the slice that is in no step.
  int64_t BetweenSteps(const TraceModel& slice) const {
    Intervals all;
    for (const Intervals& intervals : steps_of_) all.insert(all.end(), intervals.begin(), intervals.end());
    absl::c_sort(all);
    int64_t between_ns = 0, at_ns = slice.start_ns;
    for (const auto& [start_ns, end_ns] : all) {
      between_ns += std::max<int64_t>(start_ns - at_ns, 0);
      at_ns = std::max(at_ns, end_ns);
    }
    return between_ns + slice.end_ns - at_ns;
  }

 private:
  template <typename Columns>
  std::vector<uint32_t> Choose(const Columns& columns, int64_t margin_ns, std::vector<uint32_t>& number) const {
    std::vector<uint32_t> kept;
    number.assign(columns.size(), kNone);
    for (uint32_t i = 0; i < columns.size(); ++i) {
      const Intervals& intervals = steps_of_[model_.threads[columns.thread[i]].process];
      const int64_t start_ns = columns.start_ns[i];
      if (!Overlaps(intervals, start_ns - margin_ns, start_ns + columns.duration_ns[i] + margin_ns)) continue;
      number[i] = static_cast<uint32_t>(kept.size());
      kept.push_back(i);
    }
    return kept;
  }

  // GPU work belongs to the step that asked for it, whenever it ran.
  void ChooseGpuWork() {
    const GpuActivityColumns& gpu = model_.gpu;
    for (GpuIndex i = 0; i < gpu.size(); ++i) {
      const Intervals& intervals = steps_of_[model_.gpu_devices[gpu.device[i]].process];
      const bool is_asked = gpu.requested_ns[i] != GpuActivityColumns::kNotKnown;
      const int64_t start_ns = is_asked ? gpu.requested_ns[i] : gpu.start_ns[i];
      const int64_t end_ns = is_asked ? start_ns : gpu.end_ns[i];
      if (Overlaps(intervals, start_ns, end_ns)) kept_gpu_.push_back(i);
    }
  }

  void CopyWhatAllShare(TraceModel& slice) const {
    static_cast<CommonModel&>(slice) = model_;
    slice.start_ns = model_.end_ns;
    slice.end_ns = model_.start_ns;
    for (const Intervals& intervals : steps_of_) {
      if (intervals.empty()) continue;
      slice.start_ns = std::min(slice.start_ns, intervals.front().first);
      slice.end_ns = std::max(slice.end_ns, intervals.back().second);
    }
  }

  void CutCalls(TraceModel& slice) const {
    ForEachOf(kCallColumns, [&](auto column) { Keep(model_.calls.*column, kept_calls_, slice.calls.*column); });
    Keep(model_.calls.scope, kept_calls_, slice.calls.scope);
    Keep(model_.calls.native_stack, kept_calls_, slice.calls.native_stack);
    Renumber(call_number_, slice.calls.parent);
    Renumber(scope_number_, slice.calls.scope);
  }

  void CutScopes(TraceModel& slice) const {
    Keep(model_.scopes.start_ns, kept_scopes_, slice.scopes.start_ns);
    Keep(model_.scopes.duration_ns, kept_scopes_, slice.scopes.duration_ns);
    Keep(model_.scopes.look, kept_scopes_, slice.scopes.look);
    Keep(model_.scopes.link, kept_scopes_, slice.scopes.link);
    for (ScopeIndex scope : kept_scopes_) {
      const ScopeIndex parent = model_.scopes.parent[scope];
      slice.scopes.thread.push_back(model_.scopes.thread[scope]);
      slice.scopes.parent.push_back(parent == kNone ? kNone : scope_number_[parent]);
    }
  }

  void CutGpuWork(TraceModel& slice) const {
    const GpuActivityColumns& from = model_.gpu;
    GpuActivityColumns& to = slice.gpu;
    ForEachOf(kGpuColumns, [&](auto column) { Keep(from.*column, kept_gpu_, to.*column); });
    Keep(from.scope, kept_gpu_, to.scope);
    Renumber(call_number_, to.launch_call);
    Renumber(call_number_, to.call);
    Renumber(scope_number_, to.scope);
  }

  const TraceModel& model_;
  std::vector<Intervals> steps_of_;  // by process
  std::vector<uint32_t> kept_calls_, kept_scopes_, kept_gpu_;
  std::vector<uint32_t> call_number_, scope_number_;  // by index in the run: index in the slice, or kNone
};

using Values = std::vector<uint64_t>;  // of the counters, then enabled and running time if recorded

Values ReadingAt(const CounterSeries& series, size_t reading) {
  const auto first = series.value.begin() + static_cast<int64_t>(reading * series.names.size());
  Values values(first, first + std::ssize(series.names));
  if (!series.running_ns.empty()) values.insert(values.end(), {series.enabled_ns[reading], series.running_ns[reading]});
  return values;
}

// At a time between the first and the last reading.
Values ValuesAt(const CounterSeries& series, int64_t time_ns) {
  const auto after = absl::c_upper_bound(series.time_ns, time_ns);
  const auto from = static_cast<size_t>(after - series.time_ns.begin()) - 1;
  Values values = ReadingAt(series, from);
  const int64_t since_ns = time_ns - series.time_ns[from];
  if (since_ns == 0) return values;
  const Values next = ReadingAt(series, from + 1);
  for (size_t j = 0; j < values.size(); ++j) {
    const auto difference = static_cast<unsigned __int128>(next[j] - values[j]);
    values[j] += static_cast<uint64_t>(difference * static_cast<uint64_t>(since_ns) /
                                       static_cast<uint64_t>(series.time_ns[from + 1] - series.time_ns[from]));
  }
  return values;
}

class Slice {
 public:
  explicit Slice(const CounterSeries& series) : series_(series) {
    slice_.process = series.process;
    slice_.thread = series.thread;
    slice_.tid = series.tid;
    slice_.kind = series.kind;
    slice_.names = series.names;
    now_.resize(series.names.size() + (series.running_ns.empty() ? 0 : 2));
  }

  // Adds the part of the series from `start_ns` to `end_ns`, which must lie between its first and last reading.
  void Add(int64_t start_ns, int64_t end_ns) {
    Values before = ValuesAt(series_, start_ns);
    Append(start_ns);
    const auto take = [&](int64_t time_ns) {
      const Values values = ValuesAt(series_, time_ns);
      for (size_t j = 0; j < values.size(); ++j) now_[j] += values[j] - before[j];
      before = values;
      Append(time_ns);
    };
    for (auto time = absl::c_upper_bound(series_.time_ns, start_ns); time != series_.time_ns.end() && *time < end_ns;
         ++time) {
      take(*time);
    }
    take(end_ns);
  }

  CounterSeries Take() { return std::move(slice_); }

 private:
  void Append(int64_t time_ns) {
    const size_t width = series_.names.size();
    slice_.time_ns.push_back(time_ns);
    slice_.value.insert(slice_.value.end(), now_.begin(), now_.begin() + static_cast<int64_t>(width));
    if (series_.running_ns.empty()) return;
    slice_.enabled_ns.push_back(now_[width]);
    slice_.running_ns.push_back(now_[width + 1]);
  }

  const CounterSeries& series_;
  CounterSeries slice_;  // without a known source: its values count from the first interval
  Values now_;
};

}  // namespace

StepSlice::StepSlice(const TraceModel& model, const Attribution& attribution, const ComparedSteps& steps) {
  const Slicer slicer(model, steps);
  model_ = slicer.Cut();
  totals_ = ComputeTotals(model_);
  totals_.unattributed_ns -= slicer.BetweenSteps(model_);
  analysis_.emplace(model_, slicer.Cut(attribution), steps.tracks);
}

CounterSeries SliceOf(const CounterSeries& series, const std::vector<std::pair<int64_t, int64_t>>& intervals) {
  Slice slice(series);
  if (series.time_ns.empty()) return slice.Take();
  for (const auto& [start_ns, end_ns] : intervals) {
    const int64_t from_ns = std::max(start_ns, series.time_ns.front());
    const int64_t to_ns = std::min(end_ns, series.time_ns.back());
    if (from_ns < to_ns) slice.Add(from_ns, to_ns);
  }
  return slice.Take();
}

}  // namespace dlhook::analyzer::diff
