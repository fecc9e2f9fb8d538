#include "analyzer/work/step_facts.h"

#include "analyzer/analysis/sample_places.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/steps/step_assembly.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/table/typed_columns.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline work {
namespace {

struct Framework {
  const char* name;
  const char* object;  // part of the name of a shared object that identifies the framework
};
constexpr std::array<Framework, 5> kFrameworks = {{{"PyTorch", "libtorch"},
                                                   {"TensorFlow", "tensorflow"},
                                                   {"JAX", "libjax_common"},
                                                   {"JAX", "xla_extension"},
                                                   {"MXNet", "libmxnet"}}};

bool IsLoaded(const TraceModel& model, const Framework& framework) {
  for (const ProcessInfo& process : model.processes) {
    for (const Capability& capability : process.capabilities) {
      if (absl::StrContains(capability.object, framework.object)) return true;
    }
  }
  return false;
}

TableOptions WithAnalysis(TableOptions options, const LayerAnalysis& analysis) {
  options.analysis = &analysis;
  return options;
}

struct PlacesOfStacks {
  explicit PlacesOfStacks(const TraceModel& model) : places(ReadPythonPlaces(model)) {}
  const std::vector<PythonPlace> places;
};

constexpr size_t kLeastInside = 4;
constexpr size_t kLeastOutside = 8;

// The variance of a median, from the interquartile range: (pi / 2) of a mean's, as of a normal distribution.
double VarianceOfMedian(const Quartiles& quartiles, size_t count) {
  constexpr double kRangeOfNormal = 1.349;  // in standard deviations
  const double deviation = static_cast<double>(quartiles.upper - quartiles.lower) / kRangeOfNormal;
  return M_PI / 2 * deviation * deviation / static_cast<double>(count);
}

// Of copies of each op: the part of their calls in which the GPU still did what it had been asked for before. A call that
// returns when its copy is done, as all with pageable memory, waits for that, too.
std::map<OpIndex, double> WaitingPartsOfCopies(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  struct Sums {
    int64_t waiting_ns = 0, all_ns = 0;
  };
  std::map<OpIndex, Sums> sums_of;
  std::vector<GpuTimeline> timelines;
  for (GpuIndex i = 0; i < model.gpu.size(); ++i) {
    const CallIndex call = model.gpu.launch_call[i];
    if (call == kNone || !IsKind(model.ops[model.calls.op[call]], {OpKind::kCopy, OpKind::kMemset})) continue;
    const int64_t start_ns = model.calls.start_ns[call];
    if (facts.StepOfCall(call) == kNone) continue;
    if (timelines.empty()) timelines = GpuTimelines(model);
    Sums& sums = sums_of[model.calls.op[call]];
    if (model.gpu.end_ns[i] <= model.calls.EndOf(call)) {
      sums.waiting_ns += timelines[model.gpu.device[i]].busy.CoveredNs(start_ns, model.gpu.start_ns[i]);
    }
    sums.all_ns += model.calls.duration_ns[call];
  }
  std::map<OpIndex, double> parts;
  for (const auto& [op, sums] : sums_of) {
    if (sums.waiting_ns > 0) parts[op] = static_cast<double>(sums.waiting_ns) / static_cast<double>(sums.all_ns);
  }
  return parts;
}

}  // namespace

StepFacts::StepFacts(const TraceModel& model, const TableOptions& options)
    : model_(model),
      options_(options),
      main_(MainWork::Of(model, options)),
      steps_(main_.steps),
      work_(main_.work),
      count_(static_cast<double>(std::max<int64_t>(steps_.count(), 1))),
      step_ns_(static_cast<double>(steps_.count() > 0 ? steps_.total_ns() : model.wall_ns()) / count_),
      step_options_(WithAnalysis(options, main_.analysis)),
      scope_names_(ReadScopeNames(model)),
      counted_(CountWork(model, options.analysis->steps(), steps_)),
      load_(FindLoad(model, steps_, CutIntoBlocks(steps_, kBlocks))) {
  const std::map<OpIndex, double> waiting = WaitingPartsOfCopies(*this);
  for (const auto& [doing, sums] : work_.sums()) {
    WorkItem item = {.doing = doing,
                     .ns = static_cast<double>(sums.share_ns) / count_,
                     .calls = static_cast<double>(sums.calls) / count_,
                     .begun = static_cast<double>(sums.begun) / count_,
                     .group = &work_.Group(doing)};
    const bool has_op = doing.activity == ActivityKind::kCall || doing.activity == ActivityKind::kWaiting;
    if (has_op) item.op = &model.ops[doing.what];
    if (doing.activity == ActivityKind::kScope) item.scope = &scope_names_[doing.what];
    if (const auto part = waiting.find(doing.what); doing.activity == ActivityKind::kCall && part != waiting.end()) {
      WorkItem wait = {.doing = doing, .ns = item.ns * part->second, .group = item.group, .op = item.op};
      wait.doing.activity = ActivityKind::kWaiting;
      item.ns -= wait.ns;
      items_.push_back(wait);
    }
    items_.push_back(item);
  }
  std::ranges::stable_sort(items_, std::ranges::greater(), &WorkItem::ns);
  for (const Framework& framework : kFrameworks) {
    const bool is_named = !frameworks_.empty() && frameworks_.back() == framework.name;
    if (!is_named && IsLoaded(model, framework)) frameworks_.emplace_back(framework.name);
  }
}

