// Table `threads`: what each thread did: it ran, waited for a processor, or was blocked; in all, and in a mean step.
// Stacks of blocked threads, read at looks from outside.

#include "analyzer/calls/python_places.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/stacks/call_stacks.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kWholeRun[] = "whole run";
constexpr char kEnded[] = "[unsampled threads]";

struct ThreadRow {
  int64_t pid;
  std::string thread;
  std::string step;
  std::optional<int64_t> tid;
  int64_t steps;
  StateSums sums;
  Cell MeanOf(int64_t ns) const { return sums.IsTold() ? Mean(ns, steps) : Cell(); }
};

TypedColumns<ThreadRow> ThreadsColumns(bool has_processes) {
  return {
      {ProcessColumn(has_processes), &ThreadRow::pid},
      {As(Role::kKey, TextColumn("thread")),
       "Name and number; of threads without recorded calls name and the kernel's number.", &ThreadRow::thread},
      {Detail(NumberColumn("tid")), "The kernel's number of the thread.", &ThreadRow::tid},
      {As(Role::kKey, TextColumn("step")),
       "whole run: from the thread's beginning to its end; training, validation, inference: in a mean steady step, "
       "also of threads that have no steps of their own.",
       &ThreadRow::step},
      {NumberColumn("steps"), "Steps that the row covers.",
       [](const ThreadRow& row) { return row.step == kWholeRun ? Cell() : Cell(row.steps); }},
      {IntegerColumn("time", "ns", Better::kNeither),
       "Lifetime of the thread, or its part in the step. The next three add up to it.",
       [](const ThreadRow& row) { return row.sums.wall_ns > 0 ? Mean(row.sums.wall_ns, row.steps) : Cell(); }},
      {TimeColumn("running"), "It ran on a CPU. Not known where steps are shorter than the sampling interval.",
       [](const ThreadRow& row) {
         return row.thread == kEnded ? Cell(row.sums.running_ns) : row.MeanOf(row.sums.running_ns);
       }},
      {TimeColumn("no_processor"),
       "Runnable, waiting for a CPU: other threads or programs had the processors, or its quota of processor time was "
       "used up.",
       [](const ThreadRow& row) { return row.MeanOf(row.sums.queued_ns); }},
      {IntegerColumn("blocked", "ns", Better::kNeither),
       "The rest: it waited for something else, or was idle. Time without a processor counts here until the thread "
       "gets one.",
       [](const ThreadRow& row) { return row.MeanOf(std::max<int64_t>(row.sums.blocked_ns(), 0)); }},
      {TextColumn("blocked_in"),
       "What it was blocked in (thread-state samples), with shares: lock (or condition: the futex), poll (for files, "
       "pipes, sockets), read or write, sleep, child (waits for a process), page fault (or stopped).",
       [](const ThreadRow& row) { return KnownText(BlockedInText(row.sums.found_ns)); }},
  };
}

std::string NameOf(const TraceModel& model, const ThreadStates& states) {
  if (states.thread == kNone) return absl::StrCat(states.name, states.name.empty() ? "tid " : " tid ", states.tid);
  return ThreadLabel(model.threads[states.thread]);
}

// Steps that follow each other are one stretch: what is between two looks is then spread at its ends only.
IntervalSet TimeOf(const StepGroup& group) {
  std::vector<Interval> steps;
  for (const Step* step : group.steady) steps.push_back({step->start_ns, step->end_ns});
  return IntervalSet(std::move(steps));
}

std::vector<ThreadRow> RowsOf(const TraceModel& model, const std::vector<ThreadStates>& threads,
                              const std::vector<StepGroup>& groups) {
  std::vector<ThreadRow> rows;
  const auto add = [&](const ThreadStates& states, std::string step, int64_t steps, const StateSums& sums) {
    if (sums.wall_ns == 0) return;
    rows.push_back({model.processes[states.process].pid, NameOf(model, states), std::move(step), int64_t{states.tid},
                    steps, sums});
  };
  for (const ThreadStates& states : threads) {
    if (states.tid == 0) continue;
    add(states, kWholeRun, 1, states.until.back());
    for (const StepGroup& group : groups) {
      if (group.process != states.process) continue;
      StateSums sums;
      const IntervalSet times = TimeOf(group);
      for (const Interval& time : times.intervals()) sums.Add(states.In(time));
      add(states, StepName(group.kind, group.sort), std::ssize(group.steady), sums);
    }
  }
  return rows;
}

