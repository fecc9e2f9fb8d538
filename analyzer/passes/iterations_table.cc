// Table `iterations`: the repeating step of the program, one row a step.
#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/layers/iterations.h"
#include "analyzer/layers/phases.h"
#include "analyzer/layers/step_iterations.h"
#include "analyzer/passes/columns.h"
#include "analyzer/passes/pass.h"
#include "analyzer/passes/tables.h"

namespace dlhook::analyzer {
namespace {

std::vector<Column> Columns() {
  return {
      IntegerColumn("process", "", Better::kNeither, "Process id."),
      TextColumn("thread",
                 "Name and number of the thread, where threads repeat independently; else all."),
      IntegerColumn("index", "", Better::kNeither, "Number of the iteration, from 0."),
      TextColumn("phase",
                 "warm-up; steady: as most iterations are; other: evaluation, a smaller batch and the like."),
      TextColumn("kind", "training, validation, inference; unknown where the direction of calls isn't."),
      IntegerColumn("batch", "", Better::kNeither, "Samples in one pass, where shapes tell it."),
      IntegerColumn("start", "ns", Better::kNeither, "Since the run began."),
      IntegerColumn("duration", "ns", Better::kLower,
                    "From its first call to the next iteration's; of the last one: to the end of "
                    "its last call."),
      IntegerColumn("calls", "", Better::kLower,
                    "Calls that began in it, those inside other calls too."),
      IntegerColumn("creations", "", Better::kLower,
                    "oneDNN primitives prepared (seen at capture level 2)."),
      IntegerColumn("in_library", "ns", Better::kNeither,
                    "Time in which at least one call was active."),
      RealColumn("in_library_percent", "%", Better::kNeither,
                 "The same as a part of the duration."),
      IntegerColumn("launches", "", Better::kLower, "Kernels and CUDA graphs launched in it."),
      IntegerColumn("copies", "", Better::kLower, "Copies between host and GPU, or inside it."),
      IntegerColumn("copied", "bytes", Better::kLower, "Bytes of these copies."),
      Detail(IntegerColumn("micro_steps", "", Better::kNeither,
                           "Backward passes before the weights are updated (gradient accumulation).")),
      Detail(TextColumn("model", "Which network, where one alone ran.")),
      Detail(
          IntegerColumn("trials", "", Better::kLower, "Executions that only tried an algorithm.")),
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
         step.batch > 0 ? Cell(step.batch) : Cell(), iteration.start_ns - model.start_ns,
         iteration.duration_ns(), iteration.calls, iteration.creations, iteration.in_library_ns,
         Percent(iteration.in_library_ns, iteration.duration_ns()), gpu(iteration.launches),
         gpu(iteration.copies), gpu(iteration.copied_bytes),
         is_training ? Cell(int64_t{step.micro_steps}) : Cell(), step.model.empty() ? Cell() : Cell(step.model),
         gpu(iteration.trials)});
  }
}

std::string Name(const TraceModel& model, const IterationTrack& track) {
  std::string name = absl::StrCat("process ", ProcessId(model, track));
  if (track.thread != kNone) absl::StrAppend(&name, " thread ", ThreadLabel(model, track));
  return name;
}

std::string SteadyNote(const TraceModel& model, const IterationTrack& track) {
  const std::vector<int64_t> steady = track.Durations(Phase::kSteady);
  std::string note =
      absl::StrCat(Name(model, track), ": ", track.iterations.size(), " iterations, ",
                   track.Count(Phase::kWarmUp), " warm-up, ", track.Count(Phase::kSteady),
                   " steady, ", track.Count(Phase::kOther), " other");
  if (!steady.empty()) {
    const Quartiles quartiles = QuartilesOf(steady);
    absl::StrAppend(&note, "; steady median ", HumanTime(quartiles.median), ", quartiles ",
                    HumanTime(quartiles.lower), " to ", HumanTime(quartiles.upper));
  }
  return note + ".";
}

void AddNotes(const TraceModel& model, const IterationTrack& track, Table& table) {
  table.notes.push_back(SteadyNote(model, track));
  if (track.calls_before > 0) {
    table.notes.push_back(absl::StrCat(Name(model, track), ": ", track.calls_before,
                                       " calls before the first iteration."));
  }
  if (track.by_kind_only) {
    table.notes.push_back(
        absl::StrCat(Name(model, track),
                     ": shapes change from iteration to iteration; found by the order of "
                     "operations alone."));
  }
}

}  // namespace

absl::StatusOr<Table> IterationsTable(const TraceModel& model, const PassOptions& options) {
  Table table = NewTable("iterations", "The repeating step of the program", Columns());
  for (const StepTrack& steps : options.analysis->steps()) {
    const IterationTrack track = MeasureSteps(model, steps);
    AddRows(model, steps, track, table);
    AddNotes(model, track, table);
  }
  if (table.rows.empty())
    table.notes.push_back("No sequence of calls repeats often enough to be an iteration.");
  int64_t aggregated = 0;
  for (const AggregateRow& row : model.aggregates) aggregated += row.count;
  if (aggregated > 0) {
    table.notes.push_back(absl::StrCat(
        aggregated,
        " calls are known only as totals per op: they are in no iteration."));
  }
  return table;
}

}  // namespace dlhook::analyzer
