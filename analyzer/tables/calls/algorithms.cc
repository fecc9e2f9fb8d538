// Table `algorithms`: which implementation and algorithm ran for each distinct problem, and who chose it. A problem
// that ran in several ways has several rows; trials are left out.

#include "analyzer/calls/op_labels.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/op_groups.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct AlgorithmsKey {
  std::string kind;
  Direction direction = Direction::kUnknown;
  std::string problem;
  std::string types;
  std::string formats;
  std::string implementation;
  std::string algorithm;
  std::string post_ops;
  Chooser chooser = Chooser::kUnknown;
  std::string heuristic;
  auto operator<=>(const AlgorithmsKey&) const = default;
};

AlgorithmsKey AlgorithmsKeyOf(const Op& op) {
  return {op.kind,          op.direction,      op.problem,   op.types,
          FormatsLabel(op), op.implementation, op.algorithm, absl::StrJoin(op.post_ops, "+"),
          op.chooser,       op.heuristic};
}

struct Choice : AlgorithmsKey, OpGroup {
  std::string chosen;
  int64_t cache_hits = 0;
  int64_t cache_misses = 0;
  int64_t creation_ns = 0;
  std::optional<int64_t> candidates;
  std::optional<int64_t> workspace_bytes;  // largest
  std::set<std::string> notes, compute_types, math_modes, tensor_cores;
};

using ChoiceMap = std::map<AlgorithmsKey, Choice>;

Choice& ChoiceOf(const Op& op, ChoiceMap& choices) { return GroupOf(AlgorithmsKeyOf(op), choices); }

// The largest number of candidates that a search for the problem tried or offered.
std::map<std::string, int64_t> CountCandidates(const TraceModel& model, const Choices& choices) {
  std::map<std::string, int64_t> counts;
  const auto add = [&](const Op& op, size_t count) {
    int64_t& most = counts[ProblemKey(op)];
    most = std::max(most, static_cast<int64_t>(count));
  };
  for (const PlanSearch& search : choices.plan_searches) {
    add(model.ops[search.candidates[0].op], search.candidates.size());
  }
  for (const AlgorithmSearch& search : choices.algorithm_searches) {
    const Op& op = model.ops[model.calls.op[search.call]];
    add(op, op.candidates.size());
  }
  return counts;
}

// Algorithms that the heuristics returned, if they were asked.
int64_t OfferedTo(const Op& op) {
  if (const CudnnPlan* plan = op.plan()) return plan->heuristic_results;
  return op.gemm() ? op.gemm()->heuristic_results : 0;
}

