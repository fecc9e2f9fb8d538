// Table `tuning`: the cost of finding and preparing algorithms, separate from computing.

#include "analyzer/model/same_work.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/op_groups.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct TuningKey {
  std::string activity;
  std::string kind;
  Direction direction = Direction::kUnknown;
  std::string problem;
  auto operator<=>(const TuningKey&) const = default;
};

using Span = std::pair<int64_t, int64_t>;  // start and end

struct Cost : TuningKey {
  int64_t count = 0;
  int64_t total_ns = 0;
  std::vector<Span> spans;
  int64_t unplaced_ns = 0;  // of total_ns, what is in none of them
  bool is_time_known = true;
  int64_t candidates = 0;  // largest number of any search
  int64_t trials = 0;
  int64_t failed = 0;
  std::set<std::string> chosen;
  std::set<std::string> functions;

  bool HasCandidates() const { return activity == "measuring" || activity == "heuristics" || activity == "autotuning"; }
};

// The part of the run's time in which any of these went on, in whatever thread.
double PercentOfRun(std::vector<Span> spans, int64_t unplaced_ns, int64_t wall_ns) {
  absl::c_sort(spans);
  int64_t covered_ns = unplaced_ns, last_ns = std::numeric_limits<int64_t>::min();
  for (const auto& [start_ns, end_ns] : spans) {
    covered_ns += std::max<int64_t>(end_ns - std::max(start_ns, last_ns), 0);
    last_ns = std::max(last_ns, end_ns);
  }
  return wall_ns > 0 ? 100.0 * static_cast<double>(std::min(covered_ns, wall_ns)) / static_cast<double>(wall_ns) : 0;
}

using CostMap = std::map<TuningKey, Cost>;

bool IsLtHeuristics(const Op& op) { return op.gemm() && op.gemm()->kind == GemmKind::kHeuristic; }

TuningKey KeyOf(const std::string& activity, const Op& op) {
  return {activity, op.subject.empty() ? op.kind : op.subject, op.direction, op.problem};
}

// Empty: none of these.
std::string ActivityOf(const Op& op) {
  if (op.search()) return op.search()->is_measured ? "measuring" : "heuristics";
  if (IsLtHeuristics(op)) return "heuristics";
  if (op.family == "nvrtc" && absl::StrContains(op.function, "CompileProgram")) return "compilation";
  if (op.is_creation && !op.cache_hit) return "creation";
  return "";
}

int64_t CandidatesOf(const Op& op) {
  if (IsLtHeuristics(op)) return op.gemm()->heuristic_results;
  return std::ssize(op.candidates);
}

// Searches, heuristics, compilation and creation of primitives, which are separate calls.
void AddCalls(const TraceModel& model, const RunTotals& totals, CostMap& costs) {
  std::vector<Cost*> cost_of(model.ops.size());
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const Op& op = model.ops[i];
    const std::string activity = ActivityOf(op);
    const int64_t calls = totals.ops[i].calls - totals.ops[i].nested_calls;
    if (activity.empty() || calls == 0) continue;
    Cost& cost = GroupOf(KeyOf(activity, op), costs);
    cost.count += calls;
    cost.total_ns += totals.ops[i].total_ns;
    cost.candidates = std::max(cost.candidates, CandidatesOf(op));
    cost.functions.insert(op.function);
    cost_of[i] = &cost;
  }
  const SameWork same_work(model);
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    Cost* const cost = cost_of[model.calls.op[call]];
    if (cost == nullptr || same_work.IsNested(call)) continue;
    cost->spans.emplace_back(model.calls.start_ns[call], model.calls.EndOf(call));
  }
  for (const AggregateRow& row : model.aggregates) {
    if (cost_of[row.op] != nullptr) cost_of[row.op]->unplaced_ns += row.sum_ns - row.nested_sum_ns;
  }
  for (const FailedCall& failed : model.failed_calls) {
    const Op& op = model.ops[model.calls.op[failed.call]];
    const std::string activity = ActivityOf(op);
    if (activity.empty() || same_work.IsNested(failed.call)) continue;
    ++GroupOf(KeyOf(activity, op), costs).failed;
  }
}

void AddChosen(const TraceModel& model, const std::vector<AlgorithmSearch>& searches, CostMap& costs) {
  for (const AlgorithmSearch& search : searches) {
    const Op& op = model.ops[model.calls.op[search.call]];
    const auto it = costs.find({ActivityOf(op), op.subject, op.direction, op.problem});
    if (it == costs.end() || !search.next_execution) continue;
    it->second.chosen.insert(ChosenLabel(model.ops[*search.next_execution]));
  }
}

void AddAutotuning(const TraceModel& model, const std::vector<PlanSearch>& searches, CostMap& costs) {
  for (const PlanSearch& search : searches) {
    const Op& op = model.ops[search.candidates[0].op];
    Cost& cost = GroupOf<TuningKey>({"autotuning", op.kind, op.direction, op.problem}, costs);
    ++cost.count;
    cost.total_ns += search.end_ns - search.start_ns;
    cost.spans.emplace_back(search.start_ns, search.end_ns);
    cost.candidates = std::max(cost.candidates, std::ssize(search.candidates));
    for (const PlanCandidate& candidate : search.candidates) {
      cost.trials += std::ssize(candidate.calls);
      cost.functions.insert(model.ops[candidate.op].function);
    }
    if (!search.winner) continue;
    cost.chosen.insert(ChosenLabel(model.ops[search.candidates[*search.winner].op]));
  }
}

