// Table `phases`: a step's time by phase: input, forward, backward and update, by kind of step.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/analysis/step_division.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/state_looks.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr PhaseKind kOrder[] = {PhaseKind::kInput,  PhaseKind::kForward,   PhaseKind::kBackward,
                                PhaseKind::kUpdate, PhaseKind::kInference, PhaseKind::kUnknown};

struct PhaseSums {
  int64_t total_ns = 0;
  int64_t calls = 0;
  LookSums looks = {};
};
struct PhasesSums {
  std::array<PhaseSums, std::size(kOrder)> phases;  // by PhaseKind
  int64_t least_calls = INT64_MAX, most_calls = 0;  // per step
  PhaseSums& Of(PhaseKind kind) { return phases[static_cast<size_t>(kind)]; }
};

PhaseKind PhaseAt(const Step& step, int64_t ns) {
  for (const PhaseInterval& phase : step.phases) {
    if (ns >= phase.start_ns && ns < phase.end_ns) return phase.kind;
  }
  return PhaseKind::kUnknown;
}

// Steps of one thread do not overlap.
std::map<ThreadIndex, std::vector<const Step*>> ByThread(const StepGroup& group) {
  std::map<ThreadIndex, std::vector<const Step*>> by_thread;
  for (const Step* step : group.steady) by_thread[step->thread].push_back(step);
  return by_thread;
}

void CountCalls(const TraceModel& model, ProcessIndex process, const std::vector<const Step*>& steps,
                PhasesSums& sums) {
  const ThreadIndex thread = steps.front()->thread;
  std::vector<int64_t> counts(steps.size());
  const auto [begin, end] = model.calls.RangeOf(thread);
  for (CallIndex call = begin; call < end; ++call) {
    const int64_t start_ns = model.calls.start_ns[call];
    if (model.threads[model.calls.thread[call]].process != process || model.calls.parent[call] != kNone) continue;
    if (model.ops[model.calls.op[call]].is_creation) continue;
    const auto after = std::upper_bound(steps.begin(), steps.end(), start_ns,
                                        [](int64_t ns, const Step* step) { return ns < step->start_ns; });
    if (after == steps.begin() || start_ns >= (*(after - 1))->end_ns) continue;
    ++sums.Of(PhaseAt(**(after - 1), start_ns)).calls;
    ++counts[static_cast<size_t>(after - 1 - steps.begin())];
  }
  for (int64_t count : counts) {
    sums.least_calls = std::min(sums.least_calls, count);
    sums.most_calls = std::max(sums.most_calls, count);
  }
}

PhasesSums SumPhases(const TraceModel& model, const StepGroup& group) {
  PhasesSums sums;
  for (const Step* step : group.steady) {
    int64_t rest_ns = step->end_ns - step->start_ns;
    for (const PhaseInterval& phase : step->phases) {
      sums.Of(phase.kind).total_ns += phase.end_ns - phase.start_ns;
      rest_ns -= phase.end_ns - phase.start_ns;
    }
    sums.Of(PhaseKind::kUnknown).total_ns += rest_ns;
  }
  for (const auto& [thread, steps] : ByThread(group)) CountCalls(model, group.process, steps, sums);
  return sums;
}

void AddLooks(const TraceModel& model, const LayerAnalysis& analysis, const StepGroup& group, PhasesSums& sums) {
  const std::vector<StepGroup> groups = {group};
  const StepDivision division(model, FoldedTime::Of(model, analysis), groups);
  for (const StateLook& look : analysis.Derived<StateLooks>(model).Of(group.process)) {
    if (const auto phase = division.PhaseAt(0, look.piece.start_ns)) sums.Of(*phase).looks.Add(look.sums);
  }
}

struct PhaseRow {
  int64_t pid;
  std::string thread, step;
  const char* phase;
  int64_t steps;
  int64_t total_ns;
  int64_t steady_ns = 0;         // of all phases; 0: no steady steps
  std::optional<int64_t> calls;  // in all steps
  LookSums looks = {};
};

