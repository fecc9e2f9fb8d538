// Table `candidates`: which algorithms were tried or offered for a problem, and which was chosen.

#include "analyzer/tables/columns.h"
#include "analyzer/tables/op_groups.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct CandidateKey {
  std::string kind;
  Direction direction = Direction::kUnknown;
  std::string problem;
  std::string source;
  std::string name;  // of the algorithm or engine
  std::string math_mode;
  auto operator<=>(const CandidateKey&) const = default;
};

struct CandidateRow : CandidateKey {
  int64_t searches = 0;
  int64_t trials = 0;
  std::optional<int64_t> best_ns;
  std::optional<int64_t> workspace_bytes;
  int32_t status = 0;
  int64_t taken = 0;  // searches after which it was executed
  std::string timed_by;
  std::set<std::string> notes;

  void AddTime(std::optional<int64_t> time_ns) {
    if (time_ns) best_ns = std::min(best_ns.value_or(*time_ns), *time_ns);
  }
};

using CandidateMap = std::map<CandidateKey, CandidateRow>;

void AddPlanSearch(const TraceModel& model, const PlanSearch& search, CandidateMap& rows) {
  const Op& first = model.ops[search.candidates[0].op];
  std::set<const CandidateRow*> counted;  // several plans may use the same engine in the same way
  for (size_t i = 0; i < search.candidates.size(); ++i) {
    const PlanCandidate& candidate = search.candidates[i];
    const Op& op = model.ops[candidate.op];
    CandidateRow& row = GroupOf<CandidateKey>(
        {first.kind, first.direction, first.problem, "autotuning", ChosenLabel(op), op.math_mode}, rows);
    row.searches += counted.insert(&row).second ? 1 : 0;
    row.trials += std::ssize(candidate.calls);
    row.taken += search.winner == i ? 1 : 0;
    row.workspace_bytes = op.workspace_bytes;
    row.notes = {op.notes.begin(), op.notes.end()};
    row.AddTime(candidate.time_ns());
    row.timed_by = candidate.elapsed_ns ? "events" : candidate.host_ns ? "host" : "";
  }
}

// cudnnFind lists an algorithm once per math mode. The execution only names the algorithm, so the first usable entry is
// the one.
void AddAlgorithmSearch(const TraceModel& model, const AlgorithmSearch& search, CandidateMap& rows) {
  const Op& op = model.ops[model.calls.op[search.call]];
  const bool measured = op.search()->is_measured;
  const Op* const next = search.next_execution ? &model.ops[*search.next_execution] : nullptr;
  bool found = false;
  for (const Candidate& candidate : op.candidates) {
    CandidateRow& row =
        GroupOf<CandidateKey>({op.subject, op.direction, op.problem, measured ? "measured" : "heuristics",
                               candidate.algorithm, candidate.math_mode},
                              rows);
    ++row.searches;
    row.status = candidate.status;
    if (candidate.status != 0) continue;
    row.trials += measured ? 1 : 0;
    row.workspace_bytes = candidate.workspace_bytes;
    if (!found && next != nullptr && next->algorithm == candidate.algorithm) {
      found = true;
      ++row.taken;
    }
    if (candidate.time_ns == 0) continue;
    row.AddTime(candidate.time_ns);
    row.timed_by = "library";
  }
}

TypedColumns<CandidateRow> CandidatesColumns() {
  return {
      {TextColumn("kind"), "The problem to be computed.", &CandidateRow::kind},
      {TextColumn("direction"), "Forward or backward.",
       [](const CandidateRow& row) { return DirectionName(row.direction); }},
      {TextColumn("problem"), "Its size.", &CandidateRow::problem},
      {TextColumn("candidate"), "The algorithm, or the engine with its knobs.", &CandidateRow::name},
      {TimeColumn("time"), "The shortest of its times; see timed_by.", &CandidateRow::best_ns},
      {NumberColumn("taken"), "Searches after which it was the one executed next for this problem.",
       &CandidateRow::taken},
      {IntegerColumn("workspace", "bytes", Better::kLower), "Memory that it needs.", &CandidateRow::workspace_bytes},
      {Detail(TextColumn("source")),
       "measured: cudnnFind; heuristics: cudnnGet; autotuning: plans of the graph API executed one after another; "
       "replay: "
       "dlhook replay ran it again, alone.",
       &CandidateRow::source},
      {Detail(TextColumn("timed_by")),
       "library: as it measured or estimated it; events: the time between events that the program asked for; host: "
       "from the call to the end of waiting for it, the launch included.",
       &CandidateRow::timed_by},
      {Detail(IntegerColumn("searches", "", Better::kLower)), "Searches that named it.", &CandidateRow::searches},
      {Detail(IntegerColumn("trials", "", Better::kLower)),
       "Executions to measure it (with cudnnFind: at least one per search).", &CandidateRow::trials},
      {Detail(NumberColumn("status")), "0: it can be used; else the library's error for it.", &CandidateRow::status},
      {Detail(TextColumn("math_mode")), "As the library names it.", &CandidateRow::math_mode},
      {Detail(TextColumn("notes")), "The library's notes on the engine.", &CandidateRow::notes},
  };
}

}  // namespace

absl::StatusOr<Table> CandidatesTable(const TraceModel& model, const TableOptions& options) {
  CandidateMap rows;
  for (const PlanSearch& search : options.choices->plan_searches) AddPlanSearch(model, search, rows);
  for (const AlgorithmSearch& search : options.choices->algorithm_searches) AddAlgorithmSearch(model, search, rows);
  std::vector<const CandidateRow*> order;  // of each problem the fastest first, those with an error last
  for (const auto& [key, row] : rows) order.push_back(&row);
  std::ranges::stable_sort(order, {}, [](const CandidateRow* row) {
    return std::tuple(std::tie(row->kind, row->direction, row->problem, row->source), row->status != 0,
                      row->best_ns.value_or(INT64_MAX));
  });
  return NewTable("candidates", "Algorithms tried or offered for each problem", CandidatesColumns(), order);
}

}  // namespace dlhook::analyzer::tables
