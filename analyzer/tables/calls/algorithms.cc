// Table `algorithms`: which implementation and algorithm was taken for each distinct problem, and
// who chose it. A problem that was done in several ways has several rows; executions that only
// tried an algorithm are left out.
#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/calls/call_context.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/gpu_call_times.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct Key {
  std::string kind;
  Direction direction = Direction::kUnknown;
  std::string problem;
  std::string types;
  std::string formats;
  std::string implementation;
  std::string algorithm;
  std::string post_ops;
  trace::Chooser chooser = trace::CHOOSER_UNKNOWN;
  std::string heuristic;
  auto operator<=>(const Key&) const = default;
};

Key KeyOf(const Op& op) {
  return {op.kind,          op.direction,      op.problem,   op.types,
          FormatsLabel(op), op.implementation, op.algorithm, absl::StrJoin(op.post_ops, "+"),
          op.chooser,       op.heuristic};
}

struct Choice {
  OpGroup executions;
  GpuOpTime gpu;
  std::string chosen;
  int64_t cache_hits = 0;
  int64_t cache_misses = 0;
  int64_t creation_ns = 0;
  std::optional<int64_t> candidates;
  std::optional<int64_t> workspace_bytes;  // largest
  std::set<std::string> notes, compute_types, math_modes, tensor_cores;
};

// Most candidates that a search for the problem tried or offered.
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

// Answers of the heuristics, where these are what was asked.
int64_t OfferedTo(const Op& op) {
  if (IsPlanExecution(op)) return op.definition.cudnn().plan().heuristic_results();
  return op.definition.gemm().cuda().heuristic_results();
}

std::vector<Column> Columns() {
  return {
      As(Role::kKey, TextColumn("kind", "The primitive.")),
      As(Role::kKey, TextColumn("direction", "Forward or backward, where the library says so.")),
      As(Role::kShape, TextColumn("problem", "Its size, as the library states it.")),
      As(Role::kChoice, TextColumn("chosen", "The implementation; if the library names none, the algorithm.")),
      As(Role::kChoice, TextColumn("chooser",
                                   "Who chose: fixed: the program; heuristic: the library's, asked by the program; "
                                   "library: left to it; profiled: the fastest of several that were run; fallback: "
                                   "what was preferred failed; cached: an earlier choice.")),
      CallsColumn("Executions, without those that only tried it."),
      TotalTimeColumn(),
      Detail(MeanTimeColumn()),
      Detail(WallPercentColumn()),
      Detail(TextColumn("implementation", "The kernel, engine or configuration that ran.")),
      Detail(TextColumn("algorithm", "The algorithm, as the library names it.")),
      As(Role::kChoice, Detail(TextColumn("formats", "Memory format of every tensor."))),
      As(Role::kChoice,
         Detail(TextColumn("types", "Data types of source, weights and destination; one where all are equal."))),
      As(Role::kChoice, Detail(TextColumn("post_ops", "Operations fused after this one."))),
      Detail(TextColumn("heuristic", "Which heuristics, and at which place they had this answer.")),
      Detail(IntegerColumn("candidates", "", Better::kNeither,
                           "Algorithms that were tried or offered; see the table candidates.")),
      Detail(IntegerColumn("workspace", "bytes", Better::kLower, "Memory that it was given.")),
      Detail(TextColumn("tensor_core",
                        "Whether it may run on tensor cores, and why not: as the library notes, "
                        "else by the rules of its manual.")),
      Detail(TextColumn("compute_type", "In what it computes.")),
      Detail(TextColumn("math_mode", "What the program allows the library.")),
      Detail(TextColumn("notes", "The library's numerical and behaviour notes.")),
      WallShareColumn(),
      Detail(
          IntegerColumn("flops", "flops", Better::kNeither, "Floating-point operations of one call, by the formula.")),
      Detail(RateColumn()),
      Detail(IntegerColumn("cache_hits", "", Better::kNeither,
                           "Primitives taken from the library's cache (seen at capture level 2).")),
      Detail(IntegerColumn("cache_misses", "", Better::kLower,
                           "Primitives created anew: chosen, generated, compiled (seen at capture level 2).")),
      Detail(IntegerColumn("creation_time", "ns", Better::kLower, "Time of these creations.")),
  };
}

Row ChoiceRow(const Key& key, const Choice& choice, int64_t wall_ns) {
  const OpGroup& group = choice.executions;
  return {key.kind,
          std::string(DirectionName(key.direction)),
          key.problem,
          choice.chosen,
          std::string(ChooserName(key.chooser)),
          group.calls,
          group.total_ns,
          Mean(group.total_ns, group.calls),
          Percent(group.wall_share_ns, wall_ns),
          key.implementation,
          key.algorithm,
          key.formats,
          key.types,
          key.post_ops,
          key.heuristic,
          OrUnknown(choice.candidates),
          OrUnknown(choice.workspace_bytes),
          Join(choice.tensor_cores),
          Join(choice.compute_types),
          Join(choice.math_modes),
          Join(choice.notes),
          group.wall_share_ns,
          OrUnknown(group.flops),
          GroupRate(group),
          choice.cache_hits,
          choice.cache_misses,
          choice.creation_ns};
}

