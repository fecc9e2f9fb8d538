// Table `accounting`: where the time of a step goes, to the nanosecond.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/analysis/step_division.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/activity_labels.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr size_t kPhases = 6;  // PhaseKind
// Framework ops and gaps below this part of the step share one row.
constexpr double kSmallPart = 0.005;

struct AccountingSums {
  int64_t total_ns = 0;
  std::array<int64_t, kPhases> by_phase_ns = {};
  void Add(const AccountingSums& other) {
    total_ns += other.total_ns;
    for (size_t i = 0; i < kPhases; ++i) by_phase_ns[i] += other.by_phase_ns[i];
  }
  int64_t Of(PhaseKind phase) const { return by_phase_ns[static_cast<size_t>(phase)]; }
};

// Kind of activity, and which one.
using Activity = std::pair<ActivityKind, std::string>;

// "block.0.attn, gpt.py:42 to 45": the code whose calls come before and after the gap.
std::string GapLabel(const Attribution& attribution, const UnseenGap& gap) {
  const LayerIndex layer = attribution.PlaceOfGap(gap).layer;
  const std::string module = layer == kNone ? "" : attribution.layers[layer].module;
  const std::string& line = attribution.LineOfGap(gap);
  return absl::StrCat(module, module.empty() || line.empty() ? "" : ", ", line);
}

Activity ActivityOf(const TraceModel& model, const Attribution& attribution, const TimePiece& piece) {
  switch (piece.kind) {
    case ActivityKind::kCall:
      return {piece.kind, KindLabel(model.ops[model.calls.op[piece.index]])};
    case ActivityKind::kWaiting:
      return {piece.kind, model.ops[model.calls.op[piece.index]].function};
    case ActivityKind::kScope:
      return {piece.kind, ScopeLabel(model, piece.index)};
    case ActivityKind::kNotSeen:
      return {piece.kind, GapLabel(attribution, piece.gap)};
    default:
      return {piece.kind, ""};
  }
}

class Accounting {
 public:
  Accounting(const TraceModel& model, const LayerAnalysis& analysis, const std::vector<StepGroup>& groups)
      : model_(model), attribution_(analysis.attribution()), sums_(groups.size()) {
    const FoldedTime& time = FoldedTime::Of(model, analysis);
    StepDivision(model, time, groups).Divide([&](size_t group, PhaseKind phase, const TimePiece& piece) {
      AccountingSums& sums = SumsOf(group, piece);
      sums.total_ns += piece.share_ns;
      sums.by_phase_ns[static_cast<size_t>(phase)] += piece.share_ns;
    });
  }

  const std::map<Activity, AccountingSums>& Of(size_t group) const { return sums_[group]; }

 private:
  // What tells activities apart without making their names.
  struct Key {
    size_t group;
    ActivityKind kind;
    uint32_t what;  // op of a call; name of a scope
    ScopeKind scope;
    StackIndex before, after;  // of a gap
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.group, key.kind, key.what, key.scope, key.before, key.after);
    }
  };

  Key KeyOf(size_t group, const TimePiece& piece) const {
    Key key = {group, piece.kind, kNone, ScopeKind::kUnknown, piece.gap.before, piece.gap.after};
    if (piece.kind == ActivityKind::kCall || piece.kind == ActivityKind::kWaiting) {
      key.what = model_.calls.op[piece.index];
    } else if (piece.kind == ActivityKind::kScope) {
      key.what = model_.scopes.look[piece.index].name;
      key.scope = model_.scopes.look[piece.index].kind;
    }
    return key;
  }

  AccountingSums& SumsOf(size_t group, const TimePiece& piece) {
    AccountingSums*& known = known_[KeyOf(group, piece)];
    if (known == nullptr) known = &sums_[group][ActivityOf(model_, attribution_, piece)];
    return *known;
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  absl::flat_hash_map<Key, AccountingSums*> known_;
  std::vector<std::map<Activity, AccountingSums>> sums_;
};

struct ActivityRow {
  int64_t pid;
  std::string step;
  const Activity& activity;
  const AccountingSums& sums;
  int64_t steps;
  int64_t whole_ns;  // of all steps
  Cell MeanOf(int64_t ns) const { return ns == 0 ? Cell() : Mean(ns, steps); }
};

