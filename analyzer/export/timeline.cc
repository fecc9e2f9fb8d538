#include "analyzer/export/timeline.h"

#include "analyzer/export/slice_labels.h"
#include "analyzer/layers/framework/torch_units.h"
#include "analyzer/render/escape.h"
#include "analyzer/steps/step_index.h"
#include "analyzer/time/counter_division.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline exports {
namespace {

constexpr double kNsPerSecond = 1e9;

std::string ProcessName(const ProcessInfo& process) {
  return absl::StrCat(process.program, process.script.empty() ? "" : " ", process.script);
}

// "RANK=1, host b".
std::string ProcessLabel(const TraceModel& model, const ProcessInfo& process) {
  std::vector<std::string> words;
  for (const auto& [name, value] : process.rank_variables) words.push_back(absl::StrCat(name, "=", value));
  const bool has_hosts =
      absl::c_any_of(model.processes, [&](const ProcessInfo& other) { return other.host != process.host; });
  if (has_hosts) words.push_back(absl::StrCat("host ", process.host));
  return absl::StrJoin(words, ", ");
}

// A call or scope.
struct ThreadSlice {
  bool is_call = false;
  uint32_t index = 0;  // CallIndex or ScopeIndex
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t duration_ns = 0;  // as recorded; start and end are cut to what is around where the two disagree
};

// The calls and scopes of one thread as slices that nest exactly. Calls nest in calls, and scopes in scopes. A call belongs to
// a scope by its number, but the time of a call that a library logged is coarse: where it begins before its scope, or ends
// after it, the slice is cut to the scope.
class ThreadSlices {
 public:
  using Begin = absl::FunctionRef<void(const ThreadSlice&)>;
  using End = absl::FunctionRef<void(int64_t end_ns)>;

  ThreadSlices(const TraceModel& model, Begin begin, End end) : model_(model), begin_(begin), end_(end) {}

  void Run(ThreadIndex thread) {
    std::tie(scope_, scopes_end_) = model_.scopes.thread.RangeOf(thread);
    std::tie(call_, calls_end_) = model_.calls.RangeOf(thread);
    while (call_ < calls_end_ || scope_ < scopes_end_) {
      if (IsScopeNext()) {
        const ScopeColumns& scopes = model_.scopes;
        Open(false, scope_, scopes.start_ns[scope_], scopes.duration_ns[scope_], false, scopes.parent[scope_]);
        ++scope_;
      } else {
        const CallColumns& calls = model_.calls;
        const bool is_in_call = calls.parent[call_] != kNone;
        Open(true, call_, calls.start_ns[call_], calls.duration_ns[call_], is_in_call,
             is_in_call ? calls.parent[call_] : calls.ScopeOf(call_));
        ++call_;
      }
    }
    while (!open_.empty()) CloseInnermost();
  }

 private:
  bool IsScopeNext() const {
    if (scope_ == scopes_end_ || call_ == calls_end_) return scope_ < scopes_end_;
    const ScopeIndex around = model_.calls.ScopeOf(call_);
    return (around != kNone && around >= scope_) || model_.scopes.start_ns[scope_] <= model_.calls.start_ns[call_];
  }

  void Open(bool is_call, uint32_t index, int64_t start_ns, int64_t duration_ns, bool parent_is_call, uint32_t parent) {
    const int64_t end_ns = start_ns + duration_ns;
    const auto is_around = [&](const ThreadSlice& slice) {
      if (parent != kNone && slice.is_call == parent_is_call && slice.index == parent) return true;
      return slice.start_ns <= start_ns && end_ns <= slice.end_ns;
    };
    while (!open_.empty() && !is_around(open_.back())) CloseInnermost();
    ThreadSlice slice = {is_call, index, std::max(start_ns, closed_ns_), end_ns, duration_ns};
    if (!open_.empty()) {
      slice.start_ns = std::max(slice.start_ns, open_.back().start_ns);
      slice.end_ns = std::min(slice.end_ns, open_.back().end_ns);
    }
    slice.end_ns = std::max(slice.end_ns, slice.start_ns);
    open_.push_back(slice);
    begin_(slice);
  }

