// Table `summary`: the run in a few numbers, and what could not be seen.
//
// Each row is a metric: a whole number in `value` with its `unit`, a `percent` where that makes sense (the note says of
// what), and a sentence. Metrics that exist once per item have the item's name after a colon: "capability:onednn-tap".

#include "analyzer/gpu/gpu_division.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/model/scope_looks.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/gap_places.h"
#include "analyzer/time/time_division.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct Metric {
  std::string metric;
  int64_t value = 0;
  std::string unit;
  Cell percent;
  std::string note;
};

class Metrics {
 public:
  void Time(const std::string& metric, int64_t ns, const std::string& note) { Add(metric, ns, "ns", Cell(), note); }
  void TimeOf(const std::string& metric, int64_t ns, int64_t whole_ns, const std::string& note) {
    Add(metric, ns, "ns", Percent(ns, whole_ns), note);
  }
  void Count(const std::string& metric, int64_t count, const std::string& note) {
    Add(metric, count, "", Cell(), note);
  }
  void Add(const std::string& metric, int64_t value, const std::string& unit, Cell percent, const std::string& note) {
    all_.push_back({metric, value, unit, std::move(percent), note});
  }
  const std::vector<Metric>& all() const { return all_; }

 private:
  std::vector<Metric> all_;
};

constexpr size_t kTop = 3;

void AddBusy(const TraceModel& model, const TableOptions& options, Metrics& metrics) {
  const std::vector<MeasuredTime> times = MeasuredTimes(model, options.analysis->steps());
  for (const DeviceWork& work : WorkOfDevices(model, times)) {
    const GpuDevice& device = model.gpu_devices[work.device];
    const MeasuredTime& measured = times[device.process];
    const int64_t whole_ns = measured.time.total_ns();
    const auto part = [&](const IntervalSet& set) {
      return whole_ns == 0 ? 0.0 : 100.0 * static_cast<double>(set.total_ns()) / static_cast<double>(whole_ns);
    };
    const int64_t busy_ns = work.Busy().total_ns();
    const std::string time = measured.steps == 0 ? "the process's time" : absl::StrCat(measured.steps, " steady steps");
    const char* const source = !work.is_events ? "CUPTI" : work.is_cupti ? "CUPTI and events" : "pairs of events";
    const std::string note = absl::StrFormat(
        "of %s; compute %.3g %%, copies and sets %.3g %%, communication %.3g %%; by %s%s%s", time, part(work.compute),
        part(work.copy), part(work.communication), source, device.name.empty() ? "" : "; ", device.name);
    std::string label = absl::StrCat("gpu_busy:", device.ordinal);
    if (model.processes.size() > 1) absl::StrAppend(&label, " of ", ProcessLabel(model, device.process));
    metrics.TimeOf(label, busy_ns, whole_ns, note);
  }
}

void AddActivities(const TraceModel& model, Metrics& metrics) {
  using enum GpuActivityKind;
  constexpr std::pair<GpuActivityKind, const char*> kWords[] = {
      {kKernel, "kernels"}, {kCopy, "copies"}, {kSet, "sets"}, {kOp, "calls timed as a whole"}, {kGraph, "graphs"}};
  std::vector<std::string> words;
  for (const auto& [kind, word] : kWords) {
    const auto count = absl::c_count(model.gpu.kind, kind);
    if (count > 0) words.push_back(absl::StrCat(word, " ", count));
  }
  metrics.Count("gpu_activities", std::ssize(model.gpu), absl::StrJoin(words, ", "));
}

// The largest of them over the whole run.
void AddTop(const std::string& metric, const std::map<std::string, int64_t>& sums_ns, int64_t all_ns,
            const std::string& note, Metrics& metrics) {
  const auto order = LargestFirst(sums_ns);
  for (size_t i = 0; i < std::min(kTop, order.size()); ++i) {
    metrics.TimeOf(absl::StrCat(metric, order[i].first), order[i].second, all_ns, note);
  }
}

// GPU times; no rows if the run has none.
void AddGpuMetrics(const TraceModel& model, const TableOptions& options, Metrics& metrics) {
  const GpuActivityColumns& gpu = model.gpu;
  if (gpu.empty()) return;
  AddBusy(model, options, metrics);
  AddActivities(model, metrics);
  const Attribution& attribution = options.analysis->attribution();
  const std::vector<Place> places = GpuPlaces(model, attribution);
  std::map<std::string, int64_t> layers, kernels;
  int64_t all_ns = 0;
  for (GpuIndex activity = 0; activity < gpu.size(); ++activity) {
    const int64_t duration_ns = gpu.DurationNs(activity);
    all_ns += duration_ns;
    if (places[activity].layer != kNone) layers[attribution.layers[places[activity].layer].name] += duration_ns;
    const GpuKernelIndex kernel = gpu.kernel[activity];
    if (kernel != kNone && model.gpu_kernels[kernel].short_name != kNone) {
      kernels[model.names[model.gpu_kernels[kernel].short_name]] += duration_ns;
    }
  }
  AddTop("gpu_layer:", layers, all_ns, "one of the layers with most GPU time; of all durations on GPUs", metrics);
  AddTop("gpu_kernel:", kernels, all_ns, "one of the kernels with most GPU time; of all durations on GPUs", metrics);
}

