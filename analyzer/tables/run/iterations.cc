// Table `iterations`: the repeating step of the program, one row a step.
#include "analyzer/steps/iterations.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/steps/phases.h"
#include "analyzer/steps/step_iterations.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr size_t kMaxSortsNoted = 8;

std::vector<Column> Columns() {
  return {
      IntegerColumn("process", "", Better::kNeither, "Process id."),
      TextColumn("thread", "Name and number of the thread, where threads repeat independently; else all."),
      IntegerColumn("index", "", Better::kNeither, "Number of the step, from 0."),
      TextColumn("phase", "warm-up; steady: like most others; other: evaluation, a smaller batch and the like."),
      TextColumn("kind", "training, validation, inference; unknown where the direction of calls isn't."),
      IntegerColumn("batch", "", Better::kNeither,
                    "Samples in one pass, where shapes show it (of sequences these may be tokens)."),
      IntegerColumn("start", "ns", Better::kNeither, "Since the run began."),
      IntegerColumn("duration", "ns", Better::kLower,
                    "From its first call to the next step's; of the last one: to the end of "
                    "its last call."),
      IntegerColumn("calls", "", Better::kLower, "Calls that began in it, those inside other calls too."),
      IntegerColumn("creations", "", Better::kLower, "oneDNN primitives prepared (seen at capture level 2)."),
      IntegerColumn("in_library", "ns", Better::kNeither, "Time in which at least one call was active."),
      RealColumn("in_library_percent", "%", Better::kNeither, "The same as a part of the duration."),
      IntegerColumn("launches", "", Better::kLower, "Kernels and CUDA graphs launched in it."),
      IntegerColumn("copies", "", Better::kLower, "Copies between host and GPU, or inside it."),
      IntegerColumn("copied", "bytes", Better::kLower, "Bytes of these copies."),
      Detail(IntegerColumn("micro_steps", "", Better::kNeither,
                           "Backward passes before the weights are updated (gradient accumulation).")),
      Detail(TextColumn("model", "The network that was trained or ran, if it was only one.")),
      Detail(TextColumn(
          "step",
          "The kind, and in brackets what tells steps like it from others: the program's own range, the network, "
          "the batch.")),
      Detail(IntegerColumn("trials", "", Better::kLower, "Executions that only tried an algorithm.")),
  };
}

std::string ThreadLabel(const TraceModel& model, const IterationTrack& track) {
  if (track.thread == kNone) return "all";
  const ThreadData& thread = model.threads[track.thread];
  return absl::StrCat(thread.name, " ", thread.thread_id);
}

int64_t ProcessId(const TraceModel& model, const IterationTrack& track) {
  return model.processes[track.process].header.process().pid();
}

// A program that was not seen to use a GPU has no such numbers rather than zeros.
bool UsesGpu(const TraceModel& model) {
  return std::any_of(model.ops.begin(), model.ops.end(), [](const Op& op) { return op.on_gpu; });
}

void AddRows(const TraceModel& model, const StepTrack& steps, const IterationTrack& track, Table& table) {
  const bool uses_gpu = UsesGpu(model);
  const auto gpu = [&](int64_t count) { return uses_gpu ? Cell(count) : Cell(); };
  for (size_t i = 0; i < track.iterations.size(); ++i) {
    const Iteration& iteration = track.iterations[i];
    const Step& step = steps.steps[i];
    const bool is_training = step.kind == IterationKind::kTraining;
    table.rows.push_back(
        {ProcessId(model, track), ThreadLabel(model, track), static_cast<int64_t>(i),
         std::string(PhaseName(iteration.phase)), std::string(IterationKindName(step.kind)),
         step.batch > 0 ? Cell(step.batch) : Cell(), iteration.start_ns - model.start_ns, iteration.duration_ns(),
         iteration.calls, iteration.creations, iteration.in_library_ns,
         Percent(iteration.in_library_ns, iteration.duration_ns()), gpu(iteration.launches), gpu(iteration.copies),
         gpu(iteration.copied_bytes), is_training ? Cell(int64_t{step.micro_steps}) : Cell(),
         step.model.empty() ? Cell() : Cell(step.model), StepName(step.kind, step.sort), gpu(iteration.trials)});
  }
}

std::string Name(const TraceModel& model, const IterationTrack& track) {
  std::string name = absl::StrCat("process ", ProcessId(model, track));
  if (track.thread != kNone) absl::StrAppend(&name, " thread ", ThreadLabel(model, track));
  return name;
}

std::string Median(const std::vector<int64_t>& durations) {
  const Quartiles quartiles = QuartilesOf(durations);
  return absl::StrCat("median ", HumanTime(quartiles.median), ", quartiles ", HumanTime(quartiles.lower), " to ",
                      HumanTime(quartiles.upper));
}

// Steps of several sorts have a median each.
void AddSteadyNotes(const TraceModel& model, const StepTrack& steps, const IterationTrack& track, Table& table) {
  const auto durations = SteadyDurations(steps, track);
  const std::string counts =
      absl::StrCat(Name(model, track), ": ", track.iterations.size(), " steps, ", track.Count(Phase::kWarmUp),
                   " warm-up, ", track.Count(Phase::kSteady), " steady, ", track.Count(Phase::kOther), " other");
  if (durations.size() == 1) {
    table.notes.push_back(absl::StrCat(counts, "; steady ", Median(durations.begin()->second), "."));
    return;
  }
  table.notes.push_back(counts + ".");
  size_t noted = 0;
  for (const auto& [name, of_name] : durations) {
    if (++noted > kMaxSortsNoted) break;
    table.notes.push_back(
        absl::StrCat(Name(model, track), ": steady ", name, ": ", of_name.size(), ", ", Median(of_name), "."));
  }
  if (durations.size() > kMaxSortsNoted) {
    table.notes.push_back(
        absl::StrCat(durations.size() - kMaxSortsNoted, " more kinds of steps: see the table phases."));
  }
}

void AddNotes(const TraceModel& model, const StepTrack& steps, const IterationTrack& track, Table& table) {
  AddSteadyNotes(model, steps, track, table);
  if (track.calls_before > 0) {
    table.notes.push_back(absl::StrCat(Name(model, track), ": ", track.calls_before, " calls before the first step."));
  }
  if (track.by_kind_only) {
    table.notes.push_back(absl::StrCat(
        Name(model, track), ": shapes change from step to step; steps were found by the order of operations alone."));
  }
}

}  // namespace

absl::StatusOr<Table> IterationsTable(const TraceModel& model, const TableOptions& options) {
  Table table = NewTable("iterations", "The repeating step of the program", Columns());
  for (const StepTrack& steps : options.analysis->steps()) {
    const IterationTrack track = MeasureSteps(model, steps);
    AddRows(model, steps, track, table);
    AddNotes(model, steps, track, table);
  }
  if (table.rows.empty()) table.notes.push_back("No sequence of calls repeats often enough to be a step.");
  int64_t aggregated = 0;
  for (const AggregateRow& row : model.aggregates) aggregated += row.count;
  if (aggregated > 0) {
    table.notes.push_back(absl::StrCat(aggregated, " calls are known only as totals per op: they are in no step."));
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