  void CloseInnermost() {
    closed_ns_ = std::max(closed_ns_, open_.back().end_ns);
    end_(open_.back().end_ns);
    open_.pop_back();
  }

  const TraceModel& model_;
  const Begin begin_;
  const End end_;
  uint32_t call_ = 0, calls_end_ = 0;  // the next ones
  uint32_t scope_ = 0, scopes_end_ = 0;
  std::vector<ThreadSlice> open_;
  int64_t closed_ns_ = INT64_MIN;  // the end of the last slice that was closed
};

class Walker {
 public:
  Walker(const Timeline& timeline, TimelineTexts& texts, TimelineWriter& writer)
      : model_(timeline.model),
        analysis_(timeline.analysis),
        texts_(texts),
        writer_(writer),
        labels_(model_, analysis_.attribution(), texts),
        step_index_(model_, analysis_.steps()),
        progress_(timeline, model_.calls.size() + model_.scopes.size() + model_.gpu.size()) {}

  void Walk() {
    FindFlows();
    for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
      const ProcessInfo& info = model_.processes[process];
      writer_.Process(process, texts_.Of(ProcessName(info)), texts_.Of(ProcessLabel(model_, info)));
      for (const StepTrack& track : analysis_.steps()) {
        if (track.process == process) AddSteps(track);
      }
      for (ThreadIndex thread = 0; thread < model_.threads.size(); ++thread) {
        if (model_.threads[thread].process == process && !IsOwnThread(model_.threads[thread])) AddThread(thread);
      }
    }
    AddGpu();
    AddCounters();
    AddLoads();
  }

 private:
  int64_t Time(int64_t ns) const { return std::max<int64_t>(ns - model_.start_ns, 0); }

  TrackIndex NewTrack(TrackKind kind, ProcessIndex process, ThreadIndex thread, absl::string_view name,
                      absl::string_view unit = "") {
    const TimelineTrack track = {tracks_++, kind, process, thread, texts_.Of(name), texts_.Of(unit)};
    writer_.Track(track);
    return track.index;
  }

  // ---- flows ----

  // By the slice that they start from, ascending.
  using Flows = std::vector<std::pair<uint32_t, TimelineFlow>>;

  void FindFlows() {
    const bool has_nodes =
        absl::c_any_of(model_.scopes.look, [](const ScopeLook& look) { return look.kind == ScopeKind::kBackwardNode; });
    if (has_nodes) {
      forward_of_ = FindTorchUnits(model_, ReadPythonPlaces(model_)).linked;
      for (ScopeIndex node = 0; node < forward_of_.size(); ++node) {
        if (HasForward(node)) from_scope_.push_back({ForwardOf(node), BackwardFlow(node)});
      }
    }
    for (GpuIndex activity = 0; activity < model_.gpu.size(); ++activity) {
      const CallIndex call = model_.gpu.launch_call[activity];
      if (call != kNone) from_call_.push_back({call, LaunchFlow(activity)});
    }
    const auto by_start = [](const auto& a, const auto& b) { return a.first < b.first; };
    absl::c_stable_sort(from_scope_, by_start);
    absl::c_stable_sort(from_call_, by_start);
  }

  // Whether a flow leads to this scope: one to the engine's scope, not another to the node in it.
  bool HasForward(ScopeIndex node) const {
    if (ForwardOf(node) == kNone) return false;
    const ScopeIndex around = model_.scopes.parent[node];
    return around == kNone || ForwardOf(around) != ForwardOf(node);
  }

  ScopeIndex ForwardOf(ScopeIndex scope) const {
    const bool is_node = scope < forward_of_.size() && model_.scopes.look[scope].kind == ScopeKind::kBackwardNode;
    return is_node ? forward_of_[scope] : kNone;
  }

  static TimelineFlow BackwardFlow(ScopeIndex node) { return {uint64_t{2} * node + 1, FlowKind::kBackward}; }
  static TimelineFlow LaunchFlow(GpuIndex activity) { return {uint64_t{2} * activity + 2, FlowKind::kLaunch}; }