TypedColumns<Metric> SummaryColumns() {
  return {
      {TextColumn("metric"), "What the row measures.", &Metric::metric},
      {NumberColumn("value"), "In the row's unit.", &Metric::value},
      {TextColumn("unit"), "ns, bytes; empty for counts.", &Metric::unit},
      {Within(Range::kNotNegative, PercentColumn("percent", Better::kNeither)),
       "The value as a part of what the note names; a sum over threads may be more than 100.", &Metric::percent},
      {TextColumn("note"), "What it means, or why.", &Metric::note},
  };
}

void AddTimes(const TraceModel& model, const RunTotals& totals, Metrics& metrics) {
  const int64_t wall_ns = model.wall_ns();
  metrics.Time("wall", wall_ns, "from the first process's start to the last one's end");
  metrics.TimeOf("in_library_wall", totals.in_library_wall_ns, wall_ns, "at least one call is active; of wall");
  metrics.TimeOf("unattributed_wall", totals.unattributed_ns, wall_ns,
                 "no library call active: a framework's own work, Python, code that is not observed, or nothing (see "
                 "accounting); of wall");
  metrics.TimeOf("thread_time", totals.thread_time_ns, wall_ns,
                 "sum of all calls' durations over all threads; more than 100 % of wall if they overlap");
}

void AddCounts(const TraceModel& model, const RunTotals& totals, Metrics& metrics) {
  int64_t executions = 0, nested = 0, creations = 0, misses = 0, aggregated = 0, trials = 0, captured = 0;
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const Op& op = model.ops[i];
    if (op.is_continuation) continue;
    (op.is_creation ? creations : executions) += totals.ops[i].calls;
    nested += op.is_creation ? 0 : totals.ops[i].nested_calls;
    trials += op.is_trial ? totals.ops[i].calls : 0;
    captured += op.captured ? totals.ops[i].calls : 0;
    misses += op.is_creation && !op.cache_hit ? totals.ops[i].calls : 0;
  }
  for (const AggregateRow& row : model.aggregates) aggregated += row.count;
  std::set<ThreadIndex> threads(model.calls.thread.begin(), model.calls.thread.end());
  for (const AggregateRow& row : model.aggregates) threads.insert(row.thread);
  metrics.Count("processes", std::ssize(model.processes), "with recorded calls");
  metrics.Count("threads", std::ssize(threads), "with recorded calls");
  metrics.Count("calls", executions, "executions, including those inside other calls");
  metrics.Count("nested_calls", nested, "of them, inside another call of the same kind");
  if (creations > 0) {
    metrics.Count("creations", creations,
                  absl::StrCat("oneDNN primitives prepared; ", misses, " not found in its cache"));
  }
  if (trials > 0) metrics.Count("trials", trials, "trial executions of cuDNN plans");
  if (captured > 0) metrics.Count("captured_calls", captured, "recorded into CUDA graphs instead of executed");
  if (aggregated > 0) {
    metrics.Count("aggregated_calls", aggregated,
                  "of them, known only as totals per op and thread: they are in no layer and no step");
  }
}

// "operators 1200, backward nodes 300".
std::string ScopeKindsLabel(const TraceModel& model) {
  std::array<int64_t, std::size(kScopeKinds)> counts = {};
  for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread) {
    const std::vector<int64_t> looks = CountLooks(model.scopes, thread);
    for (uint32_t i = 0; i < looks.size(); ++i) {
      counts[&FactsOf(model.scopes.look.values()[i].kind) - kScopeKinds] += looks[i];
    }
  }
  std::vector<std::string> words;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) words.push_back(absl::StrCat(kScopeKinds[i].plural, " ", counts[i]));
  }
  return absl::StrJoin(words, ", ");
}