// Build times of plans are recorded with their executions.
void AddPlanBuilding(const TraceModel& model, CostMap& costs) {
  std::set<std::tuple<ProcessIndex, uint32_t, uint64_t>> seen;  // number and time identify a plan
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const Op& op = model.ops[model.calls.op[call]];
    const CudnnPlan* plan = op.plan();
    if (plan == nullptr) continue;
    const ProcessIndex process = model.threads[model.calls.thread[call]].process;
    if (plan->build_ticks == 0 || !seen.emplace(process, plan->number, plan->build_ticks).second) continue;
    Cost& cost = GroupOf<TuningKey>({"plan building", op.kind, op.direction, op.problem}, costs);
    ++cost.count;
    cost.failed += plan->failed_before;
    const auto ticks_per_second = static_cast<double>(model.processes[process].ticks_per_second);
    cost.is_time_known &= ticks_per_second > 0;
    if (ticks_per_second == 0) continue;
    const auto ns = static_cast<int64_t>(1e9 * static_cast<double>(plan->build_ticks) / ticks_per_second);
    cost.total_ns += ns;
    cost.unplaced_ns += ns;
  }
}

TypedColumns<Cost> TuningColumns(int64_t wall_ns) {
  return {
      {TextColumn("activity"),
       "measuring: the library ran the algorithms (cudnnFind); heuristics: it was asked for some; autotuning: the "
       "program executed plans one after another; plan building: of cuDNN's graph API; compilation: NVRTC; creation: "
       "of oneDNN primitives that were not in its cache.",
       &Cost::activity},
      {TextColumn("kind"), "The problem to be computed.", &Cost::kind},
      {TextColumn("problem"), "Its size.", &Cost::problem},
      {TextColumn("chosen"), "What was executed next for the problem; see the table candidates.", &Cost::chosen},
      {IntegerColumn("count", "", Better::kLower), "Searches, plans, compilations or creations.", &Cost::count},
      {TimeColumn("total_time"),
       "Of the calls; of autotuning, from the first trial to the end of waiting for the last one.",
       [](const Cost& cost) { return cost.is_time_known ? Cell(cost.total_ns) : Cell(); }},
      {PercentColumn("run_percent", Better::kLower),
       "Percentage of the run's time in which it was active: less than total time's where threads overlap.",
       [wall_ns](const Cost& cost) {
         return cost.is_time_known ? Cell(PercentOfRun(cost.spans, cost.unplaced_ns, wall_ns)) : Cell();
       }},
      {NumberColumn("candidates"), "Most algorithms that one search tried or offered.",
       [](const Cost& cost) { return cost.HasCandidates() ? Cell(cost.candidates) : Cell(); }},
      {Detail(TextColumn("direction")), "Forward or backward.",
       [](const Cost& cost) { return DirectionName(cost.direction); }},
      {Detail(IntegerColumn("trials", "", Better::kLower)), "Executions that only tried a candidate.", &Cost::trials},
      {Detail(IntegerColumn("failed", "", Better::kLower)),
       "Calls that returned an error; plans that could not be built before one could.", &Cost::failed},
      {Detail(TimeColumn("mean_time")), "Total time divided by count.",
       [](const Cost& cost) { return cost.is_time_known ? Mean(cost.total_ns, cost.count) : Cell(); }},
      {Detail(TextColumn("functions")), "Functions that the calls were seen through.", &Cost::functions},
  };
}

// One sentence per activity, most time first.
void AddNotes(const CostMap& costs, int64_t wall_ns, Table& table) {
  std::map<std::string, Cost> sums;
  for (const auto& [key, cost] : costs) {
    Cost& sum = sums[key.activity];
    sum.activity = key.activity;
    sum.total_ns += cost.total_ns;
    sum.count += cost.count;
    sum.unplaced_ns += cost.unplaced_ns;
    sum.spans.insert(sum.spans.end(), cost.spans.begin(), cost.spans.end());
  }
  for (const Cost* sum : ByWeight(sums, &Cost::total_ns)) {
    table.notes.push_back(absl::StrFormat("%s: %d times, %s thread time, %.1f %% of the run.", sum->activity,
                                          sum->count, HumanTime(sum->total_ns),
                                          PercentOfRun(sum->spans, sum->unplaced_ns, wall_ns)));
  }
}

}  // namespace

absl::StatusOr<Table> TuningTable(const TraceModel& model, const TableOptions& options) {
  CostMap costs;
  AddCalls(model, *options.totals, costs);
  AddChosen(model, options.choices->algorithm_searches, costs);
  AddAutotuning(model, options.choices->plan_searches, costs);
  AddPlanBuilding(model, costs);
  const auto order = ByWeight(costs, &Cost::total_ns);
  Table table = NewTable("tuning", "Cost of searching and preparing algorithms", TuningColumns(model.wall_ns()), order);
  AddNotes(costs, model.wall_ns(), table);
  return table;
}

}  // namespace dlhook::analyzer::tables