  void FlowsFrom(const Flows& flows, uint32_t index) {
    starts_.clear();
    auto at = absl::c_lower_bound(flows, index, [](const auto& flow, uint32_t wanted) { return flow.first < wanted; });
    for (; at != flows.end() && at->first == index; ++at) starts_.push_back(at->second);
  }

  // ---- steps ----

  void AddSteps(const StepTrack& track) {
    const std::string name =
        track.thread == kNone ? "steps" : absl::StrCat("steps of ", model_.threads[track.thread].name);
    const TrackIndex index = NewTrack(TrackKind::kSteps, track.process, track.thread, name);
    const TextIndex kind = texts_.Of("step"), phase_kind = texts_.Of("phase");
    int64_t number = 0;
    for (const Step& step : track.steps) {
      const std::string name_of_step =
          absl::StrCat(step.is_warm_up ? "warm-up " : "", StepName(step.kind, step.sort), " ", number);
      const TimelineArgs args = StepArgs(step, number++);
      writer_.Begin({index, Time(step.start_ns), Time(step.end_ns), texts_.Of(name_of_step), kind, args});
      const bool has_phases = step.left_out != LeftOut::kNotRecorded;  // else one reaches into the next one
      for (const PhaseInterval& phase : has_phases ? step.phases : std::vector<PhaseInterval>()) {
        const TextIndex phase_name = texts_.Of(PhaseKindName(phase.kind));
        writer_.Begin({index, Time(phase.start_ns), Time(phase.end_ns), phase_name, phase_kind});
        writer_.End(index, Time(phase.end_ns));
      }
      writer_.End(index, Time(step.end_ns));
    }
  }

  TimelineArgs StepArgs(const Step& step, int64_t number) {
    TimelineArgs args = {{texts_.Of("number"), number}};
    if (step.batch > 0) args.push_back({texts_.Of("batch"), step.batch});
    if (step.micro_steps > 1) args.push_back({texts_.Of("micro_steps"), int64_t{step.micro_steps}});
    if (!step.is_regular) args.push_back({texts_.Of("regular"), texts_.Of("no")});
    return args;
  }

  // ---- layers ----

  // For which layers a thread or a stream works: work for one of them within a step, with the gaps in it, is one slice.
  struct LayerRow {
    std::string of;
    ProcessIndex process;
    ThreadIndex thread;  // kNone: of a stream
    TrackIndex track = kNone;
    Place place;  // of the slice that is not written yet
    uint32_t step = kNone;
    int64_t start_ns = 0, end_ns = 0;
    bool is_working = false;
  };

  // Works for this layer from now on; kNone: for none.
  void Turn(LayerRow& row, Place place, int64_t time_ns) {
    if (row.is_working) row.end_ns = time_ns;
    row.is_working = place.layer != kNone;
    if (!row.is_working) return;
    if (IsBackward(place.direction)) place.direction = LayerDirection::kBackward;
    const uint32_t step = step_index_.At(row.process, row.thread, time_ns);
    if (place == row.place && step == row.step) return;
    WriteLayer(row);
    row.place = place;
    row.step = step;
    row.start_ns = row.end_ns = time_ns;
  }

  void WriteLayer(LayerRow& row) {
    if (row.end_ns <= row.start_ns) return;
    if (row.track == kNone) {
      row.track = NewTrack(TrackKind::kLayers, row.process, row.thread, absl::StrCat("layers of ", row.of));
    }
    const TextIndex title = texts_.Of(PlaceTitle(analysis_.attribution().layers, row.place));
    writer_.Begin({row.track, Time(row.start_ns), Time(row.end_ns), title, texts_.Of("layer")});
    writer_.End(row.track, Time(row.end_ns));
  }

  // ---- threads ----