// What frameworks and Python reported besides calls; no rows if there is nothing.
void AddScopes(const TraceModel& model, Metrics& metrics) {
  const auto scopes = std::ssize(model.scopes);
  if (scopes > 0) {
    const auto calls = std::ssize(model.calls);
    const int64_t inside = calls - absl::c_count(model.calls.scope, kNone);
    metrics.Count("scopes", scopes, ScopeKindsLabel(model));
    metrics.Add("calls_in_scopes", model.calls.scope.empty() ? 0 : inside, "",
                Percent(model.calls.scope.empty() ? 0 : inside, calls),
                "made while one was open; of calls kept one by one");
  }
  if (!model.scope_windows.empty()) {
    int64_t window_ns = 0, wall_ns = 0;
    for (const ScopeWindow& window : model.scope_windows) window_ns += window.end_ns - window.start_ns;
    for (const ProcessInfo& process : model.processes) wall_ns += process.end_ns - process.start_ns;
    metrics.TimeOf(
        "scope_windows", window_ns, wall_ns,
        "outside of which operations were not recorded (DLHOOK_BUDGET, DLHOOK_SCOPES=light; JAX) or not kept "
        "(DLHOOK_MAX_BYTES); of the processes' time");
  }
  if (!model.python_stacks.empty()) metrics.Count("python_stacks", std::ssize(model.python_stacks), "that differ");
  if (!model.modules.empty()) {
    const auto is_named = [](const Module& module) { return !module.names.empty(); };
    metrics.Count("python_modules", std::ssize(model.modules),
                  absl::StrCat("layer objects of Python frameworks; names are known of ",
                               absl::c_count_if(model.modules, is_named)));
  }
}

// torch.compile, all threads together; 0: nothing was compiled.
int64_t CompilationNs(const TraceModel& model, const Attribution& attribution) {
  const std::vector<Layer>& layers = attribution.layers;
  const auto at = absl::c_find_if(layers, [](const Layer& layer) { return layer.type == kCompilation; });
  if (at == layers.end()) return 0;
  const auto compilation = static_cast<LayerIndex>(at - layers.begin());
  int64_t sum_ns = 0;
  DivideTime(model, kNone, {}, [&](const TimePiece& piece) {
    sum_ns += PlaceOf(attribution, piece).layer == compilation ? piece.share_ns : 0;
  });
  return sum_ns;
}

// The track with most time; the table `steps` has all.
void AddSteps(const TraceModel& model, const LayerAnalysis& analysis, Metrics& metrics) {
  const int64_t compilation_ns = CompilationNs(model, analysis.attribution());
  if (compilation_ns > 0)
    metrics.TimeOf("compilation", compilation_ns, model.wall_ns(),
                   "torch.compile compiling, as far as recorded operators show; of wall");
  const std::vector<StepTrack>& tracks = analysis.steps();
  if (tracks.empty()) {
    metrics.Count("steps", 0, "no sequence of calls repeats often enough");
    return;
  }
  const MeasuredTrack track = MeasureSteps(model, tracks[0]);
  const auto durations = SteadyDurations(tracks[0]);
  const auto time_of = [](const std::vector<int64_t>& of_name) { return absl::c_accumulate(of_name, int64_t{0}); };
  const auto longest = absl::c_max_element(
      durations, [&](const auto& a, const auto& b) { return time_of(a.second) < time_of(b.second); });
  metrics.Count("steps", std::ssize(track.steps),
                tracks.size() == 1 ? "" : absl::StrCat("of the first of ", tracks.size(), " processes or threads"));
  metrics.Count("steps_warm_up", track.Count(Phase::kWarmUp),
                compilation_ns == 0 ? "the first steps, while they make more calls or take longer"
                                    : "the first steps, while they compile, make more calls or take longer");
  metrics.Count("steps_steady", track.Count(Phase::kSteady), "like most others");
  if (longest == durations.end()) return;
  const Quartiles quartiles = QuartilesOf(longest->second);
  metrics.Time("step_median", quartiles.median,
               durations.size() == 1
                   ? "steady steps, without the last one and much longer ones (table steps, left_out)"
                   : absl::StrCat("of steady ", longest->first, ", which took most time; others: table phases"));
  metrics.Time("step_spread", quartiles.upper - quartiles.lower, "interquartile range of steady steps");
}

// Sums over processes; a reason with several details has several rows.
void AddLosses(const TraceModel& model, Metrics& metrics) {
  std::map<std::pair<std::string, std::string>, Loss> losses;
  int64_t calls = 0;
  for (const ProcessInfo& process : model.processes) {
    for (const Loss& loss : process.losses) {
      Loss& sum = losses[{EnumName(loss.reason), loss.detail}];
      sum.reason = loss.reason;
      sum.calls += loss.calls;
      sum.bytes += loss.bytes;
      calls += CountsCalls(loss.reason) ? static_cast<int64_t>(loss.calls) : 0;
    }
  }
  metrics.Count("lost_calls", calls,
                losses.empty() ? "nothing known to be lost" : "not in this report; by reason below");
  for (const auto& [key, sum] : losses) {
    std::vector<std::string> words;
    if (!CountsCalls(sum.reason)) words.emplace_back(LossNoun(sum.reason, false));
    if (sum.bytes > 0) words.push_back(absl::StrCat(sum.bytes, " bytes"));
    if (!key.second.empty()) words.push_back(key.second);
    metrics.Count(absl::StrCat("loss:", key.first), static_cast<int64_t>(sum.calls), absl::StrJoin(words, "; "));
  }
}