TypedColumns<PhaseRow> PhasesColumns(const std::vector<StepGroup>& groups, bool has_looks) {
  TypedColumns<PhaseRow> columns = {
      {ProcessColumn(HasSeveralProcesses(groups)), &PhaseRow::pid},
      {TextColumn("thread", "Name and number, where threads repeat independently; else all."), &PhaseRow::thread},
      {As(Role::kKey,
          TextColumn("step",
                     "training, validation, inference; unknown if the direction of calls is not known. In brackets, "
                     "if there are several of a kind: the program's own range, the network, the batch.")),
       &PhaseRow::step},
      {As(Role::kKey,
          TextColumn("phase",
                     "other: outside of all phases; warm-up: the first steps, which are not in the other rows.")),
       &PhaseRow::phase},
      {NumberColumn("steps", "Steps that the row covers."), &PhaseRow::steps},
      {TimeColumn("time", "In a mean step; of warm-up: its mean step."),
       [](const PhaseRow& row) { return Mean(row.total_ns, row.steps); }},
      {PercentColumn("percent", Better::kLower, "Of the steady steps' time."),
       [](const PhaseRow& row) { return Percent(row.total_ns, row.steady_ns); }},
      {RealColumn("calls", "", Better::kLower, "Library calls in a mean step, without those inside others."),
       [](const PhaseRow& row) {
         return row.calls ? Cell(static_cast<double>(*row.calls) / static_cast<double>(row.steps)) : Cell();
       }},
      {As(Role::kWeight, TimeColumn("total_time", "Of all these steps: a kind's phases add up to their duration.")),
       &PhaseRow::total_ns},
  };
  if (has_looks) {
    columns.InsertAfter("percent", LookColumns().Of<PhaseRow>([](const PhaseRow& row) {
      return LookRow{row.looks, row.total_ns, row.steps};
    }));
  }
  columns.Find("thread")->detail = !HasThreads(groups);
  return columns;
}

void AddRows(const TraceModel& model, const LayerAnalysis& analysis, const StepGroup& group,
             const TypedColumns<PhaseRow>& columns, Table& table) {
  PhasesSums sums = SumPhases(model, group);
  if (!model.states.empty()) AddLooks(model, analysis, group, sums);
  const int64_t pid = model.processes[group.process].pid;
  const std::string thread = ThreadLabel(model, group.threads);
  const std::string kind = StepName(group.kind, group.sort);
  const auto steps = static_cast<int64_t>(group.steady.size());
  const int64_t whole_ns = DurationOf(group.steady);
  for (PhaseKind phase : kOrder) {
    const PhaseSums& sum = sums.Of(phase);
    if (sum.total_ns == 0 && sum.calls == 0) continue;
    AddRow(columns, {pid, thread, kind, PhaseKindName(phase), steps, sum.total_ns, whole_ns, sum.calls, sum.looks},
           &table);
  }
  if (sums.least_calls < sums.most_calls) {
    table.notes.push_back(absl::StrCat(ProcessLabel(model, group.process), ": ",
                                       SteadySteps(steps, group.kind, group.sort), " make ", sums.least_calls, " to ",
                                       sums.most_calls, " calls: numbers of calls are means."));
  }
  if (group.warm_up.empty()) return;
  const auto warm_up = static_cast<int64_t>(group.warm_up.size());
  AddRow(columns, {pid, thread, kind, "warm-up", warm_up, DurationOf(group.warm_up), 0, std::nullopt}, &table);
}

}  // namespace

absl::StatusOr<Table> PhasesTable(const TraceModel& model, const TableOptions& options) {
  const std::vector<StepGroup> groups = GroupSteps(options.analysis->steps());
  const TypedColumns<PhaseRow> columns = PhasesColumns(groups, !model.states.empty());
  Table table = NewTable("phases", "What a step is made of", columns);
  for (const StepGroup& group : groups) {
    AddRows(model, *options.analysis, group, columns, table);
    const std::string left_out = group.left_out.Sentence();
    if (left_out.empty()) continue;
    table.notes.push_back(absl::StrCat(ProcessLabel(model, group.process), ": ",
                                       SteadySteps(static_cast<int64_t>(group.steady.size()), group.kind, group.sort),
                                       " of ", group.left_out.all, ".", left_out));
  }
  if (!model.states.empty() && !groups.empty()) table.notes.push_back(LookNote());
  if (groups.empty()) table.notes.push_back("No steps were found.");
  return table;
}

}  // namespace dlhook::analyzer::tables