TypedColumns<Choice> AlgorithmsColumns(int64_t wall_ns) {
  return {
      {As(Role::kKey, TextColumn("kind")), "The primitive.", &Choice::kind},
      {As(Role::kKey, TextColumn("direction")), "Forward or backward, where the library says so.",
       [](const Choice& choice) { return DirectionName(choice.direction); }},
      {As(Role::kShape, TextColumn("problem")), "Its size, as the library states it.", &Choice::problem},
      {As(Role::kChoice, TextColumn("chosen")), "The implementation; if the library names none, the algorithm.",
       &Choice::chosen},
      {As(Role::kChoice, TextColumn("chooser")),
       "Who chose: fixed: the program; heuristic: the library's, asked by the program; library: left to it; profiled: "
       "the fastest of several that were run; fallback: what was preferred failed; cached: an earlier choice.",
       [](const Choice& choice) { return ChooserName(choice.chooser); }},
      {CallsColumn("Executions, without those that only tried it."), &Choice::calls},
      OpTotalTime(),
      Detail(OpMeanTime()),
      Detail(OpWallPercent(wall_ns)),
      {Detail(TextColumn("implementation")), "The kernel, engine or configuration that ran.", &Choice::implementation},
      {Detail(TextColumn("algorithm")), "The algorithm, as the library names it.", &Choice::algorithm},
      {As(Role::kChoice, Detail(TextColumn("formats"))), "Memory format of every tensor.", &Choice::formats},
      {As(Role::kChoice, Detail(TextColumn("types"))),
       "Data types of source, weights and destination; one where all are equal.", &Choice::types},
      {As(Role::kChoice, Detail(TextColumn("post_ops"))), "Operations fused after this one.", &Choice::post_ops},
      {Detail(TextColumn("heuristic")), "Which heuristics, and at which place they had this answer.",
       &Choice::heuristic},
      {Detail(NumberColumn("candidates")), "Algorithms that were tried or offered; see the table candidates.",
       &Choice::candidates},
      {Detail(IntegerColumn("workspace", "bytes", Better::kLower)), "Workspace memory it was given.",
       &Choice::workspace_bytes},
      {Detail(TextColumn("tensor_core")),
       "Whether it may run on tensor cores, and why not: as the library notes, else by the rules of its manual.",
       &Choice::tensor_cores},
      {Detail(TextColumn("compute_type")), "Type in which it computes.", &Choice::compute_types},
      {Detail(TextColumn("math_mode")), "Math mode that the program allows.", &Choice::math_modes},
      {Detail(TextColumn("notes")), "The library's numerical and behaviour notes.", &Choice::notes},
      OpWallShare(),
      Detail(OpFlops()),
      Detail(OpRate()),
      {Detail(NumberColumn("cache_hits")), "Primitives taken from the library's cache (seen at capture level 2).",
       &Choice::cache_hits},
      {Detail(IntegerColumn("cache_misses", "", Better::kLower)),
       "Primitives created anew: chosen, generated, compiled (seen at capture level 2).", &Choice::cache_misses},
      {Detail(TimeColumn("creation_time")), "Time of these creations.", &Choice::creation_ns},
  };
}

bool HasChoice(const Op& op) {
  return op.subject.empty() && (!op.implementation.empty() || !op.algorithm.empty() || op.chooser != Chooser::kUnknown);
}

// Ops that compute something but do not say how. Calls of GPU libraries of which only the name is known are setup or
// queries.
bool IsSilent(const Op& op) {
  const bool is_gpu_call = IsKind(op, OpKind::kCall) && (op.on_gpu || absl::StartsWith(op.family, "cu") ||
                                                         op.family == "nccl" || op.family == "nvrtc");
  return op.subject.empty() && !is_gpu_call && (IsLibraryOp(op) || IsKind(op, OpKind::kCall)) &&
         !IsKind(op, OpKind::kCollective);
}

void AddExecution(const CalledOp& called, const std::map<std::string, int64_t>& candidates, Choice& choice) {
  const Op& op = called.op;
  choice.chosen = ChosenLabel(op);
  choice.Add(called);
  if (!op.on_gpu) return;
  if (op.workspace_bytes) choice.workspace_bytes = std::max(choice.workspace_bytes.value_or(0), *op.workspace_bytes);
  const auto searched = candidates.find(ProblemKey(op));
  const int64_t count = searched != candidates.end() ? searched->second : OfferedTo(op);
  if (count > 0) choice.candidates = std::max(choice.candidates.value_or(0), count);
  for (const std::string& note : op.notes) choice.notes.insert(note);
  AddWord(op.compute_type, choice.compute_types);
  AddWord(op.math_mode, choice.math_modes);
  if (op.tensor_core) choice.tensor_cores.insert(TensorCoreLabel(*op.tensor_core));
}

// Captured calls: what the launches of their CUDA graphs computed, if GPU times are known.
bool AddReplays(const Op& op, const GpuOpTime& time, ChoiceMap& choices) {
  if (time.activities == 0 || !HasChoice(op)) return false;
  Choice& choice = ChoiceOf(op, choices);
  choice.chosen = ChosenLabel(op);
  choice.gpu.Add(time);
  return true;
}

