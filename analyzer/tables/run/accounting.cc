// Table `accounting`: where the time of a step goes, to the nanosecond.

#include "analyzer/analysis/folded_time.h"
#include "analyzer/analysis/sample_places.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/sample_split.h"
#include "analyzer/time/thread_activity.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr size_t kPhases = 6;  // PhaseKind
// Framework ops and gaps below this part of the step share one row.
constexpr double kSmallPart = 0.005;
constexpr char kSampled[] = "sampled";

struct AccountingSums {
  int64_t total_ns = 0;
  std::array<int64_t, kPhases> by_phase_ns = {};
  SampleSums samples = {};      // by place, of time that only samples tell of
  int64_t samples_of_part = 0;  // of one that samples tell apart
  LookSums looks = {};

  void Add(const AccountingSums& other) {
    total_ns += other.total_ns;
    for (size_t i = 0; i < kPhases; ++i) by_phase_ns[i] += other.by_phase_ns[i];
    AddTo(other.samples, samples);
    samples_of_part += other.samples_of_part;
    looks.Add(other.looks);
  }
  int64_t Of(PhaseKind phase) const { return by_phase_ns[static_cast<size_t>(phase)]; }

  // Takes this part out, the same part of each phase. `is_all`: what is left.
  AccountingSums TakePart(const SamplePart& part, bool is_all) {
    AccountingSums taken = {.samples_of_part = part.samples};
    const double share = static_cast<double>(part.ns) / static_cast<double>(std::max<int64_t>(total_ns, 1));
    for (size_t i = 0; i < kPhases; ++i) {
      const auto ns = static_cast<int64_t>(std::min(share, 1.0) * static_cast<double>(by_phase_ns[i]));
      taken.by_phase_ns[i] = is_all ? by_phase_ns[i] : ns;
      by_phase_ns[i] -= taken.by_phase_ns[i];
      taken.total_ns += taken.by_phase_ns[i];
    }
    total_ns -= taken.total_ns;
    return taken;
  }
};

struct Activity {
  ActivityKind kind = ActivityKind::kUnattributed;
  std::string what;         // which one
  bool is_sampled = false;  // known from samples
  auto operator<=>(const Activity&) const = default;
};
using Lines = std::map<Activity, AccountingSums>;

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
      return {IsOwnCode(model, piece.index) ? ActivityKind::kNotSeen : piece.kind, ScopeLabel(model, piece.index)};
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
    if (!model.samples.empty()) AddSamples(analysis, groups, StepDivision(model, time, groups));
    if (!model.states.empty()) AddLooks(analysis, groups, StepDivision(model, time, groups));
  }

  const Lines& Of(size_t group) const { return sums_[group]; }

 private:
  void AddSamples(const LayerAnalysis& analysis, const std::vector<StepGroup>& groups, const StepDivision& division) {
    const auto& samples = analysis.Derived<GapSamples>(model_);
    const auto& places = analysis.Derived<SamplePlaces>(model_);
    for (size_t group = 0; group < groups.size(); ++group) {
      for (const GapSample& at : samples.Of(groups[group].process)) {
        if (!division.PhaseAt(group, at.piece.start_ns)) continue;
        SumsOf(group, at.piece).samples[places.Of(at.sample)].Add(SumOfOne(model_.samples.cpu_ns[at.sample]));
      }
    }
  }

  void AddLooks(const LayerAnalysis& analysis, const std::vector<StepGroup>& groups, const StepDivision& division) {
    const auto& looks = analysis.Derived<StateLooks>(model_);
    for (size_t group = 0; group < groups.size(); ++group) {
      for (const StateLook& look : looks.Of(groups[group].process)) {
        if (division.PhaseAt(group, look.piece.start_ns)) SumsOf(group, look.piece).looks.Add(look.sums);
      }
    }
  }

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
  std::vector<Lines> sums_;
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

