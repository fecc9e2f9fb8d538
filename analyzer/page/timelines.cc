#include <nlohmann/json.hpp>

#include "analyzer/calls/op_labels.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/page/report_page.h"
#include "analyzer/steps/phases.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/time/thread_activity.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline page {
namespace {

using Json = nlohmann::ordered_json;

// What is known of it, without empty parts.
std::string Details(const std::vector<std::string>& parts) {
  std::vector<std::string> known;
  for (const std::string& part : parts) {
    if (!part.empty()) known.push_back(part);
  }
  return absl::StrJoin(known, " · ");
}

std::string NameOfOp(const Op& op) {
  if (IsKind(op, OpKind::kCall)) return op.function;
  if (IsKind(op, OpKind::kKernel) && !op.kernel_short.empty()) return absl::StrCat("launch ", op.kernel_short);
  return KindLabel(op);
}

// Names of slices, each once: what the page shows for a call, a scope, an activity of a GPU.
class SliceNames {
 public:
  explicit SliceNames(const TraceModel& model) : model_(model), rules_(model) {}

  // [[name, class, details]]; classes: library, waiting, preparing, framework, range, input, kernel, copy, communication, queued,
  // step, and phases of steps.
  const Json& json() const { return names_; }

  uint32_t Index(std::string name, const char* kind, std::string details) {
    const auto [at, is_new] = index_.try_emplace({name, kind, details}, static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back({std::move(name), kind, std::move(details)});
    return at->second;
  }

  uint32_t OfCall(CallIndex call) {
    const OpIndex index = model_.calls.op[call];
    if (const auto known = of_op_.find(index); known != of_op_.end()) return known->second;
    const Op& op = model_.ops[index];
    const bool prepares = op.is_creation || op.is_trial || IsKind(op, OpKind::kSearch);
    const char* const kind = rules_.Waits(call)                ? "waiting"
                             : prepares                        ? "preparing"
                             : IsKind(op, OpKind::kCollective) ? "communication"
                             : IsKind(op, OpKind::kCopy)       ? "copy"
                                                               : "library";
    const std::string direction = op.direction == Direction::kUnknown ? "" : DirectionName(op.direction);
    return of_op_[index] =
               Index(NameOfOp(op), kind,
                     Details({op.function, direction, op.problem, op.types, op.implementation, op.algorithm}));
  }

  uint32_t OfScope(ScopeIndex scope) {
    const std::pair key(model_.scopes.look[scope].name, model_.scopes.look[scope].kind);
    if (const auto known = of_scope_.find(key); known != of_scope_.end()) return known->second;
    const char* const kind = rules_.IsInput(scope)                                        ? "input"
                             : CollectiveOf(model_.names[model_.scopes.look[scope].name]) ? "communication"
                             : rules_.IsBracket(scope)                                    ? "range"
                                                                                          : "framework";
    return of_scope_[key] = Index(ScopeLabel(model_, scope), kind, model_.names[key.first]);
  }

  uint32_t OfGpu(GpuIndex activity) {
    const GpuActivityColumns& gpu = model_.gpu;
    const auto human = [&] { return HumanCell(static_cast<int64_t>(gpu.bytes[activity]), "bytes"); };
    if (gpu.kind[activity] == GpuActivityKind::kCopy) {
      return Index("copy", "copy",
                   Details({EnumName(gpu.direction[activity]), EnumName(gpu.host_memory[activity]), human()}));
    }
    if (gpu.kind[activity] == GpuActivityKind::kSet) return Index("memset", "copy", human());
    const char* const kind = GpuWorkOf(model_, activity) == GpuWork::kCommunication ? "communication" : "kernel";
    const GpuKernelIndex kernel = gpu.kernel[activity];
    if (kernel == kNone) return Index(EnumName(gpu.kind[activity]), kind, "");
    const GpuKernel& facts = model_.gpu_kernels[kernel];
    const auto name = [&](NameIndex of) { return of == kNone ? std::string() : model_.names[of]; };
    const auto size = [](const uint32_t(&of)[3]) { return absl::StrJoin(of, "x"); };
    return Index(facts.short_name == kNone ? "kernel" : name(facts.short_name), kind,
                 Details({name(facts.name), absl::StrCat("grid ", size(facts.grid)),
                          absl::StrCat("block ", size(facts.block))}));
  }

 private:
  const TraceModel& model_;
  const ActivityRules rules_;
  std::map<OpIndex, uint32_t> of_op_;
  std::map<std::pair<NameIndex, ScopeKind>, uint32_t> of_scope_;
  std::map<std::tuple<std::string, std::string, std::string>, uint32_t> index_;
  Json names_ = Json::array();
};

constexpr size_t kMostTracks = 64;
constexpr int64_t kLeastQueuedPercent = 5;  // of the time between two readings: less is not shown
constexpr LayerDirection kDirections[] = {LayerDirection::kUnknown,      LayerDirection::kForward,
                                          LayerDirection::kBackwardData, LayerDirection::kBackwardWeights,
                                          LayerDirection::kBackwardBias, LayerDirection::kBackward,
                                          LayerDirection::kRecompute,    LayerDirection::kUpdate};

// Beside the first three windows: as many as there is room for, of equally many slices as one may have.
constexpr size_t kMostWindows = 48;

struct Window {
  std::string id;
  std::string title;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

struct Slice {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t depth = 0;
  uint32_t name = 0;
  Place place;
  int64_t duration_ns() const { return end_ns - start_ns; }
};

struct Track {
  std::string group, name;
  std::vector<Slice> slices;
  int64_t busy_ns = 0;  // of its outermost slices
};

std::string GroupOf(const TraceModel& model, ProcessIndex process) {
  const ProcessInfo& info = model.processes[process];
  const std::string rank = RankOf(model.processes[process]);
  return absl::StrCat(rank.empty() ? "" : absl::StrCat("rank ", rank, ", "), ProgramOf(info), ", process ", info.pid);
}

// First the steady steps that the answer is about, of the process in which they take most time; then its others, spread over
// the run, with the numbers of the table `steps`.
std::vector<Window> ChooseWindows(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const auto& tracks = facts.steps().tracks;
  if (!facts.HasSteps() || tracks.front().steps.empty()) {
    return {{"run", "The whole run: no repeating step was found", model.start_ns, model.end_ns}};
  }
  std::vector<Step> steps = tracks.front().steps;
  const auto duration = [](const Step& step) { return step.end_ns - step.start_ns; };
  std::map<int64_t, size_t> numbers;  // by start
  const StepTrack* all = nullptr;     // all steps of the same process and thread
  for (const StepTrack& track : facts.options().analysis->steps()) {
    if (track.process != tracks.front().process || track.thread != tracks.front().thread) continue;
    all = &track;
    for (const Step& step : track.steps) numbers.emplace(step.start_ns, numbers.size());
  }
  const auto window = [&](const char* id, const char* title, const Step& step) {
    const auto number = numbers.find(step.start_ns);
    const std::string name = number == numbers.end() ? "" : absl::StrCat("step ", number->second);
    if (*id == 0) {
      return Window{absl::StrCat("step-", number->second), absl::StrCat("Step ", number->second), step.start_ns,
                    step.end_ns};
    }
    return Window{id, name.empty() ? title : absl::StrCat(title, " (", name, ")"), step.start_ns, step.end_ns};
  };
  const Step first = steps.front();
  absl::c_stable_sort(steps, [&](const Step& a, const Step& b) { return duration(a) < duration(b); });
  std::vector<Window> windows = {window("median", "Median step", steps[(steps.size() - 1) / 2])};
  const auto add = [&](const Window& more) {
    const auto is_it = [&](const Window& known) { return known.start_ns == more.start_ns; };
    if (absl::c_none_of(windows, is_it)) windows.push_back(more);
  };
  add(window("slowest", "Slowest steady step", steps.back()));
  add(window("first", "First steady step", first));
  const size_t count = all == nullptr ? 0 : all->steps.size(), stride = std::max<size_t>(1, count / kMostWindows);
  for (size_t i = 0; i < count; i += stride) add(window("", "", all->steps[i]));
  return windows;
}

// The slices of one window.
class WindowReader {
 public:
  WindowReader(const StepFacts& facts, const std::vector<Place>& gpu_places, const std::vector<ThreadStates>& states,
               const Window& window, SliceNames* names)
      : model_(facts.model()),
        attribution_(facts.attribution()),
        steps_(facts.options().analysis->steps()),
        gpu_places_(gpu_places),
        states_(states),
        window_(window),
        names_(*names) {}