bool HasChoice(const Op& op) {
  return op.subject.empty() &&
         (!op.implementation.empty() || !op.algorithm.empty() || op.chooser != trace::CHOOSER_UNKNOWN);
}

// Of the others, those that computed something in a way that is not told. Calls of GPU libraries of
// which only the name is known set something up or ask for something.
bool IsSilent(const Op& op) {
  const bool is_gpu_call = op.kind == "call" && (op.on_gpu || absl::StartsWith(op.family, "cu") ||
                                                 op.family == "nccl" || op.family == "nvrtc");
  return op.subject.empty() && !is_gpu_call && (IsLibraryOp(op) || op.kind == "call") && op.kind != "collective";
}

void AddWords(const std::string& word, std::set<std::string>& words) {
  if (!word.empty()) words.insert(word);
}

void AddExecution(const Op& op, const OpTotals& totals, const std::map<std::string, int64_t>& candidates,
                  Choice& choice) {
  choice.chosen = ChosenLabel(op);
  choice.executions.Add(op, totals, /*at_home=*/true);
  if (!op.on_gpu) return;
  if (op.workspace_bytes) {
    choice.workspace_bytes = std::max(choice.workspace_bytes.value_or(0), *op.workspace_bytes);
  }
  const auto searched = candidates.find(ProblemKey(op));
  const int64_t count = searched != candidates.end() ? searched->second : OfferedTo(op);
  if (count > 0) choice.candidates = std::max(choice.candidates.value_or(0), count);
  for (const std::string& note : op.notes) choice.notes.insert(note);
  AddWords(op.compute_type, choice.compute_types);
  AddWords(op.math_mode, choice.math_modes);
  if (op.tensor_core) choice.tensor_cores.insert(TensorCoreLabel(*op.tensor_core));
}

// What launches of CUDA graphs computed of captured calls, where their GPU time is known.
bool AddReplays(const Op& op, const GpuOpTime& time, std::map<Key, Choice>& choices) {
  if (time.activities == 0 || !HasChoice(op)) return false;
  Choice& choice = choices[KeyOf(op)];
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
    table.notes.push_back(absl::StrCat(function, " computed ", count, " products as a fallback after ", why, "."));
  }
}

void AddNotes(const LeftOut& left_out, Table& table) {
  if (left_out.trials > 0) {
    table.notes.push_back(absl::StrCat(left_out.trials, " executions (", HumanTime(left_out.trials_ns),
                                       ") that only tried an algorithm are not listed: see the "
                                       "tables tuning and candidates."));
  }
  if (left_out.captured > 0) {
    table.notes.push_back(absl::StrCat(left_out.captured,
                                       " calls are not listed: they were recorded into CUDA "
                                       "graphs, not executed then."));
  }
  if (left_out.silent_calls > 0) {
    table.notes.push_back(absl::StrCat(left_out.silent_calls,
                                       " calls are not listed: their library does not "
                                       "tell which implementation it took (BLAS)."));
  }
}

}  // namespace

absl::StatusOr<Table> AlgorithmsTable(const TraceModel& model, const TableOptions& options) {
  const std::map<std::string, int64_t> candidates = CountCandidates(model, *options.choices);
  const std::vector<OpIndex> home = HomeOps(model, *options.totals);
  const std::vector<GpuOpTime> gpu_times = GpuTimesOfOps(model, options);
  std::map<Key, Choice> choices;
  LeftOut left_out;
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const Op& op = model.ops[i];
    const OpTotals& totals = options.totals->ops[i];
    if (totals.calls == 0) continue;
    if (op.is_trial) {
      left_out.trials += totals.calls;
      left_out.trials_ns += totals.total_ns;
    } else if (op.captured) {
      left_out.captured += AddReplays(op, gpu_times[i], choices) || !HasChoice(op) ? 0 : totals.calls;
    } else if (!HasChoice(op)) {
      left_out.silent_calls += IsSilent(op) ? totals.calls : 0;
    } else if (op.is_creation) {
      AddCreation(op, totals, choices[KeyOf(op)]);
    } else if (op.on_gpu && home[i] != i) {  // cuBLASLt inside cuBLAS: the same product
      choices[KeyOf(model.ops[home[i]])].executions.Add(op, totals, /*at_home=*/false);
    } else {
      AddExecution(op, totals, candidates, choices[KeyOf(op)]);
      choices[KeyOf(op)].gpu.Add(gpu_times[i]);
    }
  }
  std::vector<const std::pair<const Key, Choice>*> order;
  for (const auto& choice : choices) order.push_back(&choice);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tie(a->second.gpu.busy_ns, a->second.executions.total_ns, a->second.creation_ns) >
           std::tie(b->second.gpu.busy_ns, b->second.executions.total_ns, b->second.creation_ns);
  });

  Table table = NewTable("algorithms", "Implementation and algorithm of each problem", Columns());
  std::vector<GpuOpTime> gpu;
  for (const auto* choice : order) {
    table.rows.push_back(ChoiceRow(choice->first, choice->second, model.wall_ns()));
    gpu.push_back(choice->second.gpu);
  }
  InsertGpuColumns(model, options, "calls", gpu, &table);
  AddFallbackNotes(model, *options.choices, table);
  AddNotes(left_out, table);
  return table;
}

}  // namespace dlhook::analyzer::tables
