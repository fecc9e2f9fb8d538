// Two runs -> what changed: see diff_runs.h.
#include "analyzer/diff/diff_runs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "analyzer/diff/compared_steps.h"
#include "analyzer/diff/contributions.h"
#include "analyzer/diff/diff_table.h"
#include "analyzer/diff/differences.h"
#include "analyzer/diff/done_work.h"
#include "analyzer/diff/environment.h"
#include "analyzer/diff/layer_names.h"
#include "analyzer/diff/measured_run.h"
#include "analyzer/diff/verdict.h"
#include "analyzer/diff/work_table.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline diff {
namespace {

constexpr TableKind kWork = {"work", "what each layer's time consists of: op, problem, algorithm, formats", WorkTable};

// Steps of the most relevant kind that both have; else of the most relevant kind of each; none if a run has none.
std::pair<ComparedSteps, ComparedSteps> StepsOfBoth(const AnalyzedRun& base, const AnalyzedRun& candidate) {
  const std::vector<StepTrack>& base_tracks = base.options.analysis->steps();
  const std::vector<StepTrack>& candidate_tracks = candidate.options.analysis->steps();
  const std::vector<IterationKind> before = KindsOfSteps(base_tracks), after = KindsOfSteps(candidate_tracks);
  if (before.empty() || after.empty()) return {};
  for (IterationKind kind : before) {
    if (std::find(after.begin(), after.end(), kind) == after.end()) continue;
    return {ChooseSteps(base_tracks, kind), ChooseSteps(candidate_tracks, kind)};
  }
  return {ChooseSteps(base_tracks, before.front()), ChooseSteps(candidate_tracks, after.front())};
}

DoneWork WorkOf(const AnalyzedRun& run, const MeasuredRun& measured) {
  return CountWork(*run.model, run.options.analysis->steps(), measured.steps);
}

// Checks the columns of the table of an empty run.
bool IsComparable(const TableKind& kind) {
  TraceModel model;
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model);
  const absl::StatusOr<Table> table = kind.run(model, {.choices = &choices, .totals = &totals, .analysis = &analysis});
  return table.ok() && IsComparable(*table);
}

}  // namespace

const std::vector<TableKind>& ComparableTables() {
  static const auto& kTableKinds = *[] {
    auto* kinds = new std::vector<TableKind>{kWork};
    for (const TableKind& kind : TableKinds()) {
      if (IsComparable(kind)) kinds->push_back(kind);
    }
    return kinds;
  }();
  return kTableKinds;
}

absl::StatusOr<RunsDiff> DiffRuns(Baseline<AnalyzedRun> base, Contender<AnalyzedRun> candidate,
                                  const std::vector<const TableKind*>& kinds) {
  std::vector<const TableKind*> all = {&kWork};
  std::copy_if(kinds.begin(), kinds.end(), std::back_inserter(all),
               [](const TableKind* kind) { return kind->name != kWork.name; });
  const auto [base_steps, candidate_steps] = StepsOfBoth(*base, *candidate);
  TableOptions base_options = base->options, candidate_options = candidate->options;
  base_options.gpu_times = candidate_options.gpu_times =
      std::min(GpuTimesOf(*base->model), GpuTimesOf(*candidate->model));
  const absl::StatusOr<MeasuredRun> before = MeasureRun(*base->model, base_options, base_steps, all);
  if (!before.ok()) return before.status();
  const absl::StatusOr<MeasuredRun> after = MeasureRun(*candidate->model, candidate_options, candidate_steps, all);
  if (!after.ok()) return after.status();
  const NameMap names =
      MatchLayerNames(Baseline(NetworkSide{base->model, &base->options.analysis->attribution()}),
                      Contender(NetworkSide{candidate->model, &candidate->options.analysis->attribution()}));
  std::vector<TableChanges> changes;
  for (size_t i = 0; i < all.size(); ++i) {
    changes.push_back(CompareTables(Baseline(&before->tables[i]), Contender(&after->tables[i]), names));
  }
  const Pace pace = FindPace(changes.front());
  const std::vector<Difference> differences = FindDifferences(
      Baseline(DifferenceInput{base->model, &*before, WorkOf(*base, *before)}),
      Contender(DifferenceInput{candidate->model, &*after, WorkOf(*candidate, *after)}), changes.front(), names);
  RunsDiff diff;
  diff.environment = EnvironmentText(differences);
  diff.decision =
      Decide(Baseline<const MeasuredRun*>(&*before), Contender<const MeasuredRun*>(&*after), pace, differences.empty());
  const Pace& own = diff.decision.pace;
  diff.tables.push_back(
      VerdictTable({base->model, candidate->model, &*before, &*after, &diff.decision, differences,
                    FindContributions(changes.front(), names, own), FindLayoutChange(changes.front(), own)}));
  diff.tables.push_back(DifferencesTable(differences));
  for (TableChanges& table : changes) JudgeRows(own, table);
  for (const TableKind* kind : kinds) {
    const auto place =
        std::find_if(all.begin(), all.end(), [&](const TableKind* other) { return other->name == kind->name; });
    diff.tables.push_back(DiffTable(changes[static_cast<size_t>(place - all.begin())]));
  }
  for (Table& table : diff.tables) TakeAwayNonsense(&table);
  return diff;
}

}  // namespace dlhook::analyzer::diff