const std::vector<PythonPlace>& StepFacts::places() const { return Derived<PlacesOfStacks>().places; }

std::vector<bool> StepFacts::StacksWith(
    const std::function<bool(const std::string&, const std::string&)>& is_such) const {
  std::vector<bool> stacks;
  for (const PythonStack& stack : model_.python_stacks) {
    stacks.push_back(absl::c_any_of(stack.frames, [&](const PythonFrame& frame) {
      return is_such(model_.names[frame.file], model_.names[frame.function]);
    }));
  }
  return stacks;
}

void StepFacts::ForEachOperation(const std::function<void(ThreadIndex, int64_t, int64_t)>& visit) const {
  const ScopeColumns& scopes = model_.scopes;
  const CallColumns& calls = model_.calls;
  const auto is_op = [&](ScopeIndex scope) {
    return scope != kNone && scopes.look[scope].kind != ScopeKind::kUserRange;
  };
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (!is_op(scope) || is_op(scopes.parent[scope])) continue;
    visit(scopes.thread[scope], scopes.start_ns[scope], scopes.duration_ns[scope]);
  }
  for (CallIndex call = 0; call < calls.size(); ++call) {
    if (calls.parent[call] != kNone || is_op(calls.ScopeOf(call))) continue;
    visit(calls.thread[call], calls.start_ns[call], calls.duration_ns[call]);
  }
}

bool StepFacts::Uses(absl::string_view framework) const { return absl::c_linear_search(frameworks_, framework); }

void StepFacts::ForEachLook(const std::function<void(ProcessIndex, const StateLook&)>& visit) const {
  if (model_.states.empty()) return;
  const auto& looks = Derived<StateLooks>();
  for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
    for (const StateLook& look : looks.Of(process)) {
      if (!HasSteps() || StepAt(process, look.piece.start_ns) != kNone) visit(process, look);
    }
  }
}

std::map<ActivityKind, SampleSums> StepFacts::SamplesByKind() const {
  std::map<ActivityKind, SampleSums> by_kind;
  if (model_.samples.empty()) return by_kind;
  const auto& places = Derived<SamplePlaces>();
  const auto& samples = Derived<GapSamples>();
  for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
    for (const GapSample& at : samples.Of(process)) {
      if (HasSteps() && StepAt(process, at.piece.start_ns) == kNone) continue;
      by_kind[at.piece.kind][places.OwnerOf(at.sample)].Add(SumOfOne(model_.samples.cpu_ns[at.sample]));
    }
  }
  return by_kind;
}

std::string StepFacts::Setting(absl::string_view variable) const {
  for (const ProcessInfo& process : model_.processes) {
    for (const auto& [name, value] : process.settings) {
      if (name == variable) return value;
    }
  }
  return "";
}

std::string StepFacts::StepNoun() const { return HasSteps() ? StepWord(steps_.kind) : "run"; }

double StepFacts::TimesOf(const std::string& scope) const {
  const auto found = counted_.ops.find(scope);
  return found == counted_.ops.end() ? 0 : found->second;
}

const StepTrack* StepFacts::WholeTrack() const {
  if (!HasSteps()) return nullptr;
  const StepTrack& main = steps_.tracks.front();
  for (const StepTrack& track : options_.analysis->steps()) {
    if (track.process == main.process && track.thread == main.thread && !track.steps.empty()) return &track;
  }
  return nullptr;
}

void TimeAround::Add(const TimeAround& other, double share) {
  before_ns += share * other.before_ns;
  warm_up_ns += share * other.warm_up_ns;
  after_ns = after_ns < 0 || other.after_ns < 0 ? -1 : after_ns + share * other.after_ns;
  run_ns += share * other.run_ns;
}

