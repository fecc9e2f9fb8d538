// See replay_table.h.
#include "analyzer/whatif/replay_table.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/tables/columns.h"
#include "analyzer/whatif/try_table.h"

namespace dlhook::analyzer::inline whatif {
namespace {

bool IsDecided(const ReplayTried& variant) {
  return variant.outcome == Outcome::kFaster || variant.outcome == Outcome::kSlower;
}

// Null: none was measured. One that is shown to be faster goes before others.
const ReplayTried* BestOther(const Replayed& replayed) {
  const ReplayTried* best = nullptr;
  const auto rank = [](const ReplayTried& variant) {
    return std::pair(variant.outcome == Outcome::kFaster, variant.speed.value);
  };
  for (const ReplayTried& variant : replayed.tried) {
    if (!variant.ns.empty() && (best == nullptr || rank(variant) > rank(*best))) best = &variant;
  }
  return best;
}

// Comparable with the time in the run: of the primitive, where the library tells it.
Bounds AloneOf(const ReplayTimes& times) { return BoundsOf(times.library_ns.empty() ? times.ns : times.library_ns); }

struct Row {
  const ReplayedRun* run;
  const Replayed* replayed;
  const ReplayTried* variant;  // null: none

  std::optional<double> GainPercent() const {
    if (variant == nullptr || !IsDecided(*variant) || run->step_ns <= 0) return std::nullopt;
    return 100 * replayed->GainNs(*variant) / run->step_ns;
  }
};

std::string MarkedName(const ReplayVariant& variant) {
  return absl::StrCat(variant.name, variant.changes_numerics ? " (changes numerics)" : "");
}

TypedColumns<Row> ProblemColumns() {
  return {
      {TextColumn("layers", "The layers that it belongs to."),
       [](const Row& row) { return KnownText(row.replayed->problem.layers); }},
      {TextColumn("kind", "The primitive, and its direction."),
       [](const Row& row) { return KnownText(row.replayed->problem.kind); }},
      {Detail(TextColumn("problem", "Its size, as the library states it.")),
       [](const Row& row) { return KnownText(row.replayed->problem.problem); }},
      {Detail(TextColumn("types", "Data types.")),
       [](const Row& row) { return KnownText(row.replayed->problem.types); }},
  };
}

TypedColumns<Row> VariantColumns() {
  return {
      {RealColumn("times_as_fast", "", Better::kHigher,
                  "Its speed relative to the problem as it ran, by paired rounds, with what the framework does around "
                  "the library's call."),
       [](const Row& row) { return row.variant == nullptr ? Cell() : Cell(row.variant->speed.value); }},
      {RealColumn("low", "", Better::kHigher, "Lower bound of times_as_fast, of all variants and rounds together."),
       [](const Row& row) { return row.variant == nullptr ? Cell() : ToCell(row.variant->speed.low); }},
      {RealColumn("high", "", Better::kHigher, "Upper bound."),
       [](const Row& row) { return row.variant == nullptr ? Cell() : ToCell(row.variant->speed.high); }},
      {TextColumn("outcome", "faster, slower, no gain (below 3 %), not decided, failed."),
       [](const Row& row) { return row.variant == nullptr ? Cell() : Cell(OutcomeName(row.variant->outcome)); }},
      {RealColumn("gain", "%", Better::kHigher,
                  "What a step would gain: of the op's share in it, the part that it is faster. Below 0: lost."),
       &Row::GainPercent},
  };
}

TypedColumns<Row> BestColumns(const std::string& unit) {
  TypedColumns<Row> columns = ProblemColumns();
  columns.Add(TypedColumns<Row>{
      {TextColumn("chosen", "The implementation in the run."),
       [](const Row& row) { return KnownText(row.replayed->problem.implementation); }},
      {Detail(TextColumn("formats", "Memory format of every tensor in the run.")),
       [](const Row& row) { return KnownText(row.replayed->problem.formats); }},
      {Detail(RealColumn("calls", "", Better::kNeither, absl::StrCat("Calls in a ", unit, "."))),
       [](const Row& row) { return row.replayed->problem.calls; }},
      {RealColumn("share", "%", Better::kLower, absl::StrCat("Their share of a ", unit, ".")),
       [](const Row& row) {
         return row.run->step_ns > 0 ? Cell(100 * row.replayed->problem.step_ns / row.run->step_ns) : Cell();
       }},
      {TimeColumn("run_time", "Of a call in the run's steps: the lower quartile."),
       [](const Row& row) { return Nanoseconds(row.replayed->problem.call_ns); }},
      {TimeColumn(
           "alone",
           "Of a call alone, as it ran, with warm caches: mean over measurements; of oneDNN's primitive, by its log."),
       [](const Row& row) { return Nanoseconds(AloneOf(row.replayed->base).mean); }},
      {Detail(TimeColumn("alone_low", "Lower bound (95 %, over measurements).")),
       [](const Row& row) { return Nanoseconds(AloneOf(row.replayed->base).low); }},
      {Detail(TimeColumn("alone_high", "Upper bound.")),
       [](const Row& row) { return Nanoseconds(AloneOf(row.replayed->base).high); }},
      {Detail(TextColumn("chosen_alone", "The implementation that the library chose alone, if it is another.")),
       [](const Row& row) {
         const std::string& alone = row.replayed->base.implementation;
         return alone == row.replayed->problem.implementation ? Cell() : KnownText(alone);
       }},
      {Detail(TimeColumn("op", "Of the framework's op, with conversions, as it ran: warm caches.")),
       [](const Row& row) { return Nanoseconds(BoundsOf(row.replayed->base.ns).mean); }},
      {TimeColumn("op_cold", "The same after other memory went through the caches."),
       [](const Row& row) { return Nanoseconds(row.replayed->base.cold_ns); }},
      {TextColumn("best_other", "The fastest other way of those tried."),
       [](const Row& row) { return row.variant == nullptr ? Cell() : Cell(MarkedName(*row.variant)); }},
  });
  columns.Add(VariantColumns());
  return columns;
}

TypedColumns<Row> AllVariantsColumns() {
  TypedColumns<Row> columns = ProblemColumns();
  columns.InsertAfter("layers", TypedColumns<Row>{{TextColumn("variant", "What was changed."),
                                                   [](const Row& row) { return MarkedName(*row.variant); }}});
  columns.Add(VariantColumns());
  columns.Add(TypedColumns<Row>{
      {TimeColumn("op", "Of the framework's op, warm caches: mean over measurements."),
       [](const Row& row) { return Nanoseconds(BoundsOf(row.variant->ns).mean); }},
      {Detail(TimeColumn("op_cold", "The same with cold caches, where it is the best.")),
       [](const Row& row) { return Nanoseconds(row.variant->cold_ns); }},
      {Detail(TimeColumn("cpu", "Processor time of the op, of all threads.")),
       [](const Row& row) { return Nanoseconds(row.variant->cpu_ns); }},
      {TextColumn("implementation", "What the library chose then; why it failed."),
       [](const Row& row) {
         return KnownText(row.variant->failure.empty() ? row.variant->implementation : row.variant->failure);
       }},
      {Detail(TextColumn("formats", "Memory format of every tensor then.")),
       [](const Row& row) { return KnownText(row.variant->formats); }},
  });
  return columns;
}

// One variant, over all problems: it is set for all of them.
struct Sum {
  bool changes_numerics = false;
  double gain_ns = 0, before_ns = 0, after_ns = 0;  // before, after: of the faster ones
  size_t tried = 0, faster = 0, slower = 0;
};

std::map<std::string, Sum> SumsOf(const ReplayedRun& run) {
  std::map<std::string, Sum> sums;
  for (const Replayed& replayed : run.problems) {
    for (const ReplayTried& variant : replayed.tried) {
      Sum& sum = sums[variant.name];
      sum.changes_numerics |= variant.changes_numerics;
      sum.tried += variant.ns.empty() ? 0 : 1;
      if (!IsDecided(variant)) continue;
      const double gain_ns = replayed.GainNs(variant);
      sum.gain_ns += gain_ns;
      if (variant.outcome == Outcome::kSlower) {
        ++sum.slower;
        continue;
      }
      ++sum.faster;
      sum.before_ns += replayed.problem.step_ns;
      sum.after_ns += replayed.problem.step_ns - gain_ns;
    }
  }
  return sums;
}

std::string SumSentence(const ReplayedRun& run, const std::string& name, const Sum& sum) {
  return absl::StrFormat(
      "%s would make the %s %.1f %% shorter%s: %d of %d problems take %.2f of their time%s", name, run.unit,
      100 * sum.gain_ns / run.step_ns, sum.changes_numerics ? ", but it changes numerics" : "", sum.faster, sum.tried,
      sum.after_ns / sum.before_ns, sum.slower > 0 ? absl::StrFormat(", %d take longer", sum.slower) : "");
}

std::string Answer(const ReplayedRun& run) {
  const std::map<std::string, Sum> sums = SumsOf(run);
  const auto best = [&](bool changes_numerics) {
    auto found = sums.end();
    for (auto sum = sums.begin(); sum != sums.end(); ++sum) {
      if (sum->second.changes_numerics != changes_numerics || sum->second.gain_ns <= 0) continue;
      if (found == sums.end() || sum->second.gain_ns > found->second.gain_ns) found = sum;
    }
    return found;
  };
  std::vector<std::string> sentences;
  for (const bool changes_numerics : {false, true}) {
    const auto found = best(changes_numerics);
    if (found != sums.end() && run.step_ns > 0) sentences.push_back(SumSentence(run, found->first, found->second));
  }
  size_t replayed = 0, open = 0;
  for (const Replayed& each : run.problems) {
    replayed += each.base.ns.empty() ? 0 : 1;
    for (const ReplayTried& variant : each.tried) open += variant.outcome == Outcome::kNotDecided ? 1 : 0;
  }
  if (run.problems.empty()) return "no library call in steps that could be replayed";
  if (replayed == 0) return "nothing could be replayed";
  if (sentences.empty())
    sentences.emplace_back(open == 0 ? "the chosen implementations are the best of those tried"
                                     : "nothing tried is shown to be faster than the chosen implementations");
  if (open > 0) sentences.push_back(absl::StrCat("not decided: ", open, " variants"));
  return absl::StrJoin(sentences, "; ");
}

}  // namespace

std::vector<Table> ReplayTables(const ReplayedRun& run) {
  std::vector<Row> best, all, not_replayed;
  for (const Replayed& replayed : run.problems) {
    if (replayed.base.ns.empty()) {
      not_replayed.push_back({&run, &replayed, nullptr});
      continue;
    }
    best.push_back({&run, &replayed, BestOther(replayed)});
    for (const ReplayTried& variant : replayed.tried) all.push_back({&run, &replayed, &variant});
  }
  std::vector<Table> tables = {NewTable("replay", Answer(run), BestColumns(run.unit), best)};
  if (!all.empty())
    tables.push_back(NewTable("variants", "Each problem in every other way tried", AllVariantsColumns(), all));
  if (not_replayed.empty()) return tables;
  TypedColumns<Row> columns = ProblemColumns();
  columns.Add({TextColumn("not_replayed", "Why."), [](const Row& row) {
                 const Replayed& replayed = *row.replayed;
                 return absl::StrCat("not replayed, because ",
                                     replayed.base.failure.empty() ? replayed.problem.reason : replayed.base.failure);
               }});
  tables.push_back(NewTable("not_replayed", "What was not replayed", columns, not_replayed));
  tables.back().sentences_from = "not_replayed";
  return tables;
}

}  // namespace dlhook::analyzer::whatif