// What a process used beyond its threads' last readings.
void AddRests(const TraceModel& model, const std::vector<ThreadStates>& threads, std::vector<ThreadRow>& rows) {
  std::map<ProcessIndex, int64_t> told_ns;
  for (const ThreadStates& states : threads) {
    if (states.tid != 0) {
      told_ns[states.process] += states.until.back().running_ns;
      continue;
    }
    const int64_t rest_ns = states.until.back().running_ns - told_ns[states.process];
    if (rest_ns <= 0) continue;
    rows.push_back({model.processes[states.process].pid, kEnded, kWholeRun, std::nullopt, 1, {.running_ns = rest_ns}});
  }
}

constexpr char kNotKnown[] = "[not known]";
constexpr char kBetween[] = " < ";

struct PlaceKey {
  int64_t pid;
  std::string place;
  std::string blocked_in;
  auto operator<=>(const PlaceKey&) const = default;
};
struct PlaceRow : PlaceKey {
  std::set<ThreadIndex> of;
  std::string threads;
  int64_t blocked_ns = 0;
};

Column PlaceColumn(By by) {
  if (by == By::kFunction) {
    return TextColumn(
        "function",
        "Python function, or native function outside the C and C++ libraries, in which the thread was blocked.");
  }
  if (by == By::kLine) {
    return TextColumn("line", "Line of the program itself that led there, else the innermost line that is known.");
  }
  return TextColumn("stack",
                    "Where the thread was blocked, then its callers outwards; without the C and C++ libraries.");
}

TypedColumns<PlaceRow> PlaceColumns(By by, bool has_processes) {
  return {
      {ProcessColumn(has_processes), &PlaceRow::pid},
      {As(Role::kKey, PlaceColumn(by)), &PlaceRow::place},
      {As(Role::kKey, TextColumn("blocked_in")), "The kind of system call, as in the table by threads.",
       &PlaceRow::blocked_in},
      {As(Role::kWeight, IntegerColumn("blocked", "ns", Better::kNeither)),
       "Estimated blocked time at this place, summed over threads.", &PlaceRow::blocked_ns},
      {TextColumn("threads"), "The thread, or how many there are.", &PlaceRow::threads},
  };
}

class Places {
 public:
  Places(const TraceModel& model, By by) : model_(model), by_(by), stacks_(model) {
    if (by == By::kLine) lines_ = ReadPythonPlaces(model);
  }

  const std::string& Of(const Wait& wait) {
    const auto [place, is_new] = known_.try_emplace({wait.frame, wait.python_stack});
    if (is_new) place->second = Find(wait);
    return place->second;
  }

 private:
  std::string Find(const Wait& wait) {
    if (by_ == By::kLine && wait.python_stack != kNone && lines_[wait.python_stack].file != kNone)
      return LineLabel(model_, lines_[wait.python_stack]);
    const auto entries = stacks_.OfSample(wait.frame, wait.python_stack);
    if (by_ == By::kStack) return StackOf(entries);
    const StackEntry* const entry = OwnEntry(entries);
    if (entry == nullptr) return kNotKnown;
    return by_ == By::kLine ? WithLine(*entry, false) : entry->function;
  }

  // The innermost outside of what waits for whoever calls it.
  const StackEntry* OwnEntry(absl::Span<const StackEntryIndex> entries) const {
    const StackEntry* innermost = nullptr;
    for (const StackEntryIndex index : entries) {
      const StackEntry& entry = stacks_.entry(index);
      if (entry.kind == StackEntry::Kind::kCut) break;
      if (innermost == nullptr) innermost = &entry;
      if (!IsSharedCode(entry.object) && !entry.is_plumbing) return &entry;
    }
    return innermost;
  }

  static std::string WithLine(const StackEntry& entry, bool has_function) {
    if (entry.line == 0) return entry.function;
    const std::string line = absl::StrCat(BaseName(entry.file), ":", entry.line);
    return has_function ? absl::StrCat(entry.function, " (", line, ")") : line;
  }