TimeAround TimeAroundSteps(const StepFacts& facts) {
  const StepTrack* const track = facts.WholeTrack();
  if (track == nullptr || !facts.model().read_spans.empty()) return {};
  const ProcessInfo& process = facts.model().processes[track->process];
  TimeAround around;
  around.before_ns = static_cast<double>(track->steps.front().start_ns - process.start_ns);
  for (const Step& step : track->steps)
    around.warm_up_ns += step.is_warm_up ? static_cast<double>(step.end_ns - step.start_ns) : 0;
  // Else its end is its last record.
  const bool is_known = process.end != ProcessEnd::kVanished && AreStepsKnownBetweenWindows(facts.model());
  around.after_ns = is_known ? static_cast<double>(process.end_ns - track->steps.back().end_ns) : -1;
  around.run_ns = static_cast<double>(process.end_ns - process.start_ns);
  return around;
}

double StepFacts::PhaseNs(PhaseKind phase) const {
  int64_t sum_ns = 0;
  for (const StepTrack& track : steps_.tracks) {
    for (const Step& step : track.steps) {
      for (const PhaseInterval& interval : step.phases) {
        if (interval.kind == phase) sum_ns += interval.end_ns - interval.start_ns;
      }
    }
  }
  return static_cast<double>(sum_ns) / count_;
}

size_t StepFacts::StepAt(ProcessIndex process, int64_t time_ns) const {
  for (const StepTrack& track : steps_.tracks) {
    if (track.process != process) continue;
    const std::vector<Step>& steps = track.steps;
    const auto begins_by_then = [&](size_t step) { return step < steps.size() && steps[step].start_ns <= time_ns; };
    if (begins_by_then(last_step_) && !begins_by_then(last_step_ + 1) && time_ns < steps[last_step_].end_ns) {
      return last_step_;
    }
    const auto after = std::ranges::upper_bound(steps, time_ns, {}, &Step::start_ns);
    const bool is_in = after != steps.begin() && time_ns < std::prev(after)->end_ns;
    return is_in ? last_step_ = static_cast<size_t>(after - steps.begin()) - 1 : kNone;
  }
  return kNone;
}

size_t StepFacts::StepOfScope(ScopeIndex scope) const {
  return StepAt(model_.threads[model_.scopes.thread[scope]].process, model_.scopes.start_ns[scope]);
}

size_t StepFacts::StepOfCall(CallIndex call) const {
  return StepAt(model_.threads[model_.calls.thread[call]].process, model_.calls.start_ns[call]);
}

double StepFacts::UndisturbedNs(const std::set<OpIndex>& ops) const {
  const CallColumns& calls = model_.calls;
  std::vector<int64_t> durations;
  for (CallIndex call = 0; call < calls.size(); ++call) {
    if (!ops.contains(calls.op[call])) continue;
    if (!HasSteps() || StepOfCall(call) != kNone) durations.push_back(calls.duration_ns[call]);
  }
  return durations.empty() ? 0 : static_cast<double>(QuartilesOf(std::move(durations)).lower);
}

uint32_t StepFacts::processors() const {
  uint32_t least = 0;
  for (const ProcessInfo& process : model_.processes) {
    const uint32_t own = process.processors;
    if (own > 0 && (least == 0 || own < least)) least = own;
  }
  return least;
}

bool StepFacts::FirstThreadsWorkAlone() const {
  const auto is_first = [&](ThreadIndex thread) {
    return model_.threads[thread].tid == model_.processes[model_.threads[thread].process].pid;
  };
  for (ThreadIndex thread = 0; thread < model_.threads.size(); ++thread) {
    const auto calls = model_.calls.RangeOf(thread), scopes = model_.scopes.thread.RangeOf(thread);
    const bool does_nothing = calls.first == calls.second && scopes.first == scopes.second;
    if (!does_nothing && !is_first(thread)) return false;
  }
  return true;
}

double StepFacts::ThreadsBeside(double ns) const {
  if (!load_.is_known || ns <= 0) return 0;
  const double first_ns = load_.first_thread_cpu_ns > 0 ? load_.first_thread_cpu_ns : std::min(load_.cpu_ns, step_ns_);
  const uint32_t most = std::min(processors() > 0 ? processors() : load_.processors, load_.threads);
  const double rest_ns = std::max(most - 1.0, 0.0) * std::max(step_ns_ - ns, 0.0);
  return std::max(load_.cpu_ns - first_ns - rest_ns, 0.0) / ns;
}

