// Table `steps`: the steps of the program, one row per step.
//
// Table `phases`: a step's time by phase: input, forward, backward and update, by kind of step.

#include "analyzer/analysis/folded_time.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr size_t kMaxSortsNoted = 8;

struct StepRow {
  int64_t pid;
  std::string thread;
  size_t index;
  const MeasuredStep& measured;
  const Step& step;
  StateSums states;  // of its thread

  Cell Told(int64_t ns) const { return states.IsTold() ? Cell(std::max<int64_t>(ns, 0)) : Cell(); }
};

// For a program without visible GPU use, GPU columns are omitted rather than zero.
TypedColumns<StepRow> StepsColumns(int64_t start_ns, bool uses_gpu) {
  return {
      {NumberColumn("process"), "Process id.", &StepRow::pid},
      {TextColumn("thread"), "Name and number of the thread, where threads repeat independently; else all.",
       &StepRow::thread},
      {NumberColumn("index"), "Number of the step, from 0.", &StepRow::index},
      {TextColumn("phase"), "warm-up; steady: like most others; other: evaluation, a smaller batch and the like.",
       [](const StepRow& row) { return std::string(PhaseName(row.measured.phase)); }},
      {TextColumn("kind"), "training, validation, inference; unknown if the direction of the calls is not known.",
       [](const StepRow& row) { return std::string(StepKindName(row.step.kind)); }},
      {NumberColumn("batch"),
       "Samples in one pass (of several: in the first), where shapes show it (of sequences these may be tokens).",
       [](const StepRow& row) { return row.step.batch > 0 ? Cell(row.step.batch) : Cell(); }},
      {IntegerColumn("start", "ns", Better::kNeither), "Since the run began.",
       [start_ns](const StepRow& row) { return row.measured.start_ns - start_ns; }},
      {TimeColumn("duration"), "From its first call to the next step's; of the last one: to the end of its last call.",
       [](const StepRow& row) { return row.measured.duration_ns(); }},
      {IntegerColumn("calls", "", Better::kLower), "Calls that began in it, those inside other calls too.",
       [](const StepRow& row) { return row.measured.calls; }},
      {IntegerColumn("creations", "", Better::kLower), "oneDNN primitives prepared (seen at capture level 2).",
       [](const StepRow& row) { return row.measured.creations; }},
      {IntegerColumn("in_library", "ns", Better::kNeither), "Time in which at least one call was active.",
       [](const StepRow& row) { return row.measured.in_library_ns; }},
      {PercentColumn("in_library_percent", Better::kNeither), "The same as a part of the duration.",
       [](const StepRow& row) { return Percent(row.measured.in_library_ns, row.measured.duration_ns()); }},
      {IntegerColumn("launches", "", Better::kLower), "Kernels and CUDA graphs launched in it.",
       [uses_gpu](const StepRow& row) { return uses_gpu ? Cell(row.measured.launches) : Cell(); }},
      {IntegerColumn("copies", "", Better::kLower), "Copies between host and GPU, or inside it.",
       [uses_gpu](const StepRow& row) { return uses_gpu ? Cell(row.measured.copies) : Cell(); }},
      {IntegerColumn("copied", "bytes", Better::kLower), "Bytes of these copies.",
       [uses_gpu](const StepRow& row) { return uses_gpu ? Cell(row.measured.copied_bytes) : Cell(); }},
      {Detail(NumberColumn("micro_steps")), "Backward passes before the weights are updated (gradient accumulation).",
       [](const StepRow& row) {
         return row.step.kind == StepKind::kTraining ? Cell(int64_t{row.step.micro_steps}) : Cell();
       }},
      {Detail(TextColumn("model")), "The network that was trained or run, if only one.",
       [](const StepRow& row) { return KnownText(row.step.model); }},
      {Detail(TextColumn("step")),
       "The kind; in brackets, if there are several of a kind: the program's own range, the network, the batch.",
       [](const StepRow& row) { return StepName(row.step.kind, row.step.sort); }},
      {Detail(TextColumn("left_out")),
       "Why it is in no mean: warm-up, unlike the others, not recorded, slow (kept for it), the last, much longer.",
       [](const StepRow& row) { return KnownText(LeftOutName(row.step.left_out)); }},
      {Detail(IntegerColumn("trials", "", Better::kLower)), "Executions that only tried an algorithm.",
       [uses_gpu](const StepRow& row) { return uses_gpu ? Cell(row.measured.trials) : Cell(); }},
      {Detail(IntegerColumn("running", "ns", Better::kNeither)),
       "Its thread (of a process, the first) ran on a CPU. This and the next two: not known of steps that are not much "
       "longer than the sampling interval (table threads).",
       [](const StepRow& row) { return row.Told(row.states.running_ns); }},
      {Detail(TimeColumn("no_processor")), "The thread was runnable, waiting for a CPU.",
       [](const StepRow& row) { return row.Told(row.states.queued_ns); }},
      {Detail(IntegerColumn("blocked", "ns", Better::kNeither)), "The rest: the thread was blocked.",
       [](const StepRow& row) { return row.Told(row.states.blocked_ns()); }},
  };
}