TypedColumns<ActivityRow> AccountingColumns(const std::vector<StepGroup>& groups, const TraceModel& model) {
  const auto in_phase = [](PhaseKind phase) {
    return [phase](const ActivityRow& row) { return row.MeanOf(row.sums.Of(phase)); };
  };
  TypedColumns<ActivityRow> columns = {
      {ProcessColumn(HasSeveralProcesses(groups)), &ActivityRow::pid},
      {As(Role::kKey, TextColumn("step")),
       "training, validation, inference; unknown if the direction of the calls is not known.", &ActivityRow::step},
      {As(Role::kKey, TextColumn("activity")),
       "library: calls; framework: its own ops; not seen: native code or Python between them; sampled: the same, "
       "attributed by samples.",
       [](const ActivityRow& row) {
         const bool by_samples = row.activity.is_sampled && row.activity.kind == ActivityKind::kNotSeen;
         return by_samples ? kSampled : ActivityName(row.activity.kind);
       }},
      {As(Role::kKey, TextColumn("what")),
       "Kind of call, name of the framework's op; of what is not seen the module and the lines that it lies between.",
       [](const ActivityRow& row) { return KnownText(row.activity.what); }},
      {TimeColumn("time"), "Wall share in a mean steady step.",
       [](const ActivityRow& row) { return Mean(row.sums.total_ns, row.steps); }},
      {PercentColumn("percent", Better::kLower), "Of the step.",
       [](const ActivityRow& row) { return Percent(row.sums.total_ns, row.whole_ns); }},
      {As(Role::kPart, TimeColumn("forward")),
       "The part in the forward phase; where nothing is trained, in the network's pass.",
       [](const ActivityRow& row) {
         return row.MeanOf(row.sums.Of(PhaseKind::kForward) + row.sums.Of(PhaseKind::kInference));
       }},
      {As(Role::kPart, TimeColumn("backward")), "The part in the backward phase.", in_phase(PhaseKind::kBackward)},
      {As(Role::kPart, TimeColumn("update")), "The part while weights are updated and gradients zeroed.",
       in_phase(PhaseKind::kUpdate)},
      {Detail(TimeColumn("input")), "The part while the program waits for its next batch.",
       in_phase(PhaseKind::kInput)},
      {Detail(TimeColumn("other")), "The part in no phase.", in_phase(PhaseKind::kUnknown)},
      {As(Role::kWeight, Detail(TimeColumn("wall_share"))),
       "Of all steady steps together: these add up to their duration exactly.",
       [](const ActivityRow& row) { return row.sums.total_ns; }},
  };
  if (!model.states.empty()) {
    columns.InsertAfter("update", LookColumns().Of<ActivityRow>([](const ActivityRow& row) {
      return LookRow{row.sums.looks, row.sums.total_ns, row.steps};
    }));
  }
  if (!model.samples.empty()) {
    columns.Add({NumberColumn("samples"), "Number of CPU-time samples behind the row.", [](const ActivityRow& row) {
                   return row.activity.is_sampled ? Cell(row.sums.samples_of_part) : Cell();
                 }});
  }
  columns.Find("step")->detail = absl::c_all_of(groups, [&](const StepGroup& group) {
    return group.kind == groups.front().kind && group.sort == groups.front().sort;
  });
  return columns;
}

using Line = std::pair<Activity, AccountingSums>;

bool IsSmall(const AccountingSums& sums, int64_t whole_ns) {
  return static_cast<double>(sums.total_ns) < kSmallPart * static_cast<double>(whole_ns);
}

// Small framework ops share a row, and so do small gaps; `is_sampled`: or small parts that samples tell of.
Lines JoinSmall(const Lines& activities, int64_t whole_ns, bool is_sampled) {
  Lines lines;
  std::map<ActivityKind, std::pair<AccountingSums, int64_t>> small;  // and their number
  for (const auto& [activity, sums] : activities) {
    const bool may_join = activity.kind == ActivityKind::kScope || activity.kind == ActivityKind::kNotSeen;
    if (may_join && activity.is_sampled == is_sampled && IsSmall(sums, whole_ns)) {
      small[activity.kind].first.Add(sums);
      ++small[activity.kind].second;
    } else {
      lines.emplace(activity, sums);
    }
  }
  for (const auto& [kind, others] : small) {
    lines[{kind, absl::StrCat("others (", others.second, ")"), is_sampled}].Add(others.first);
  }
  return lines;
}

// Divides lines by the samples in them.
Lines DivideBySamples(const Lines& activities, const SamplePlaces& places) {
  Lines lines;
  for (const auto& [activity, all] : activities) {
    const SampleSplit split = SplitBySamples(all.total_ns, places.Joined(all.samples));
    AccountingSums rest = all;
    if (!split.parts.empty()) rest.looks.running_ns = 0;  // it is not computing
    for (const SamplePart& part : split.parts) {
      const bool is_all = split.rest_ns == 0 && &part == &split.parts.back();
      const bool is_input = activity.kind == ActivityKind::kDataLoading;
      lines[{is_input ? activity.kind : ActivityKind::kNotSeen, places.name(part.place), true}].Add(
          rest.TakePart(part, is_all));
    }
    Activity left = activity;
    if (!split.parts.empty()) absl::StrAppend(&left.what, left.what.empty() ? "" : ", ", kNotComputing);
    if (split.parts.empty() || rest.total_ns > 0) lines[left].Add(rest);
  }
  return lines;
}

// By time, unknown last.
std::vector<Line> InOrder(const Lines& activities) {
  std::vector<Line> lines(activities.begin(), activities.end());
  absl::c_stable_sort(lines, [](const Line& a, const Line& b) {
    const bool a_known = a.first.kind != ActivityKind::kUnattributed;
    const bool b_known = b.first.kind != ActivityKind::kUnattributed;
    return a_known != b_known ? a_known : a.second.total_ns > b.second.total_ns;
  });
  return lines;
}