double StepFacts::Sum(const std::function<bool(const WorkItem&)>& is_in) const {
  double sum_ns = 0;
  for (const WorkItem& item : items_) {
    if (is_in(item)) sum_ns += item.ns;
  }
  return sum_ns;
}

std::string StepFacts::LayersOf(const std::function<bool(const WorkItem&)>& is_in, size_t most) const {
  std::map<std::string, double> by_label;
  for (const WorkItem& item : items_) {
    // "features:[not seen]" belongs to features; "[not seen: …]" belongs to no layer.
    if (!is_in(item)) continue;
    const std::string label = item.group->label.substr(0, item.group->label.find(":["));
    const LayerIndex first = item.group->layers.empty() ? kNone : item.group->layers.front();
    const bool is_one = first != kNone && attribution().layers[first].name == label;
    if (!absl::StartsWith(label, "[")) by_label[is_one ? attribution().NameOf(first) : label] += item.ns;
  }
  std::vector<std::string> labels;
  for (const auto& [label, ns] : LargestFirst(by_label)) {
    if (labels.size() < most) labels.push_back(label);
  }
  std::string text = absl::StrJoin(labels, ", ");
  if (by_label.size() > most) absl::StrAppend(&text, " and ", by_label.size() - most, " more");
  return text;
}

std::string StepFacts::LineOfStack(StackIndex stack) const {
  return stack == kNone ? "" : LineLabel(model_, places()[stack]);
}

std::string StepFacts::LineOf(const WorkItem& item) const {
  return item.group->layers.empty() ? "" : attribution().layers[item.group->layers.front()].line;
}

std::string StepFacts::LineOfLongest(const std::function<bool(const WorkItem&)>& is_in) const {
  for (const WorkItem& item : items_) {
    if (std::string line = is_in(item) ? LineOf(item) : ""; !line.empty()) return line;
  }
  return "";
}

std::string StepFacts::PartOfStep(double ns) const {
  return absl::StrCat(HumanTime(ns), " of a ", HumanTime(step_ns_), " ", StepNoun(),
                      absl::StrFormat(" (%.0f %%)", 100 * ns / step_ns_));
}

double WindowCost::outside_mean_ns() const {
  return absl::c_accumulate(outside_ns, 0.0) / static_cast<double>(outside_ns.size());
}

std::optional<WindowCost> CostOfWindows(const StepFacts& facts) {
  if (facts.model().scope_windows.empty() || !facts.HasSteps()) return std::nullopt;
  WindowCost cost;
  cost.is_cost_told = !facts.model().HasReachedLimit();
  cost.has_gpu_times_throughout =
      !facts.model().gpu.empty() && absl::c_none_of(facts.model().gpu_windows, [](const GpuWindow& window) {
        return window.reason == kBetweenWindows;
      });
  std::vector<int64_t> inside_ns, first_ns;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    for (const Step& step : track.steps) {
      if (step.kind != facts.steps().kind) continue;
      ++cost.all;
      cost.recorded += step.has_scopes ? 1 : 0;
      cost.slow += step.is_kept_as_slow ? 1 : 0;
      if (step.is_warm_up || !step.is_regular || &step == &track.steps.back()) continue;
      if (step.left_out == LeftOut::kMuchLonger) continue;
      // The first window is long and has no steps before it to compare with.
      const bool is_first = step.has_scopes && cost.recorded == cost.all;
      (is_first                                   ? first_ns
       : step.has_scopes && !step.is_kept_as_slow ? inside_ns
                                                  : cost.outside_ns)
          .push_back(step.end_ns - step.start_ns);
    }
  }
  if (!cost.is_cost_told) {
    if (!AreStepsKnownBetweenWindows(facts.model())) return std::nullopt;
    for (const std::vector<int64_t>* more : {&inside_ns, &first_ns})
      cost.outside_ns.insert(cost.outside_ns.end(), more->begin(), more->end());
    if (cost.outside_ns.size() < kLeastOutside) return std::nullopt;
    return cost;
  }
  if (inside_ns.size() < kLeastInside) inside_ns.insert(inside_ns.end(), first_ns.begin(), first_ns.end());
  if (inside_ns.size() < kLeastInside || cost.outside_ns.size() < kLeastOutside) return std::nullopt;
  const Quartiles inside = QuartilesOf(inside_ns), outside = QuartilesOf(cost.outside_ns);
  cost.added_ns = static_cast<double>(inside.median - outside.median);
  cost.error_ns =
      std::sqrt(VarianceOfMedian(inside, inside_ns.size()) + VarianceOfMedian(outside, cost.outside_ns.size()));
  return cost;
}

}  // namespace dlhook::analyzer::work