  void AddThread(ThreadIndex thread) {
    const ThreadData& data = model_.threads[thread];
    const TrackIndex track = NewTrack(TrackKind::kThread, data.process, thread, data.name);
    LayerRow layers = {absl::StrCat(data.name, " ", data.tid), data.process, thread};
    std::vector<Place> around = {{}};  // what has no layer of its own works for the one around it
    ThreadSlices(
        model_,
        [&](const ThreadSlice& slice) {
          progress_.Next();
          AddSlice(track, slice);
          const Attribution& attribution = analysis_.attribution();
          const Place place = slice.is_call ? attribution.of_call[slice.index] : attribution.PlaceOfScope(slice.index);
          around.push_back(place.layer == kNone ? around.back() : place);
          Turn(layers, around.back(), slice.start_ns);
        },
        [&](int64_t end_ns) {
          writer_.End(track, Time(end_ns));
          around.pop_back();
          Turn(layers, around.back(), end_ns);
        })
        .Run(thread);
    WriteLayer(layers);
    AddTotals(thread);
  }

  void AddSlice(TrackIndex track, const ThreadSlice& slice) {
    const SliceLabel& label = slice.is_call ? labels_.OfCall(slice.index) : labels_.OfScope(slice.index);
    if (slice.end_ns - slice.start_ns != slice.duration_ns) labels_.Add("duration_ns", slice.duration_ns);
    FlowsFrom(slice.is_call ? from_call_ : from_scope_, slice.index);
    ends_.clear();
    if (!slice.is_call && HasForward(slice.index)) ends_.push_back(BackwardFlow(slice.index));
    writer_.Begin(
        {track, Time(slice.start_ns), Time(slice.end_ns), label.name, label.kind, label.args, starts_, ends_});
  }

  void AddTotals(ThreadIndex thread) {
    TrackIndex track = kNone;
    for (const AggregateRow& row : model_.aggregates) {
      if (row.thread != thread) continue;
      const ThreadData& data = model_.threads[thread];
      if (track == kNone) {
        track = NewTrack(TrackKind::kTotals, data.process, thread, absl::StrCat("only totals kept: ", data.name));
      }
      const SliceLabel& label = labels_.OfAggregate(row);
      writer_.Instant(
          {track, Time(row.window_start_ns), Time(row.window_start_ns), label.name, label.kind, label.args});
    }
  }

  // ---- GPUs ----

  // Work of one stream may overlap, as graphs do, and so do times from different sources: it then has several tracks.
  struct Lane {
    TrackIndex track;
    LayerRow layers;
    int64_t end_ns = 0;
  };

  void AddGpu() {
    std::map<std::pair<GpuDeviceIndex, uint32_t>, std::vector<Lane>> lanes;
    for (GpuIndex activity = 0; activity < model_.gpu.size() && writer_.ok(); ++activity) {
      progress_.Next();
      const GpuActivityColumns& gpu = model_.gpu;
      std::vector<Lane>& of_stream = lanes[{gpu.device[activity], gpu.stream[activity]}];
      Lane& lane = FreeLane(activity, of_stream);
      lane.end_ns = gpu.end_ns[activity];
      const SliceLabel& label = labels_.OfGpu(activity);
      ends_.clear();
      if (gpu.launch_call[activity] != kNone) ends_.push_back(LaunchFlow(activity));
      writer_.Begin(
          {lane.track, Time(gpu.start_ns[activity]), Time(lane.end_ns), label.name, label.kind, label.args, {}, ends_});
      writer_.End(lane.track, Time(lane.end_ns));
      Turn(lane.layers, labels_.PlaceOfGpu(activity), gpu.start_ns[activity]);
      Turn(lane.layers, {}, lane.end_ns);
    }
    for (auto& [stream, of_stream] : lanes) {
      for (Lane& lane : of_stream) WriteLayer(lane.layers);
    }
  }

  Lane& FreeLane(GpuIndex activity, std::vector<Lane>& lanes) {
    for (Lane& lane : lanes) {
      if (lane.end_ns <= model_.gpu.start_ns[activity]) return lane;
    }
    const GpuDevice& device = model_.gpu_devices[model_.gpu.device[activity]];
    const std::string name = absl::StrCat("GPU ", device.ordinal, ", stream ", model_.gpu.stream[activity],
                                          lanes.empty() ? "" : absl::StrCat(" (", lanes.size() + 1, ")"));
    lanes.push_back({NewTrack(TrackKind::kGpuStream, device.process, kNone, name), {name, device.process, kNone}});
    return lanes.back();
  }