int64_t TimeOf(const Lines& lines, const std::function<bool(const Activity&)>& is_in) {
  int64_t sum_ns = 0;
  for (const auto& [activity, sums] : lines) sum_ns += is_in(activity) ? sums.total_ns : 0;
  return sum_ns;
}

void AddRows(const TraceModel& model, const StepGroup& group, const Lines& lines,
             const TypedColumns<ActivityRow>& columns, int64_t whole_ns, Table& table) {
  const auto steps = std::ssize(group.steady);
  const int64_t pid = model.processes[group.process].pid;
  for (const auto& [activity, sums] : InOrder(lines)) {
    AddRow(columns, {pid, StepName(group.kind, group.sort), activity, sums, steps, whole_ns}, &table);
  }
}

void AddNotes(const TraceModel& model, const StepGroup& group, const Lines& activities, int64_t whole_ns,
              Table& table) {
  const auto of_kind = [&](ActivityKind kind) {
    return TimeOf(activities, [kind](const Activity& activity) { return activity.kind == kind; });
  };
  const int64_t unattributed_ns = of_kind(ActivityKind::kUnattributed), not_seen_ns = of_kind(ActivityKind::kNotSeen);
  const auto steps = std::ssize(group.steady);
  table.Note(
      ProcessLabel(model, group.process), ": ", SteadySteps(steps, group.kind, group.sort), " of ",
      HumanTime(whole_ns / steps), " on average; in ", HumanTime((unattributed_ns + not_seen_ns) / steps),
      " of it no library call and no framework's op ran: ", HumanTime(not_seen_ns / steps),
      " not seen (native code or Python between two lines of the program), ", HumanTime(unattributed_ns / steps),
      " unattributed. The rows add up to it exactly.", group.left_out.Sentence(),
      group.overlaps
          ? " Steps of several threads overlap: this is the time in which any was under way, divided by their number."
          : "",
      group.threads.contains(kNone) ? ""
                                    : absl::StrCat(" Steps of ", ThreadLabel(model, group.threads),
                                                   ": what other threads did in that time is in these rows, too."));
}

void AddNotesOfSamples(const StepGroup& group, const Lines& lines, Table& table) {
  const int64_t sampled_ns = TimeOf(lines, [](const Activity& activity) { return activity.is_sampled; });
  if (sampled_ns == 0) return;
  const int64_t idle_ns =
      TimeOf(lines, [](const Activity& activity) { return absl::EndsWith(activity.what, kNotComputing); });
  const auto steps = std::ssize(group.steady);
  table.Note("Samples tell whose code computed in ", HumanTime(sampled_ns / steps),
             " of this: time of a row with n samples is ", "uncertain by about 1 / sqrt(n) of it. ",
             idle_ns == 0
                 ? ""
                 : absl::StrCat("Not computing, ", HumanTime(idle_ns / steps), ": no thread used a processor; they ",
                                "waited, for one or for something else (or longer, where several computed at once). "),
             "Time with fewer than ", kFewestOfRow, " samples stays as it is.");
}

}  // namespace

absl::StatusOr<Table> AccountingTable(const TraceModel& model, const TableOptions& options) {
  std::vector<StepGroup> groups = GroupSteps(options.analysis->steps());
  std::vector<Step> whole_run;
  const bool has_steps = !groups.empty();
  if (!has_steps && !model.samples.empty()) groups = WholeRun(model, &whole_run);
  const TypedColumns<ActivityRow> columns = AccountingColumns(groups, model);
  Table table = NewTable("accounting", "Where the time of a step goes", columns);
  const Accounting accounting(model, *options.analysis, groups);
  for (size_t i = 0; i < groups.size(); ++i) {
    const Lines& activities = accounting.Of(i);
    const int64_t whole_ns = TimeOf(activities, [](const Activity&) { return true; });
    Lines lines = JoinSmall(activities, whole_ns, /*is_sampled=*/false);
    if (!model.samples.empty()) {
      const auto& places = options.analysis->Derived<SamplePlaces>(model);
      lines = JoinSmall(DivideBySamples(lines, places), whole_ns, /*is_sampled=*/true);
    }
    AddRows(model, groups[i], lines, columns, whole_ns, table);
    if (has_steps) AddNotes(model, groups[i], activities, whole_ns, table);
    AddNotesOfSamples(groups[i], lines, table);
  }
  if (!model.states.empty()) table.notes.push_back(LookNote());
  if (!has_steps) {
    table.notes.push_back(groups.empty() ? "No steps with known time were found."
                                         : "No repeating step was found: the time is that of the whole run.");
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