// "status 2 (3 times), 700 (1)"
std::string StatusesLabel(const std::map<int32_t, int64_t>& statuses) {
  std::vector<std::string> words;
  for (const auto& [status, calls] : statuses) {
    words.push_back(absl::StrCat(words.empty() ? "status " : "", status, " (", calls,
                                 words.empty() ? calls == 1 ? " time)" : " times)" : ")"));
  }
  return absl::StrJoin(words, ", ");
}

// Calls that returned an error, by function, the most frequent first.
void AddFailures(const TraceModel& model, Metrics& metrics) {
  std::map<std::string, std::map<int32_t, int64_t>> statuses;
  std::map<std::string, int64_t> calls;
  int64_t all = 0;
  for (const FailedCall& failed : model.failed_calls) {
    const Op& op = model.ops[model.calls.op[failed.call]];
    // CUDA_ERROR_DEINITIALIZED, cudaErrorCudartUnloading: the program exits, and the driver is gone first.
    if (failed.status == 4 && absl::StartsWith(op.family, "cuda_")) continue;
    ++statuses[op.function][failed.status];
    ++calls[op.function];
    ++all;
  }
  if (all > 0) metrics.Count("failed_calls", all, "returned an error to the program; by function below");
  for (const auto& [function, count] : LargestFirst(calls)) {
    metrics.Count(absl::StrCat("failed:", function), count, StatusesLabel(statuses[function]));
  }
}

void AddCapabilities(const TraceModel& model, Metrics& metrics) {
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> processes;  // name, state with object, reason
  for (const ProcessInfo& process : model.processes) {
    for (const Capability& capability : process.capabilities) {
      std::string state = EnumName(capability.state);
      if (!capability.object.empty()) absl::StrAppend(&state, " in ", BaseName(capability.object));
      ++processes[{capability.name, state, capability.reason}];
    }
  }
  for (const auto& [key, count] : processes) {
    const auto& [name, state, reason] = key;
    metrics.Add(absl::StrCat("capability:", name), count, "processes", Cell(),
                reason.empty() ? state : absl::StrCat(state, ": ", reason));
  }
}

bool HasTroubles(const TraceModel& model) {
  return absl::c_any_of(model.processes, [](const ProcessInfo& process) {
    return !process.losses.empty() || absl::c_any_of(process.capabilities, IsMissing);
  });
}

// How processes ended, other than by a normal exit, and oddities in their traces.
void AddOddities(const TraceModel& model, Metrics& metrics) {
  int64_t unfinished = 0, vanished = 0;
  for (const ProcessInfo& process : model.processes) {
    unfinished += process.has_footer ? 0 : 1;
    vanished += process.has_footer && process.end == ProcessEnd::kVanished ? 1 : 0;
  }
  if (unfinished > 0) metrics.Count("processes_without_end", unfinished, "still running, or the trace was cut off");
  if (vanished > 0) metrics.Count("processes_vanished", vanished, "ended without notice: killed, or replaced by exec");
  if (!model.recording_stops.empty()) {
    int64_t stopped_ns = 0;
    for (const RecordingStop& stop : model.recording_stops) stopped_ns += stop.end_ns - stop.start_ns;
    metrics.Count("recording_stops", std::ssize(model.recording_stops),
                  absl::StrCat("for ", HumanTime(static_cast<double>(stopped_ns)),
                               ": calls between a stop and the next start were not recorded"));
  }
  for (const auto& [sentence, count] : model.oddities) metrics.Count("oddity", count, sentence);
}

}  // namespace

absl::StatusOr<Table> SummaryTable(const TraceModel& model, const TableOptions& options) {
  Metrics metrics;
  AddTimes(model, *options.totals, metrics);
  AddCounts(model, *options.totals, metrics);
  AddScopes(model, metrics);
  AddGpuMetrics(model, options, metrics);
  AddSteps(model, *options.analysis, metrics);
  AddFailures(model, metrics);
  AddLosses(model, metrics);
  AddCapabilities(model, metrics);
  AddOddities(model, metrics);
  Table table = NewTable("summary", "The run in a few numbers", SummaryColumns(), metrics.all());
  if (HasTroubles(model))
    table.Note("What could not be observed and what to do: dlhook report RUN --table capabilities.");
  return table;
}

}  // namespace dlhook::analyzer::tables