int64_t ProcessId(const TraceModel& model, const MeasuredTrack& track) { return model.processes[track.process].pid; }

std::string Name(const TraceModel& model, const MeasuredTrack& track) {
  std::string name = absl::StrCat("process ", ProcessId(model, track));
  if (track.thread != kNone) absl::StrAppend(&name, " thread ", ThreadLabel(model, {track.thread}));
  return name;
}

// Each sort of steps has its own median.
void AddSortNotes(const TraceModel& model, const StepTrack& steps, const MeasuredTrack& track, Table& table) {
  const std::string name = Name(model, track);
  const std::vector<StepTrack> own = {steps};
  size_t sorts = 0;
  for (const StepGroup& group : GroupSteps(own)) {
    if (++sorts > kMaxSortsNoted) continue;
    std::vector<int64_t> durations;
    for (const Step* step : group.steady) durations.push_back(step->end_ns - step->start_ns);
    const Quartiles quartiles = QuartilesOf(durations);
    table.Note(name, ": ", SteadySteps(std::ssize(durations), group.kind, group.sort), " of ", group.left_out.all,
               ", median ", HumanTime(quartiles.median), ", quartiles ", HumanTime(quartiles.lower), " to ",
               HumanTime(quartiles.upper), ".", group.left_out.Sentence());
  }
  if (sorts > kMaxSortsNoted) {
    table.Note(sorts - kMaxSortsNoted, " more kinds of steps: see the table phases.");
  }
}

void AddNotes(const TraceModel& model, const StepTrack& steps, const MeasuredTrack& track, Table& table) {
  AddSortNotes(model, steps, track, table);
  if (track.calls_before > 0) {
    table.Note(Name(model, track), ": ", track.calls_before, " calls before the first step.");
  }
  if (track.by_kind_only) {
    table.Note(Name(model, track),
               ": shapes change from step to step; steps were found by the order of operations alone.");
  }
}

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
    const size_t step = StepAt(steps, start_ns);
    if (step == kNone) continue;
    ++sums.Of(steps[step]->PhaseAt(start_ns)).calls;
    ++counts[step];
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
      {TextColumn("thread"), "Name and number, where threads repeat independently; else all.", &PhaseRow::thread},
      {As(Role::kKey, TextColumn("step")),
       "training, validation, inference; unknown if the direction of calls is not known. In brackets, if there are "
       "several of a kind: the program's own range, the network, the batch.",
       &PhaseRow::step},
      {As(Role::kKey, TextColumn("phase")),
       "other: outside of all phases; warm-up: the first steps, which are not in the other rows.", &PhaseRow::phase},
      {NumberColumn("steps"), "Steps that the row covers.", &PhaseRow::steps},
      {TimeColumn("time"), "In a mean step; of warm-up: its mean step.",
       [](const PhaseRow& row) { return Mean(row.total_ns, row.steps); }},
      {PercentColumn("percent", Better::kLower), "Of the steady steps' time.",
       [](const PhaseRow& row) { return Percent(row.total_ns, row.steady_ns); }},
      {RealColumn("calls", "", Better::kLower), "Library calls in a mean step, without those inside others.",
       [](const PhaseRow& row) {
         return row.calls ? Cell(static_cast<double>(*row.calls) / static_cast<double>(row.steps)) : Cell();
       }},
      {As(Role::kWeight, TimeColumn("total_time")), "Of all these steps: a kind's phases add up to their duration.",
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
  const auto steps = std::ssize(group.steady);
  const int64_t whole_ns = DurationOf(group.steady);
  for (PhaseKind phase : kOrder) {
    const PhaseSums& sum = sums.Of(phase);
    if (sum.total_ns == 0 && sum.calls == 0) continue;
    AddRow(columns, {pid, thread, kind, PhaseKindName(phase), steps, sum.total_ns, whole_ns, sum.calls, sum.looks},
           &table);
  }
  if (sums.least_calls < sums.most_calls) {
    table.Note(ProcessLabel(model, group.process), ": ", SteadySteps(steps, group.kind, group.sort), " make ",
               sums.least_calls, " to ", sums.most_calls, " calls: numbers of calls are means.");
  }
  if (group.warm_up.empty()) return;
  const auto warm_up = std::ssize(group.warm_up);
  AddRow(columns, {pid, thread, kind, "warm-up", warm_up, DurationOf(group.warm_up), 0, std::nullopt}, &table);
}

}  // namespace