  std::string StackOf(absl::Span<const StackEntryIndex> entries) const {
    std::vector<std::string> all, own;
    for (const StackEntryIndex index : entries) {
      const StackEntry& entry = stacks_.entry(index);
      all.push_back(WithLine(entry, true));
      if (!entry.is_plumbing && !IsSharedCode(entry.object)) own.push_back(all.back());
    }
    return all.empty() ? kNotKnown : absl::StrJoin(own.empty() ? all : own, kBetween);
  }

  const TraceModel& model_;
  const By by_;
  CallStacks stacks_;
  std::vector<PythonPlace> lines_;
  std::map<std::pair<FrameIndex, StackIndex>, std::string> known_;
};

std::string WordOf(BlockedIn blocked_in) {
  std::array<int64_t, kBlockedIns> found_ns = {};
  found_ns[static_cast<size_t>(blocked_in)] = 1;
  return BlockedInText(found_ns);
}

Table ThreadWaitsTable(const TraceModel& model, By by) {
  Places places(model, by);
  std::map<PlaceKey, PlaceRow> rows;
  int64_t all_ns = 0, unknown_ns = 0;
  for (const Wait& wait : model.waits) {
    const int64_t pid = model.processes[model.threads[wait.thread].process].pid;
    const PlaceKey key = {pid, places.Of(wait), WordOf(wait.blocked_in)};
    PlaceRow& row = GroupOf(key, rows);
    row.blocked_ns += wait.duration_ns;
    row.of.insert(wait.thread);
    all_ns += wait.duration_ns;
    if (wait.frame == kNone) unknown_ns += wait.duration_ns;
  }
  for (auto& [key, row] : rows) {
    row.threads =
        row.of.size() == 1 ? ThreadLabel(model.threads[*row.of.begin()]) : absl::StrCat(row.of.size(), " threads");
  }
  const auto order = ByWeight(rows, &PlaceRow::blocked_ns);
  Table table = NewTable("threads", "Where threads were blocked (thread-state samples)",
                         PlaceColumns(by, model.processes.size() > 1), order);
  if (rows.empty()) {
    table.notes.push_back(model.samples.empty()
                              ? "Where threads were blocked is not known: record with dlhook run --sample, which reads "
                                "their stacks from outside."
                              : "No stack of a blocked thread was read: samples found none blocked of those that "
                                "compute or make recorded calls, or the launcher may not read them (docs/waiting.md).");
  } else if (unknown_ns > 0) {
    table.Note(HumanTime(unknown_ns), " of ", HumanTime(all_ns),
               " have no place: the thread continued while its stack was read.");
  }
  const std::vector<std::string>& notes = model.native_symbols.notes;
  if (!rows.empty()) table.notes.insert(table.notes.end(), notes.begin(), notes.end());
  return table;
}

}  // namespace

absl::StatusOr<Table> ThreadsTable(const TraceModel& model, const TableOptions& options) {
  if (const By by = options.RowsOf("threads"); by != By::kThread) return ThreadWaitsTable(model, by);
  const std::vector<ThreadStates> threads = ReadThreadStates(model);
  const std::vector<StepGroup> groups = GroupSteps(options.analysis->steps());
  std::vector<ThreadRow> rows = RowsOf(model, threads, groups);
  AddRests(model, threads, rows);
  absl::c_stable_sort(rows, [](const ThreadRow& a, const ThreadRow& b) {
    const bool a_whole = a.step == kWholeRun, b_whole = b.step == kWholeRun;
    return a_whole != b_whole ? b_whole : a.sums.running_ns > b.sums.running_ns;
  });
  Table table = NewTable("threads", "Thread states: running, waiting for a CPU, blocked",
                         ThreadsColumns(model.processes.size() > 1), rows);
  if (rows.empty()) {
    table.Note(
        "Thread states were not sampled: `dlhook run` does that, from outside, if it has access to the program's "
        "processes; a preloaded library alone does not.");
  } else if (absl::c_any_of(rows, [](const ThreadRow& row) { return row.thread != kEnded && !row.sums.IsTold(); })) {
    table.Note(
        "Empty: too few steps follow each other without a pause, and they are shorter than the sampling interval "
        "(DLHOOK_COUNTERS=task-clock with DLHOOK_COUNTERS_MS=1 samples more often).");
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