TypedColumns<ActivityRow> AccountingColumns(const std::vector<StepGroup>& groups) {
  const auto time = [](std::string name, std::string explanation) {
    return IntegerColumn(std::move(name), "ns", Better::kLower, std::move(explanation));
  };
  const auto in_phase = [](PhaseKind phase) {
    return [phase](const ActivityRow& row) { return row.MeanOf(row.sums.Of(phase)); };
  };
  TypedColumns<ActivityRow> columns = {
      {IntegerColumn("process", "", Better::kNeither, "Process id."), &ActivityRow::pid},
      {As(Role::kKey,
          TextColumn("step", "training, validation, inference; unknown where the direction of calls isn't.")),
       &ActivityRow::step},
      {As(Role::kKey,
          TextColumn("activity",
                     "library: calls; framework: its own ops; not seen: native code or Python between them.")),
       [](const ActivityRow& row) { return ActivityName(row.activity.first); }},
      {As(Role::kKey, TextColumn("what",
                                 "Kind of call, name of the framework's op; of what is not seen the module and the "
                                 "lines that it lies between.")),
       [](const ActivityRow& row) { return KnownText(row.activity.second); }},
      {time("time", "Wall share in a mean steady step."),
       [](const ActivityRow& row) { return Mean(row.sums.total_ns, row.steps); }},
      {RealColumn("percent", "%", Better::kLower, "Of the step."),
       [](const ActivityRow& row) { return Percent(row.sums.total_ns, row.whole_ns); }},
      {As(Role::kPart,
          time("forward", "The part in the forward phase; where nothing is trained, in the network's pass.")),
       [](const ActivityRow& row) {
         return row.MeanOf(row.sums.Of(PhaseKind::kForward) + row.sums.Of(PhaseKind::kInference));
       }},
      {As(Role::kPart, time("backward", "The part in the backward phase.")), in_phase(PhaseKind::kBackward)},
      {As(Role::kPart, time("update", "The part while weights are updated and gradients zeroed.")),
       in_phase(PhaseKind::kUpdate)},
      {Detail(time("input", "The part while the program waits for its next batch.")), in_phase(PhaseKind::kInput)},
      {Detail(time("other", "The part in no phase.")), in_phase(PhaseKind::kUnknown)},
      {As(Role::kWeight,
          Detail(time("wall_share", "Of all steady steps together: these add up to their duration exactly."))),
       [](const ActivityRow& row) { return row.sums.total_ns; }},
  };
  columns.Find("process")->detail = !HasSeveralProcesses(groups);
  columns.Find("step")->detail = std::all_of(groups.begin(), groups.end(), [&](const StepGroup& group) {
    return group.kind == groups.front().kind && group.sort == groups.front().sort;
  });
  return columns;
}

using Line = std::pair<Activity, AccountingSums>;

// By time, unknown last; small framework ops share a row, and so do small gaps.
std::vector<Line> LinesOf(const std::map<Activity, AccountingSums>& activities, int64_t whole_ns) {
  std::vector<Line> lines;
  std::map<ActivityKind, std::pair<AccountingSums, int64_t>> small;  // and their number
  for (const auto& [activity, sums] : activities) {
    const bool is_small = static_cast<double>(sums.total_ns) < kSmallPart * static_cast<double>(whole_ns);
    if ((activity.first == ActivityKind::kScope || activity.first == ActivityKind::kNotSeen) && is_small) {
      small[activity.first].first.Add(sums);
      ++small[activity.first].second;
    } else {
      lines.push_back({activity, sums});
    }
  }
  for (const auto& [kind, others] : small) {
    lines.push_back({{kind, absl::StrCat("others (", others.second, ")")}, others.first});
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    const bool a_known = a.first.first != ActivityKind::kUnattributed;
    const bool b_known = b.first.first != ActivityKind::kUnattributed;
    return a_known != b_known ? a_known : a.second.total_ns > b.second.total_ns;
  });
  return lines;
}

void AddRows(const TraceModel& model, const StepGroup& group, const std::map<Activity, AccountingSums>& activities,
             const TypedColumns<ActivityRow>& columns, Table& table) {
  int64_t whole_ns = 0;
  for (const auto& [activity, sums] : activities) whole_ns += sums.total_ns;
  const auto steps = static_cast<int64_t>(group.steady.size());
  const int64_t pid = model.processes[group.process].pid;
  for (const auto& [activity, sums] : LinesOf(activities, whole_ns)) {
    AddRow(columns, {pid, StepName(group.kind, group.sort), activity, sums, steps, whole_ns}, &table);
  }
}

void AddNotes(const TraceModel& model, const StepGroup& group, const std::map<Activity, AccountingSums>& activities,
              Table& table) {
  int64_t whole_ns = 0, unattributed_ns = 0, not_seen_ns = 0;
  for (const auto& [activity, sums] : activities) {
    whole_ns += sums.total_ns;
    if (activity.first == ActivityKind::kUnattributed) unattributed_ns += sums.total_ns;
    if (activity.first == ActivityKind::kNotSeen) not_seen_ns += sums.total_ns;
  }
  const auto steps = static_cast<int64_t>(group.steady.size());
  table.notes.push_back(absl::StrCat(
      ProcessLabel(model, group.process), ": ", SteadySteps(steps, group.kind, group.sort), " of ",
      HumanTime(whole_ns / steps), " on average; in ", HumanTime((unattributed_ns + not_seen_ns) / steps),
      " of it no library call and no framework's op ran: ", HumanTime(not_seen_ns / steps),
      " not seen (native code or Python between two lines of the program), ", HumanTime(unattributed_ns / steps),
      " unattributed. The rows add up to it exactly.",
      group.overlaps
          ? " Steps of several threads overlap: this is the time in which any was under way, divided by their number."
          : "",
      group.threads.contains(kNone) ? ""
                                    : absl::StrCat(" Steps of ", ThreadLabel(model, group.threads),
                                                   ": what other threads did in that time is in these rows, too.")));
}

}  // namespace

absl::StatusOr<Table> AccountingTable(const TraceModel& model, const TableOptions& options) {
  const std::vector<StepGroup> groups = GroupSteps(options.analysis->steps());
  const TypedColumns<ActivityRow> columns = AccountingColumns(groups);
  Table table = NewTable("accounting", "Where the time of a step goes", columns);
  const Accounting accounting(model, *options.analysis, groups);
  for (size_t i = 0; i < groups.size(); ++i) {
    AddRows(model, groups[i], accounting.Of(i), columns, table);
    AddNotes(model, groups[i], accounting.Of(i), table);
  }
  if (groups.empty()) table.notes.push_back("No steps were found whose time could be accounted for.");
  return table;
}

}  // namespace dlhook::analyzer::tables