absl::StatusOr<Table> StepsTable(const TraceModel& model, const TableOptions& options) {
  const TypedColumns<StepRow> columns = StepsColumns(model.start_ns, model.UsesGpu());
  Table table = NewTable("steps", "The steps of the program", columns);
  const std::vector<ThreadStates> threads = ReadThreadStates(model);
  size_t all = 0, untold = 0;
  for (const StepTrack& steps : options.analysis->steps()) {
    const MeasuredTrack track = MeasureSteps(model, steps);
    const ThreadStates* const states = StatesOf(model, threads, steps);
    all += track.steps.size();
    table.rows.reserve(std::min(all, options.first_rows.value_or(all)));
    for (size_t i = 0; i < track.steps.size() && table.rows.size() < options.first_rows.value_or(all); ++i) {
      StepRow row = {
          ProcessId(model, track), ThreadLabel(model, {track.thread}), i, track.steps[i], steps.steps[i], {}};
      if (states != nullptr) row.states = states->In({row.measured.start_ns, row.measured.end_ns});
      untold += states != nullptr && !row.states.IsTold();
      AddRow(columns, row, &table);
    }
    AddNotes(model, steps, track, table);
  }
  if (untold > 0) {
    table.Note("What the thread did in ", untold, " single steps (running, no_processor, blocked) is ",
               "not known: these steps are shorter than the sampling interval; the table ",
               "threads has the mean step.");
  }
  if (table.rows.empty()) table.Note("No sequence of calls repeats often enough to be a step.");
  int64_t aggregated = 0;
  for (const AggregateRow& row : model.aggregates) aggregated += row.count;
  if (aggregated > 0) {
    table.Note(aggregated, " calls are known only as totals per op: they are in no step.");
  }
  NoteRowsLeftOut(all, &table);
  return table;
}

absl::StatusOr<Table> PhasesTable(const TraceModel& model, const TableOptions& options) {
  const std::vector<StepGroup> groups = GroupSteps(options.analysis->steps());
  const TypedColumns<PhaseRow> columns = PhasesColumns(groups, !model.states.empty());
  Table table = NewTable("phases", "What a step is made of", columns);
  for (const StepGroup& group : groups) {
    AddRows(model, *options.analysis, group, columns, table);
    const std::string left_out = group.left_out.Sentence();
    if (left_out.empty()) continue;
    table.Note(ProcessLabel(model, group.process), ": ", SteadySteps(std::ssize(group.steady), group.kind, group.sort),
               " of ", group.left_out.all, ".", left_out);
  }
  if (!model.states.empty() && !groups.empty()) table.notes.push_back(LookNote());
  if (groups.empty()) table.Note("No steps were found.");
  return table;
}

}  // namespace dlhook::analyzer::tables