  // ---- counters ----

  void AddCounters() {
    const CountedRun counted = ReadCounters(model_);
    for (const CounterTimeline& counts : counted.timelines) {
      for (size_t i = 0; i < counts.counters.size() && writer_.ok(); ++i) {
        AddCounter(counts, i, model_.names[counted.counters[counts.counters[i]]]);
      }
    }
  }

  void AddCounter(const CounterTimeline& counts, size_t counter, absl::string_view name) {
    const std::string thread =
        counts.thread != kNone ? model_.threads[counts.thread].name : absl::StrCat("thread ", counts.tid);
    const TrackIndex track = NewTrack(TrackKind::kCounter, counts.process, counts.thread,
                                      absl::StrCat(name, " per second, ", thread), "1/s");
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto amount = static_cast<double>(counts.AmountsOf(i)[counter]);
      const auto length_ns = static_cast<double>(counts.end_ns[i] - counts.start_ns[i]);
      writer_.Count(track, Time(counts.start_ns[i]), amount / length_ns * kNsPerSecond);
      const bool goes_on = i + 1 < counts.size() && counts.start_ns[i + 1] == counts.end_ns[i];
      if (!goes_on) writer_.Count(track, Time(counts.end_ns[i]), 0);
    }
  }

  struct LoadCounter {
    const char* name;
    const char* unit;
    double (*value)(const LoadSample&);
  };
  static constexpr LoadCounter kLoads[] = {
      {"resident memory", "bytes", [](const LoadSample& load) { return static_cast<double>(load.resident_bytes); }},
      {"threads of the process", "", [](const LoadSample& load) { return static_cast<double>(load.threads); }},
      {"runnable threads of the machine", "",
       [](const LoadSample& load) { return static_cast<double>(load.runnable); }},
      {"processor frequency", "MHz", [](const LoadSample& load) { return static_cast<double>(load.frequency_mhz); }},
  };

  // What is 0 throughout was not sampled.
  void AddLoads() {
    for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
      for (const LoadCounter& counter : kLoads) {
        TrackIndex track = kNone;
        for (const LoadSample& load : model_.loads) {
          if (load.process != process || (track == kNone && counter.value(load) == 0)) continue;
          if (track == kNone) track = NewTrack(TrackKind::kCounter, process, kNone, counter.name, counter.unit);
          writer_.Count(track, Time(load.time_ns), counter.value(load));
        }
      }
    }
  }

  const TraceModel& model_;
  const LayerAnalysis& analysis_;
  TimelineTexts& texts_;
  TimelineWriter& writer_;
  SliceLabels labels_;
  TrackIndex tracks_ = 0;
  StepIndex step_index_;
  TorchUnits::Scopes forward_of_;
  Flows from_scope_, from_call_;
  std::vector<TimelineFlow> starts_, ends_;
  ExportProgress progress_;
};

}  // namespace

TextIndex TimelineTexts::Of(absl::string_view text) {
  const auto known = known_.find(text);
  if (known != known_.end()) return known->second;
  const auto index = static_cast<TextIndex>(texts_.size());
  texts_.push_back(VisibleText(text));
  known_.emplace(text, index);
  return index;
}

void WalkTimeline(const Timeline& timeline, TimelineTexts& texts, TimelineWriter& writer) {
  Walker(timeline, texts, writer).Walk();
}

TimelineIds::TimelineIds(const TraceModel& model) {
  const auto unique = [](int64_t id, std::set<int64_t>& taken) {
    constexpr int64_t kBeyondPids = int64_t{1} << 23;  // Linux has at most 2^22
    while (!taken.insert(id).second) id = kBeyondPids + std::ssize(taken);
    return id;
  };
  std::set<int64_t> pids;
  for (const ProcessInfo& process : model.processes) pid_.push_back(unique(process.pid, pids));
  std::vector<std::set<int64_t>> tids(model.processes.size());
  for (const ThreadData& thread : model.threads) tid_.push_back(unique(thread.tid, tids[thread.process]));
}

}  // namespace dlhook::analyzer::exports