  std::vector<Track> Read() {
    for (const StepTrack& track : steps_) ReadSteps(track);
    for (ThreadIndex thread = 0; thread < model_.threads.size(); ++thread) ReadThread(thread);
    ReadGpus();
    absl::c_stable_sort(tracks_, [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Track> tracks;
    for (auto& [process, track] : tracks_) tracks.push_back(std::move(track));
    return tracks;
  }

 private:
  bool IsKept(ScopeIndex scope) const { return model_.RoleOf(scope) != ScopeRole::kEvaluate; }
  // How many kept scopes are around it.
  uint32_t DepthOf(ScopeIndex scope) const {
    uint32_t depth = 0;
    for (scope = model_.scopes.parent[scope]; scope != kNone; scope = model_.scopes.parent[scope]) {
      depth += IsKept(scope) ? 1 : 0;
    }
    return depth;
  }
  uint32_t DepthOfCall(CallIndex call) const {
    uint32_t depth = 0;
    for (; model_.calls.parent[call] != kNone; call = model_.calls.parent[call]) ++depth;
    const ScopeIndex scope = model_.calls.ScopeOf(call);
    return scope == kNone ? depth : depth + DepthOf(scope) + (IsKept(scope) ? 1 : 0);
  }

  void Add(int64_t start_ns, int64_t end_ns, uint32_t depth, uint32_t name, Place place, Track* track) const {
    start_ns = std::max(start_ns, window_.start_ns);
    end_ns = std::min(end_ns, window_.end_ns);
    if (end_ns <= start_ns) return;
    track->slices.push_back({start_ns, end_ns, depth, name, place});
    if (depth == 0) track->busy_ns += end_ns - start_ns;
  }

  // What of `columns` (calls or scopes), from `begin` to `end` of one thread, reaches into the window: what begins in it,
  // and of what began before the last one and what is around that.
  template <typename Columns, typename Take>
  void Reaching(const Columns& columns, uint32_t begin, uint32_t end, const Take& take) const {
    const auto at = [&](int64_t ns) {
      return static_cast<uint32_t>(
          std::lower_bound(columns.start_ns.begin() + begin, columns.start_ns.begin() + end, ns) -
          columns.start_ns.begin());
    };
    const uint32_t first = at(window_.start_ns), last = at(window_.end_ns);
    if (first > begin) {
      for (uint32_t outer = first - 1; outer != kNone; outer = columns.parent[outer]) take(outer);
    }
    for (uint32_t index = first; index < last; ++index) take(index);
  }

  // Steps, below each its phases.
  void ReadSteps(const StepTrack& of) {
    Track track;
    track.group = GroupOf(model_, of.process);
    track.name = of.thread == kNone ? "steps" : absl::StrCat("steps of ", model_.threads[of.thread].tid);
    for (size_t i = 0; i < of.steps.size(); ++i) {
      const Step& step = of.steps[i];
      if (step.end_ns <= window_.start_ns || step.start_ns >= window_.end_ns) continue;
      const std::string kind = StepName(step.kind, step.sort);
      Add(step.start_ns, step.end_ns, 0,
          names_.Index(absl::StrCat("step ", i), "step", step.is_warm_up ? kind + ", warm-up" : kind), {}, &track);
      if (step.left_out == LeftOut::kNotRecorded) continue;
      for (const PhaseInterval& phase : step.phases) {
        const char* const name = PhaseKindName(phase.kind);
        Add(phase.start_ns, phase.end_ns, 1, names_.Index(name, name, ""), {}, &track);
      }
    }
    if (!track.slices.empty()) tracks_.emplace_back(of.process, std::move(track));
  }

  void ReadThread(ThreadIndex thread) {
    const ThreadData& data = model_.threads[thread];
    Track track;
    track.group = GroupOf(model_, data.process);
    track.name = absl::StrCat(data.name.empty() ? "thread" : data.name, " ", data.tid);
    const CallColumns& calls = model_.calls;
    const ScopeColumns& scopes = model_.scopes;
    const auto [from, to] = scopes.thread.RangeOf(thread);
    Reaching(scopes, from, to, [&](ScopeIndex scope) {
      if (!IsKept(scope)) return;
      Add(scopes.start_ns[scope], scopes.EndOf(scope), DepthOf(scope), names_.OfScope(scope),
          attribution_.of_scope[scope], &track);
    });
    const auto [first, last] = calls.RangeOf(thread);
    Reaching(calls, first, last, [&](CallIndex call) {
      Add(calls.start_ns[call], calls.EndOf(call), DepthOfCall(call), names_.OfCall(call), attribution_.of_call[call],
          &track);
    });
    if (track.slices.empty()) return;
    const std::string name = track.name;
    tracks_.emplace_back(data.process, std::move(track));
    const auto states = absl::c_find_if(states_, [&](const ThreadStates& of) { return of.thread == thread; });
    if (states != states_.end()) ReadQueued(*states, absl::StrCat("no processor, ", name));
  }

  // Where a thread waited for a processor: between two readings nobody knows when.
  void ReadQueued(const ThreadStates& states, std::string name) {
    Track track = {.group = GroupOf(model_, states.process), .name = std::move(name)};
    const auto first = absl::c_upper_bound(states.time_ns, window_.start_ns) - states.time_ns.begin();
    for (size_t i = std::max<size_t>(1, first); i < states.time_ns.size(); ++i) {
      if (states.time_ns[i - 1] >= window_.end_ns) break;
      const Interval between = {states.time_ns[i - 1], states.time_ns[i]};
      const StateSums sums = states.In(between);
      if (sums.queued_ns * 100 < sums.wall_ns * kLeastQueuedPercent) continue;
      const std::string known = absl::StrCat(HumanCell(sums.queued_ns, "ns"), " of ", HumanCell(sums.wall_ns, "ns"),
                                             "; when in this time is not known");
      Add(between.start_ns, between.end_ns, 0,
          names_.Index(absl::StrCat(100 * sums.queued_ns / sums.wall_ns, " %"), "queued", known), {}, &track);
    }
    if (!track.slices.empty()) tracks_.emplace_back(states.process, std::move(track));
  }

  void ReadGpus() {
    const GpuActivityColumns& gpu = model_.gpu;
    std::map<std::tuple<ProcessIndex, GpuDeviceIndex, uint32_t>, Track> streams;
    for (GpuIndex activity = 0; activity < gpu.size(); ++activity) {
      if (gpu.start_ns[activity] >= window_.end_ns || gpu.end_ns[activity] <= window_.start_ns) continue;
      const GpuDevice& device = model_.gpu_devices[gpu.device[activity]];
      const auto [at, is_new] = streams.try_emplace({device.process, gpu.device[activity], gpu.stream[activity]});
      if (is_new) {
        at->second.group = GroupOf(model_, device.process);
        at->second.name = absl::StrCat("GPU ", device.ordinal, " stream ", gpu.stream[activity]);
      }
      Add(gpu.start_ns[activity], gpu.end_ns[activity], 0, names_.OfGpu(activity), gpu_places_[activity], &at->second);
    }
    for (auto& [key, track] : streams) tracks_.emplace_back(std::get<0>(key), std::move(track));
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  const std::vector<StepTrack>& steps_;
  const std::vector<Place>& gpu_places_;
  const std::vector<ThreadStates>& states_;
  const Window& window_;
  SliceNames& names_;
  std::vector<std::pair<ProcessIndex, Track>> tracks_;
};

// Keeps the tracks in which most happens.
size_t LimitTracks(std::vector<Track>* tracks) {
  if (tracks->size() <= kMostTracks) return 0;
  std::vector<int64_t> busy;
  for (const Track& track : *tracks) busy.push_back(track.busy_ns);
  std::nth_element(busy.begin(), busy.begin() + kMostTracks, busy.end(), std::greater<>());
  const size_t before = tracks->size();
  size_t kept = 0;
  std::erase_if(*tracks,
                [&](const Track& track) { return track.busy_ns < busy[kMostTracks] || kept++ >= kMostTracks; });
  return before - tracks->size();
}

// Keeps the longest slices; returns how many are left out, and the duration below which some are.
std::pair<size_t, int64_t> LimitSlices(size_t most, std::vector<Track>* tracks) {
  std::vector<int64_t> durations;
  for (const Track& track : *tracks) {
    for (const Slice& slice : track.slices) durations.push_back(slice.duration_ns());
  }
  if (durations.size() <= most) return {0, 0};
  const auto nth = durations.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(durations.begin(), nth, durations.end(), std::greater<>());
  const int64_t threshold = *nth + 1;
  size_t left_out = 0;
  for (Track& track : *tracks) {
    left_out += std::erase_if(track.slices, [&](const Slice& slice) { return slice.duration_ns() < threshold; });
  }
  return {left_out, threshold};
}

Json TrackJson(const Track& track, int64_t start_ns) {
  Json start = Json::array(), duration = Json::array(), depth = Json::array(), text = Json::array(),
       layer = Json::array(), direction = Json::array();
  for (const Slice& slice : track.slices) {
    start.push_back(slice.start_ns - start_ns);
    duration.push_back(slice.duration_ns());
    depth.push_back(slice.depth);
    text.push_back(slice.name);
    layer.push_back(slice.place.layer == kNone ? -1 : static_cast<int64_t>(slice.place.layer));
    direction.push_back(static_cast<int>(slice.place.direction));
  }
  return {{"group", track.group},      {"name", track.name},
          {"start", std::move(start)}, {"duration", std::move(duration)},
          {"depth", std::move(depth)}, {"text", std::move(text)},
          {"layer", std::move(layer)}, {"direction", std::move(direction)}};
}

}  // namespace

Json Timelines(const StepFacts& facts, size_t most_slices) {
  const TraceModel& model = facts.model();
  const std::vector<Place> gpu_places = GpuPlaces(model, facts.attribution());
  const std::vector<ThreadStates> states = ReadThreadStates(model);
  SliceNames names(model);
  Json windows = Json::array();
  size_t more = 0;  // slices of the windows after the first three
  for (const Window& window : ChooseWindows(facts)) {
    if (more > most_slices) break;
    std::vector<Track> tracks = WindowReader(facts, gpu_places, states, window, &names).Read();
    const size_t tracks_left_out = LimitTracks(&tracks);
    const auto [left_out, shorter_than] = LimitSlices(most_slices, &tracks);
    Json json = {{"id", window.id},
                 {"title", window.title},
                 {"start", window.start_ns - model.start_ns},
                 {"length", window.end_ns - window.start_ns},
                 {"left_out", left_out},
                 {"shorter_than", shorter_than},
                 {"tracks_left_out", tracks_left_out},
                 {"tracks", Json::array()}};
    for (const Track& track : tracks) more += windows.size() < 3 ? 0 : track.slices.size();
    for (const Track& track : tracks) json["tracks"].push_back(TrackJson(track, window.start_ns));
    windows.push_back(std::move(json));
  }
  Json layers = Json::array(), directions = Json::array();
  for (const Layer& layer : facts.attribution().layers) layers.push_back(layer.name);
  for (const LayerDirection direction : kDirections) directions.push_back(LayerDirectionName(direction));
  return {{"names", names.json()}, {"layers", layers}, {"directions", directions}, {"windows", std::move(windows)}};
}

}  // namespace dlhook::analyzer::page
