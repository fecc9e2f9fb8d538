// Stacks of blocked threads, read at looks from outside.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/stacks/call_stacks.h"
#include "analyzer/stacks/shared_code.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline tables {
namespace {

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

const char* ColumnNameOf(ThreadsBy by) {
  return by == ThreadsBy::kFunction ? "function" : by == ThreadsBy::kLine ? "line" : "stack";
}

const char* ExplanationOf(ThreadsBy by) {
  switch (by) {
    case ThreadsBy::kFunction:
      return "Python function, or native function outside the C and C++ libraries, in which the thread was blocked.";
    case ThreadsBy::kLine:
      return "Line of the program itself that led there, else the innermost line that is known.";
    default:
      return "Where the thread was blocked, then its callers outwards; without the C and C++ libraries.";
  }
}

TypedColumns<PlaceRow> PlaceColumns(ThreadsBy by, bool has_processes) {
  return {
      {ProcessColumn(has_processes), &PlaceRow::pid},
      {As(Role::kKey, TextColumn(ColumnNameOf(by), ExplanationOf(by))), &PlaceRow::place},
      {As(Role::kKey, TextColumn("blocked_in", "The kind of system call, as in the table by threads.")),
       &PlaceRow::blocked_in},
      {As(Role::kWeight, IntegerColumn("blocked", "ns", Better::kNeither,
                                       "Estimated blocked time at this place, summed over threads.")),
       &PlaceRow::blocked_ns},
      {TextColumn("threads", "The thread, or how many there are."), &PlaceRow::threads},
  };
}

class Places {
 public:
  Places(const TraceModel& model, ThreadsBy by) : model_(model), by_(by), stacks_(model) {
    if (by == ThreadsBy::kLine) lines_ = ReadPythonPlaces(model);
  }

  const std::string& Of(const Wait& wait) {
    const auto [place, is_new] = known_.try_emplace({wait.frame, wait.python_stack});
    if (is_new) place->second = Find(wait);
    return place->second;
  }

 private:
  std::string Find(const Wait& wait) {
    if (by_ == ThreadsBy::kLine && wait.python_stack != kNone && lines_[wait.python_stack].file != kNone)
      return LineLabel(model_, lines_[wait.python_stack]);
    const auto entries = stacks_.OfSample(wait.frame, wait.python_stack);
    if (by_ == ThreadsBy::kStack) return StackOf(entries);
    const StackEntry* const entry = OwnEntry(entries);
    if (entry == nullptr) return kNotKnown;
    return by_ == ThreadsBy::kLine ? WithLine(*entry, false) : entry->function;
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
  const ThreadsBy by_;
  CallStacks stacks_;
  std::vector<PythonPlace> lines_;
  std::map<std::pair<FrameIndex, StackIndex>, std::string> known_;
};

std::string WordOf(BlockedIn blocked_in) {
  std::array<int64_t, kBlockedIns> found_ns = {};
  found_ns[static_cast<size_t>(blocked_in)] = 1;
  return BlockedInText(found_ns);
}

}  // namespace

Table ThreadWaitsTable(const TraceModel& model, ThreadsBy by) {
  Places places(model, by);
  std::map<PlaceKey, PlaceRow> rows;
  int64_t all_ns = 0, unknown_ns = 0;
  for (const Wait& wait : model.waits) {
    const int64_t pid = model.processes[model.threads[wait.thread].process].pid;
    const PlaceKey key = {pid, places.Of(wait), WordOf(wait.blocked_in)};
    PlaceRow& row = rows.try_emplace(key, PlaceRow{key, {}, "", 0}).first->second;
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
    table.notes.push_back(
        model.samples.empty()
            ? "Where threads were blocked is not known: record with dlhook run --sample, which reads their stacks from "
              "outside."
            : "No stack of a blocked thread was read: samples found none blocked of those that compute or make "
              "recorded "
              "calls, or the launcher may not read them (docs/waiting.md).");
  } else if (unknown_ns > 0) {
    table.notes.push_back(absl::StrCat(HumanTime(unknown_ns), " of ", HumanTime(all_ns),
                                       " have no place: the thread continued while its stack was read."));
  }
  const std::vector<std::string>& notes = model.native_symbols.notes;
  if (!rows.empty()) table.notes.insert(table.notes.end(), notes.begin(), notes.end());
  return table;
}

}  // namespace dlhook::analyzer::tables
