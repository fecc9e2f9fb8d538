// Table `phases`: how a step is divided into input, forward, backward and update, by kind of step.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/passes/columns.h"
#include "analyzer/passes/pass.h"
#include "analyzer/passes/step_groups.h"
#include "analyzer/passes/tables.h"

namespace dlhook::analyzer {
namespace {

constexpr PhaseKind kOrder[] = {PhaseKind::kInput,  PhaseKind::kForward,   PhaseKind::kBackward,
                                PhaseKind::kUpdate, PhaseKind::kInference, PhaseKind::kUnknown};

struct PhaseSums {
  int64_t total_ns = 0;
  int64_t calls = 0;
};
using Sums = std::array<PhaseSums, std::size(kOrder)>;  // by PhaseKind

PhaseKind PhaseAt(const Step& step, int64_t ns) {
  for (const PhaseInterval& phase : step.phases) {
    if (ns >= phase.start_ns && ns < phase.end_ns) return phase.kind;
  }
  return PhaseKind::kUnknown;
}

// Of a group whose steps overlap (threads) by time alone is not known whose a call is: calls are counted where steps don't.
void CountCalls(const TraceModel& model, const StepGroup& group, Sums& sums) {
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const int64_t start_ns = model.calls.start_ns[call];
    if (model.threads[model.calls.thread[call]].process != group.process || model.calls.parent[call] != kNone) continue;
    if (model.ops[model.calls.op[call]].is_creation) continue;
    const auto after = std::upper_bound(group.steady.begin(), group.steady.end(), start_ns,
                                        [](int64_t ns, const Step* step) { return ns < step->start_ns; });
    if (after == group.steady.begin() || start_ns >= (*(after - 1))->end_ns) continue;
    ++sums[static_cast<size_t>(PhaseAt(**(after - 1), start_ns))].calls;
  }
}

Sums SumPhases(const TraceModel& model, const StepGroup& group) {
  Sums sums;
  for (const Step* step : group.steady) {
    int64_t rest_ns = step->end_ns - step->start_ns;
    for (const PhaseInterval& phase : step->phases) {
      sums[static_cast<size_t>(phase.kind)].total_ns += phase.end_ns - phase.start_ns;
      rest_ns -= phase.end_ns - phase.start_ns;
    }
    sums[static_cast<size_t>(PhaseKind::kUnknown)].total_ns += rest_ns;
  }
  if (!group.overlaps) CountCalls(model, group, sums);
  return sums;
}

std::vector<Column> Columns(const std::vector<StepGroup>& groups) {
  std::vector<Column> columns = {
      IntegerColumn("process", "", Better::kNeither, "Process id."),
      As(Role::kKey, TextColumn("step", "training, validation, inference; unknown where the direction of calls isn't.")),
      As(Role::kKey, TextColumn("phase", "other: of no phase; warm-up: the first steps, which are not in the other rows.")),
      IntegerColumn("steps", "", Better::kNeither, "Steps that the row speaks of."),
      IntegerColumn("time", "ns", Better::kLower, "In a mean step; of warm-up: its mean step."),
      RealColumn("percent", "%", Better::kLower, "Of the steady steps' time."),
      RealColumn("calls", "", Better::kLower, "Library calls in a mean step, without those inside others."),
      As(Role::kWeight, IntegerColumn("total_time", "ns", Better::kLower,
                                      "Of all these steps: a kind's phases add up to their duration.")),
  };
  columns[0].detail = !HasSeveralProcesses(groups);
  return columns;
}

void AddRows(const TraceModel& model, const StepGroup& group, Table& table) {
  const Sums sums = SumPhases(model, group);
  const int64_t pid = model.processes[group.process].header.process().pid();
  const std::string kind = IterationKindName(group.kind);
  const auto steps = static_cast<int64_t>(group.steady.size());
  const int64_t whole_ns = DurationOf(group.steady);
  for (PhaseKind phase : kOrder) {
    const PhaseSums& sum = sums[static_cast<size_t>(phase)];
    if (sum.total_ns == 0 && sum.calls == 0) continue;
    Cell calls;
    if (!group.overlaps) calls = static_cast<double>(sum.calls) / static_cast<double>(steps);
    table.rows.push_back({pid, kind, PhaseKindName(phase), steps, Mean(sum.total_ns, steps),
                          Percent(sum.total_ns, whole_ns), calls, sum.total_ns});
  }
  if (group.warm_up.empty()) return;
  const auto warm_up = static_cast<int64_t>(group.warm_up.size());
  const int64_t warm_up_ns = DurationOf(group.warm_up);
  table.rows.push_back({pid, kind, "warm-up", warm_up, Mean(warm_up_ns, warm_up), Cell(), Cell(), warm_up_ns});
}

}  // namespace

absl::StatusOr<Table> PhasesTable(const TraceModel& model, const PassOptions& options) {
  const std::vector<StepGroup> groups = GroupSteps(options.analysis->steps());
  Table table = NewTable("phases", "How steps are divided", Columns(groups));
  for (const StepGroup& group : groups) {
    AddRows(model, group, table);
    if (group.odd > 0) {
      table.notes.push_back(absl::StrCat(ProcessLabel(model, group.process), ": ", group.odd, " ",
                                         IterationKindName(group.kind),
                                         " steps more, of another batch size or without scopes, are not in these rows."));
    }
  }
  if (groups.empty()) table.notes.push_back("No steps were found.");
  return table;
}

}  // namespace dlhook::analyzer
