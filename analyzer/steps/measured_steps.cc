#include "analyzer/steps/measured_steps.h"

#include "absl/hash/hash.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/model/limits.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/model/same_work.h"
#include "analyzer/steps/step_finder.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline steps {
namespace {

// Without shapes, shorter patterns are found everywhere (the blocks of a matrix factorization).
constexpr size_t kMinPeriodByKind = 3;
constexpr size_t kFewSlices = 6;  // different products: of one layer, forward and backward, in two slices
constexpr double kMostlyRegular = 0.5;

// Of a process, or of one of its threads, in order of time.
std::vector<CallIndex> CallsInOrder(const TraceModel& model, ProcessIndex process, ThreadIndex thread) {
  std::vector<CallIndex> calls;
  const auto [begin, end] = model.calls.RangeOf(thread);
  for (CallIndex call = begin; call < end; ++call) {
    if (model.threads[model.calls.thread[call]].process == process) calls.push_back(call);
  }
  const auto start_of = [&](CallIndex call) { return model.calls.start_ns[call]; };
  if (!std::ranges::is_sorted(calls, {}, start_of)) std::ranges::stable_sort(calls, {}, start_of);
  return calls;
}

StepSymbol::Pass PassOf(Direction direction) {
  if (IsBackward(direction)) return StepSymbol::Pass::kBackward;
  return direction == Direction::kForward ? StepSymbol::Pass::kForward : StepSymbol::Pass::kUnknown;
}

uint64_t HashOf(const std::string& text) { return absl::Hash<std::string>()(text); }

std::string WithoutProblem(const Op& op) {
  if (op.launch()) return absl::StrCat(KindLabel(op), "|", op.kernel_name);
  return absl::StrCat(KindLabel(op), "|", DirectionName(op.direction), "|", op.types, "|", op.algorithm);
}

// m, n or k may be the batch: m or n in the forward pass and the data gradient, k in the weight gradient.
std::vector<StepSymbol::BatchVariant> GemmVariants(const Op& op) {
  std::vector<StepSymbol::BatchVariant> variants;
  for (int dropped = 0; dropped < 3; ++dropped) {
    const GemmCall& gemm = *op.gemm();
    int64_t sides[] = {gemm.m, gemm.n, gemm.k};
    const int64_t batch = std::exchange(sides[dropped], 0);
    const std::string text = absl::StrCat(WithoutProblem(op), sides[0], "|", sides[1], "|", sides[2], "|", gemm.trans_a,
                                          gemm.trans_b, "|", gemm.batch);
    variants.push_back({HashOf(text), batch});
  }
  return variants;
}

std::vector<StepSymbol::BatchVariant> OneDnnVariants(const Op& op) {
  const std::string& problem = *op.onednn_problem();
  const auto [begin, end] = BatchDigits(problem);
  int64_t batch = 0;
  if (!absl::SimpleAtoi(absl::string_view(problem).substr(begin, end - begin), &batch)) return {};
  return {{HashOf(absl::StrCat(WithoutProblem(op), "|", FormatsLabel(op), "|", problem.substr(0, begin), "|",
                               problem.substr(end))),
           batch}};
}

// All but the batch: the first dimension of X, Y and their gradients, not of weights.
std::vector<StepSymbol::BatchVariant> CudnnVariants(const Op& op) {
  int64_t batch = 0;
  std::string rest = WithoutProblem(op);
  for (const CudnnTensor& tensor : op.cudnn()->tensors) {
    const bool is_parameter = tensor.role == TensorRole::kW || tensor.role == TensorRole::kDw || tensor.dims.size() < 3;
    absl::StrAppend(&rest, "|", EnumName(tensor.role));
    for (size_t i = is_parameter ? 0 : 1; i < tensor.dims.size(); ++i) absl::StrAppend(&rest, ",", tensor.dims[i]);
    if (!is_parameter && batch == 0) batch = tensor.dims[0];
  }
  return {{HashOf(rest), batch}};
}

std::vector<StepSymbol::BatchVariant> VariantsOf(const Op& op) {
  if (op.copy()) return {{HashOf(WithoutProblem(op)), static_cast<int64_t>(op.copy()->bytes)}};
  if (op.cudnn()) return CudnnVariants(op);
  if (op.gemm()) return GemmVariants(op);
  if (op.onednn_problem()) return OneDnnVariants(op);
  return {};
}

struct SymbolTable {
  std::vector<uint32_t> of_op;  // per op of the model
  std::vector<StepSymbol> symbols;
};

// Ops as the finder's symbols: which calls are the same work, and the same work at another batch size. Ops that differ only in
// leading dimensions, implementation or the function called share one. `with_shapes` false: by kind and direction only, for
// programs whose shapes change from step to step.
SymbolTable MakeSymbols(const std::vector<Op>& ops, bool with_shapes) {
  SymbolTable table;
  std::map<std::string, uint32_t> numbers;
  for (const Op& op : ops) {
    const std::string kind = WithoutProblem(op);
    const auto [at, is_new] = numbers.try_emplace(with_shapes ? absl::StrCat(kind, "|", ProblemLabel(op)) : kind,
                                                  static_cast<uint32_t>(numbers.size()));
    table.of_op.push_back(at->second);
    if (!is_new) continue;
    StepSymbol& symbol = table.symbols.emplace_back();
    symbol.pass = PassOf(op.direction);
    if (with_shapes) symbol.variants = VariantsOf(op);
    if (with_shapes && op.launch()) symbol.any_batch = HashOf(kind);
  }
  return table;
}

// How the finder sees calls.
struct Reading {
  const std::vector<bool>& repeats;  // in a loop inside a layer, which repeats as often as a batch has images
  SymbolTable table;
};

// Nested calls add no information, and differ between warm-up and later. XLA's products are known in windows only.
bool TakesPart(const TraceModel& model, CallIndex call) {
  const CallIndex parent = model.calls.parent[call];
  const bool is_outer = parent == kNone || model.ops[model.calls.op[parent]].family == kJaxTap.family;
  return is_outer && TellsSteps(model.ops[model.calls.op[call]]);
}

// `places`: the index in `calls` of each element of the sequence.
StepSequence MakeSequence(const TraceModel& model, const std::vector<CallIndex>& calls, const Reading& reading,
                          std::vector<uint32_t>& places) {
  StepSequence sequence;
  for (uint32_t place = 0; place < calls.size(); ++place) {
    const CallIndex call = calls[place];
    if (!TakesPart(model, call) || reading.repeats[call]) continue;
    places.push_back(place);
    sequence.symbol.push_back(reading.table.of_op[model.calls.op[call]]);
    sequence.start_ns.push_back(model.calls.start_ns[call]);
    sequence.end_ns.push_back(model.calls.EndOf(call));
  }
  sequence.symbols = reading.table.symbols;
  return sequence;
}

// A primitive is created before it is executed: creations directly before the first execution of a step belong to it.
int64_t StartWithCreations(const TraceModel& model, const std::vector<CallIndex>& calls, uint32_t place) {
  while (place > 0 && model.ops[model.calls.op[calls[place - 1]]].is_creation) --place;
  return model.calls.start_ns[calls[place]];
}

// Steps that last until the next one begins, the last one until `end_ns`. `start_of`: of an element of the sequence.
template <typename StartOf>
std::vector<Step> StepsOf(const StepPattern& pattern, StartOf start_of, int64_t end_ns) {
  std::vector<Step> steps;
  steps.reserve(pattern.starts.size());
  for (size_t i = 0; i < pattern.starts.size(); ++i) {
    const int64_t start_ns = start_of(pattern.starts[i]);
    if (!steps.empty()) steps.back().end_ns = start_ns;
    steps.push_back({.start_ns = start_ns, .end_ns = end_ns, .is_regular = pattern.regular[i]});
  }
  // The first ones, which prepare something in addition, are like the others.
  for (size_t i = 0; i < steps.size() / 2 && !pattern.regular[i]; ++i)
    steps[i].is_regular = pattern.starts[i + 1] - pattern.starts[i] >= pattern.period;
  return steps;
}

// Of the calls from this one on, with those that repeat others; a step lasts, if they do not.
int64_t LastEnd(const TraceModel& model, const std::vector<CallIndex>& calls, uint32_t place) {
  int64_t end_ns = model.calls.start_ns[calls[place]] + 1;
  for (size_t i = place; i < calls.size(); ++i) {
    if (TakesPart(model, calls[i])) end_ns = std::max(end_ns, model.calls.EndOf(calls[i]));
  }
  return end_ns;
}

void CountGpuWork(const TraceModel& model, const SameWork& same_work, CallIndex call, MeasuredStep& step) {
  const Op& op = model.ops[model.calls.op[call]];
  const bool is_launch = op.launch() || IsGraphLaunch(op);
  const bool is_copy = op.copy() && IsKind(op, OpKind::kCopy);
  if ((!is_launch && !is_copy) || op.captured || same_work.IsNested(call)) return;
  if (is_launch) ++step.launches;
  if (is_copy) ++step.copies;
  if (is_copy) AddSaturated(static_cast<int64_t>(op.copy()->bytes), &step.copied_bytes);
}

void CountCalls(const TraceModel& model, const StepTrack& steps, MeasuredTrack& track) {
  const SameWork same_work(model);
  ForEachCallIn(model, steps, [&](size_t index, CallIndex call) {
    const Op& op = model.ops[model.calls.op[call]];
    MeasuredStep& step = track.steps[index];
    ++(op.is_creation ? step.creations : step.calls);
    if (op.is_trial) ++step.trials;
    CountGpuWork(model, same_work, call, step);
  });
}

// The union of the calls' intervals, divided among the steps.
void MeasureInLibrary(const TraceModel& model, MeasuredTrack& track) {
  int64_t covered_until_ns = track.steps[0].start_ns;
  size_t at = 0;
  for (CallIndex call : CallsInOrder(model, track.process, track.thread)) {
    const bool is_before = model.calls.start_ns[call] < track.steps[0].start_ns;
    if (is_before && !model.ops[model.calls.op[call]].is_creation) ++track.calls_before;
    int64_t begin_ns = std::max(model.calls.start_ns[call], covered_until_ns);
    const int64_t end_ns = model.calls.EndOf(call);
    covered_until_ns = std::max(covered_until_ns, end_ns);
    while (begin_ns < end_ns && at < track.steps.size()) {
      MeasuredStep& step = track.steps[at];
      begin_ns = std::max(begin_ns, step.start_ns);
      const int64_t piece_end_ns = std::min(end_ns, step.end_ns);
      if (piece_end_ns > begin_ns) step.in_library_ns += piece_end_ns - begin_ns;
      begin_ns = std::max(begin_ns, piece_end_ns);
      if (begin_ns < step.end_ns) break;
      ++at;
    }
  }
}

struct FoundTrack {
  StepTrack track;
  size_t period = 0;         // calls of a regular step, without nested ones
  double regular_calls = 0;  // calls in regular steps
};

std::optional<FoundTrack> FindTrack(const TraceModel& model, const Reading& reading, ProcessIndex process,
                                    ThreadIndex thread) {
  const std::vector<CallIndex> calls = CallsInOrder(model, process, thread);
  std::vector<uint32_t> places;
  const StepSequence sequence = MakeSequence(model, calls, reading, places);
  const StepPattern pattern = FindSteps(sequence);
  if (pattern.starts.empty()) return std::nullopt;
  const auto start_of = [&](size_t i) { return StartWithCreations(model, calls, places[i]); };
  const int64_t end_ns = LastEnd(model, calls, places[pattern.starts.back()]);
  return FoundTrack{.track = {.process = process, .thread = thread, .steps = StepsOf(pattern, start_of, end_ns)},
                    .period = pattern.period,
                    .regular_calls = pattern.coverage * static_cast<double>(sequence.size())};
}

// All threads together, or each for itself if that explains clearly more: the order of threads that serve requests
// independently is accidental.
std::vector<FoundTrack> FindTracks(const TraceModel& model, const Reading& reading, ProcessIndex process) {
  std::vector<ThreadIndex> threads;
  for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread) {
    if (model.threads[thread].process == process) threads.push_back(thread);
  }
  std::optional<FoundTrack> together = FindTrack(model, reading, process, kNone);
  std::vector<FoundTrack> tracks;
  double regular_calls = 0;
  for (size_t i = 0; threads.size() > 1 && i < threads.size(); ++i) {
    std::optional<FoundTrack> track = FindTrack(model, reading, process, threads[i]);
    if (!track) continue;
    regular_calls += track->regular_calls;
    tracks.push_back(*std::move(track));
  }
  if (!together || together->regular_calls < 0.8 * regular_calls) return tracks;
  tracks.assign(1, {});
  tracks.front() = *std::move(together);  // not copied: it may have a step for each call
  return tracks;
}