void AddCreation(const Op& op, const OpTotals& totals, Choice& choice) {
  choice.chosen = ChosenLabel(op);
  (op.cache_hit ? choice.cache_hits : choice.cache_misses) += totals.calls;
  choice.creation_ns += totals.total_ns;
}

struct LeftOut {
  int64_t silent_calls = 0;
  int64_t of_xla = 0;
  int64_t trials = 0;
  int64_t trials_ns = 0;
  int64_t captured = 0;
};

void AddFallbackNotes(const TraceModel& model, const Choices& choices, Table& table) {
  std::map<std::tuple<std::string, std::string, int32_t>, int64_t> calls;
  for (const Fallback& fallback : choices.fallbacks) {
    calls[{model.ops[fallback.op].function, model.ops[fallback.refused].function, fallback.status}] += fallback.calls;
  }
  for (const auto& [key, count] : calls) {
    const auto& [function, refused, status] = key;
    const std::string why = status == 0 ? absl::StrCat(refused, " offered no algorithm")
                                        : absl::StrCat(refused, " returned status ", status);
    table.Note(function, " computed ", count, " products as a fallback after ", why, ".");
  }
}

void AddNotes(const LeftOut& left_out, Table& table) {
  if (left_out.trials > 0) {
    table.Note(left_out.trials, " executions (", HumanTime(left_out.trials_ns),
               ") that only tried an algorithm are not listed: see the tables tuning and candidates.");
  }
  if (left_out.captured > 0) {
    table.Note(left_out.captured, " calls are not listed: they were recorded into CUDA graphs, not executed then.");
  }
  if (left_out.of_xla > 0) {
    table.Note(left_out.of_xla,
               " products of XLA's are not listed: whether Eigen or code that XLA generated "
               "computed them is not known, because its program does not say so.");
  }
  if (left_out.silent_calls > 0) {
    table.Note(left_out.silent_calls,
               " calls are not listed: their library does not tell which implementation it took (BLAS).");
  }
}

}  // namespace

absl::StatusOr<Table> AlgorithmsTable(const TraceModel& model, const TableOptions& options) {
  const std::map<std::string, int64_t> candidates = CountCandidates(model, *options.choices);
  ChoiceMap choices;
  LeftOut left_out;
  for (CalledOp& called : CalledOps(model, options)) {
    const Op& op = called.op;
    const OpTotals& totals = called.totals;
    if (op.is_trial) {
      left_out.trials += totals.calls;
      left_out.trials_ns += totals.total_ns;
    } else if (op.captured) {
      left_out.captured += AddReplays(op, called.gpu, choices) || !HasChoice(op) ? 0 : totals.calls;
    } else if (!HasChoice(op)) {
      left_out.of_xla += op.family == kJaxTap.family ? called.own_calls() : 0;
      left_out.silent_calls += IsSilent(op) && op.family != kJaxTap.family ? totals.calls : 0;
    } else if (op.is_creation) {
      AddCreation(op, totals, ChoiceOf(op, choices));
    } else if (op.on_gpu && !called.IsHome()) {  // cuBLASLt inside cuBLAS: the same product
      called.gpu = {};
      ChoiceOf(model.ops[called.home], choices).Add(called);
    } else {
      called.home = called.index;
      AddExecution(called, candidates, ChoiceOf(op, choices));
    }
  }
  const auto order = ByWeight(
      choices, [](const Choice& choice) { return std::tie(choice.gpu.busy_ns, choice.total_ns, choice.creation_ns); });
  TypedColumns<Choice> columns = AlgorithmsColumns(model.wall_ns());
  InsertGpuTimes(model, options, &columns);
  Table table = NewTable("algorithms", "Implementation and algorithm of each problem", columns, order);
  AddFallbackNotes(model, *options.choices, table);
  AddNotes(left_out, table);
  return table;
}

}  // namespace dlhook::analyzer::tables
