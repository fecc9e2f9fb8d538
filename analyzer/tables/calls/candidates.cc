// Table `candidates`: which algorithms were tried or offered for a problem, and which was chosen.

#include "analyzer/tables/columns.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct Problem {
  std::string kind;
  Direction direction = Direction::kUnknown;
  std::string problem;
  std::string source;
  auto operator<=>(const Problem&) const = default;
};

struct CandidateTotals {
  size_t place = 0;  // rank in the first search that named it
  int64_t searches = 0;
  int64_t trials = 0;
  std::optional<int64_t> best_ns;
  std::optional<int64_t> workspace_bytes;
  int32_t status = 0;
  int64_t taken = 0;  // searches after which it was executed
  std::string math_mode;
  std::string timed_by;
  std::vector<std::string> notes;
};

// name of the algorithm or engine, math mode.
using CandidateMap = std::map<std::pair<std::string, std::string>, CandidateTotals>;
using ProblemMap = std::map<Problem, CandidateMap>;

struct CandidateRow {
  const Problem& problem;
  const std::string& name;
  const CandidateTotals& totals;
};

void AddTime(std::optional<int64_t> time_ns, CandidateTotals& totals) {
  if (time_ns) totals.best_ns = std::min(totals.best_ns.value_or(*time_ns), *time_ns);
}

CandidateTotals& Find(CandidateMap& candidates, const std::string& name, const std::string& mode, size_t place) {
  const auto [it, is_new] = candidates.try_emplace({name, mode});
  if (is_new) it->second.place = place;
  it->second.math_mode = mode;
  return it->second;
}

void AddPlanSearch(const TraceModel& model, const PlanSearch& search, ProblemMap& problems) {
  const Op& first = model.ops[search.candidates[0].op];
  CandidateMap& candidates = problems[{first.kind, first.direction, first.problem, "autotuning"}];
  std::set<const CandidateTotals*> counted;  // several plans may use the same engine in the same way
  for (size_t i = 0; i < search.candidates.size(); ++i) {
    const PlanCandidate& candidate = search.candidates[i];
    const Op& op = model.ops[candidate.op];
    CandidateTotals& totals = Find(candidates, ChosenLabel(op), op.math_mode, i);
    totals.searches += counted.insert(&totals).second ? 1 : 0;
    totals.trials += std::ssize(candidate.calls);
    totals.taken += search.winner == i ? 1 : 0;
    totals.workspace_bytes = op.workspace_bytes;
    totals.notes = op.notes;
    AddTime(candidate.time_ns(), totals);
    totals.timed_by = candidate.elapsed_ns ? "events" : candidate.host_ns ? "host" : "";
  }
}

bool IsTaken(const TraceModel& model, const AlgorithmSearch& search, const Candidate& candidate) {
  if (!search.next_execution) return false;
  return model.ops[*search.next_execution].algorithm == candidate.algorithm;
}

// cudnnFind lists an algorithm once per math mode. The execution only names the algorithm, so the first usable entry is
// the one.
void AddAlgorithmSearch(const TraceModel& model, const AlgorithmSearch& search, ProblemMap& problems) {
  const Op& op = model.ops[model.calls.op[search.call]];
  const bool measured = op.search()->is_measured;
  CandidateMap& candidates = problems[{op.subject, op.direction, op.problem, measured ? "measured" : "heuristics"}];
  bool found = false;
  for (size_t i = 0; i < op.candidates.size(); ++i) {
    const Candidate& candidate = op.candidates[i];
    CandidateTotals& totals = Find(candidates, candidate.algorithm, candidate.math_mode, i);
    ++totals.searches;
    totals.status = candidate.status;
    if (candidate.status != 0) continue;
    totals.trials += measured ? 1 : 0;
    totals.workspace_bytes = candidate.workspace_bytes;
    if (!found && IsTaken(model, search, candidate)) {
      found = true;
      ++totals.taken;
    }
    if (candidate.time_ns == 0) continue;
    AddTime(candidate.time_ns, totals);
    totals.timed_by = "library";
  }
}

TypedColumns<CandidateRow> CandidatesColumns() {
  return {
      {TextColumn("kind"), "The problem to be computed.", [](const CandidateRow& row) { return row.problem.kind; }},
      {TextColumn("direction"), "Forward or backward.",
       [](const CandidateRow& row) { return std::string(DirectionName(row.problem.direction)); }},
      {TextColumn("problem"), "Its size.", [](const CandidateRow& row) { return row.problem.problem; }},
      {TextColumn("candidate"), "The algorithm, or the engine with its knobs.",
       [](const CandidateRow& row) { return row.name; }},
      {TimeColumn("time"), "The shortest of its times; see timed_by.",
       [](const CandidateRow& row) { return row.totals.best_ns; }},
      {NumberColumn("taken"), "Searches after which it was the one executed next for this problem.",
       [](const CandidateRow& row) { return row.totals.taken; }},
      {IntegerColumn("workspace", "bytes", Better::kLower), "Memory that it needs.",
       [](const CandidateRow& row) { return row.totals.workspace_bytes; }},
      {Detail(TextColumn("source")),
       "measured: cudnnFind; heuristics: cudnnGet; autotuning: plans of the graph API executed one after another.",
       [](const CandidateRow& row) { return row.problem.source; }},
      {Detail(TextColumn("timed_by")),
       "library: as it measured or estimated it; events: the time between events that the program asked for; host: "
       "from the call to the end of waiting for it, the launch included.",
       [](const CandidateRow& row) { return row.totals.timed_by; }},
      {Detail(IntegerColumn("searches", "", Better::kLower)), "Searches that named it.",
       [](const CandidateRow& row) { return row.totals.searches; }},
      {Detail(IntegerColumn("trials", "", Better::kLower)),
       "Executions to measure it (with cudnnFind: at least one per search).",
       [](const CandidateRow& row) { return row.totals.trials; }},
      {Detail(NumberColumn("status")), "0: it can be used; else the library's error for it.",
       [](const CandidateRow& row) { return row.totals.status; }},
      {Detail(TextColumn("math_mode")), "As the library names it.",
       [](const CandidateRow& row) { return row.totals.math_mode; }},
      {Detail(TextColumn("notes")), "The library's notes on the engine.",
       [](const CandidateRow& row) { return std::set<std::string>(row.totals.notes.begin(), row.totals.notes.end()); }},
  };
}

}  // namespace

absl::StatusOr<Table> CandidatesTable(const TraceModel& model, const TableOptions& options) {
  ProblemMap problems;
  for (const PlanSearch& search : options.choices->plan_searches) AddPlanSearch(model, search, problems);
  for (const AlgorithmSearch& search : options.choices->algorithm_searches) AddAlgorithmSearch(model, search, problems);
  const TypedColumns<CandidateRow> columns = CandidatesColumns();
  Table table = NewTable("candidates", "Algorithms tried or offered for each problem", columns);
  for (const auto& [problem, candidates] : problems) {
    std::vector<const CandidateMap::value_type*> order;
    for (const auto& candidate : candidates) order.push_back(&candidate);
    absl::c_stable_sort(order, [](const auto* a, const auto* b) {
      return std::make_pair(a->second.status != 0, a->second.best_ns.value_or(INT64_MAX)) <
             std::make_pair(b->second.status != 0, b->second.best_ns.value_or(INT64_MAX));
    });
    for (const auto* candidate : order) AddRow(columns, {problem, candidate->first.first, candidate->second}, &table);
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