// XLA passes slices of products to its threads, several at a time, and outside of its profiler's windows nothing says which
// belong together: the order of a few tells no steps, nor does that of one or two products.
bool AreFewSlices(const TraceModel& model, ProcessIndex process) {
  if (!OneDnnIsXlas(model.processes[process])) return false;
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    const bool is_op = model.scopes.look[scope].kind == ScopeKind::kXlaOp;
    if (is_op && model.threads[model.scopes.thread[scope]].process == process) return false;
  }
  std::set<OpIndex> ops;
  std::vector<std::pair<int64_t, int64_t>> times;
  for (CallIndex call = 0; call < model.calls.size() && ops.size() < kFewSlices; ++call) {
    if (model.threads[model.calls.thread[call]].process != process) continue;
    ops.insert(model.calls.op[call]);
    times.emplace_back(model.calls.start_ns[call], model.calls.EndOf(call));
  }
  if (ops.size() >= kFewSlices) return false;
  if (ops.size() < kMinPeriodByKind) return true;
  absl::c_sort(times);
  return absl::c_adjacent_find(times, [](const auto& a, const auto& b) { return b.first < a.second; }) != times.end();
}

// Of JAX outside of jit, whose operations are programs of their own: by the order in which programs run, in windows.
std::optional<FoundTrack> TrackByPrograms(const TraceModel& model, ProcessIndex process) {
  struct Run {
    int64_t start_ns = INT64_MAX, end_ns = 0;
    const std::string* program = nullptr;
  };
  std::map<int64_t, Run> runs;
  const ScopeColumns& scopes = model.scopes;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (scopes.look[scope].kind != ScopeKind::kXlaOp || model.threads[scopes.thread[scope]].process != process)
      continue;
    const CompiledLink link = CompiledLink::Of(scopes.link[scope]);
    if (link.run == 0 || link.op >= model.compiled_ops.size()) continue;
    Run& run = runs[link.run];
    run.start_ns = std::min(run.start_ns, scopes.start_ns[scope]);
    run.end_ns = std::max(run.end_ns, scopes.EndOf(scope));
    run.program = &model.compiled_ops[link.op].program;
  }
  std::vector<Run> in_order;
  for (const auto& [number, run] : runs) in_order.push_back(run);
  std::ranges::stable_sort(in_order, {}, &Run::start_ns);
  std::map<std::string, uint32_t> symbols;
  StepSequence sequence;
  for (const Run& run : in_order) {
    sequence.symbol.push_back(symbols.emplace(*run.program, symbols.size()).first->second);
    sequence.start_ns.push_back(run.start_ns);
    sequence.end_ns.push_back(run.end_ns);
  }
  sequence.symbols.resize(symbols.size());
  const StepPattern pattern = FindSteps(sequence);
  if (pattern.coverage < kMostlyRegular || pattern.period < kMinPeriodByKind) return std::nullopt;
  const auto start_of = [&](size_t i) { return in_order[i].start_ns; };
  return FoundTrack{.track = {.process = process, .steps = StepsOf(pattern, start_of, in_order.back().end_ns)},
                    .period = pattern.period};
}

}  // namespace

StepKind MainKind(const StepTrack& track) {
  for (StepKind kind : {StepKind::kTraining, StepKind::kInference}) {
    if (absl::c_any_of(track.steps, [&](const Step& step) { return step.kind == kind; })) return kind;
  }
  return StepKind::kUnknown;
}

MeasuredTrack MeasureSteps(const TraceModel& model, const StepTrack& steps) {
  MeasuredTrack track = {.process = steps.process, .thread = steps.thread, .by_kind_only = steps.by_kind_only};
  const StepKind main_kind = MainKind(steps);
  track.steps.reserve(steps.steps.size());
  for (const Step& step : steps.steps) {
    const bool is_steady = step.kind == main_kind && step.is_regular;
    const Phase phase = step.is_warm_up ? Phase::kWarmUp : is_steady ? Phase::kSteady : Phase::kOther;
    track.steps.push_back({.start_ns = step.start_ns, .end_ns = step.end_ns, .phase = phase});
  }
  if (track.steps.empty()) return track;
  CountCalls(model, steps, track);
  MeasureInLibrary(model, track);
  return track;
}

const char* PhaseName(Phase phase) { return NameIn<Phase::kOther>(phase, {"warm-up", "steady", "other"}); }

int64_t MeasuredTrack::Count(Phase phase) const {
  return absl::c_count_if(steps, [&](const MeasuredStep& step) { return step.phase == phase; });
}

std::vector<StepTrack> FindStepsByCalls(const TraceModel& model) {
  std::vector<StepTrack> all;
  const std::vector<bool> repeats = LoopRepeats(model);
  const Reading exact = {repeats, MakeSymbols(model.ops, /*with_shapes=*/true)};
  const Reading coarse = {repeats, MakeSymbols(model.ops, /*with_shapes=*/false)};
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    if (AreFewSlices(model, process)) continue;
    std::vector<FoundTrack> found;
    if (std::optional<FoundTrack> by_programs = TrackByPrograms(model, process)) {
      found.push_back(*std::move(by_programs));
    } else {
      found = FindTracks(model, exact, process);
    }
    const bool by_kind_only = found.empty();
    if (by_kind_only) {
      found = FindTracks(model, coarse, process);
      std::erase_if(found, [](const FoundTrack& track) { return track.period < kMinPeriodByKind; });
    }
    for (FoundTrack& track : found) {
      track.track.by_kind_only = by_kind_only;
      all.push_back(std::move(track.track));
    }
  }
  SortByLength(&all);
  return all;
}

int64_t QuantileOfSorted(const std::vector<int64_t>& values, double part) {
  const double place = part * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double fraction = place - static_cast<double>(below);
  return values[below] + std::llround(fraction * static_cast<double>(values[above] - values[below]));
}

Quartiles QuartilesOf(std::vector<int64_t> values) {
  if (values.empty()) return {};
  // A million durations of steps are sorted no further than this needs.
  const auto quantile = [&](double part) {
    const auto place = values.begin() + static_cast<ptrdiff_t>(part * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), place, values.end());
    if (place + 1 != values.end()) std::iter_swap(place + 1, std::min_element(place + 1, values.end()));
    return QuantileOfSorted(values, part);
  };
  return {quantile(0.25), quantile(0.5), quantile(0.75)};
}

}  // namespace dlhook::analyzer::steps
