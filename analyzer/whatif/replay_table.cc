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

constexpr double kWorthOfStep = 0.01;  // less is no gain worth a change

struct Row {
  const ReplayedRun* run;
  const Replayed* replayed;
  const ReplayTried* variant = nullptr;  // null: none

  const ReplayProblem& problem() const { return replayed->problem; }
  // Of a call alone, comparable with that in the run: of the primitive, where the library tells it.
  Bounds Alone() const {
    return BoundsOf(replayed->base.library_ns.empty() ? replayed->base.ns : replayed->base.library_ns);
  }
  // Of the op's own share in a step; below 0: a loss. Unset: not decided.
  std::optional<double> GainNs() const {
    if (variant == nullptr || (variant->outcome != Outcome::kFaster && variant->outcome != Outcome::kSlower))
      return std::nullopt;
    return problem().step_ns * (1 - 1 / variant->speed.value);
  }
};

// One that is shown to be faster goes before others.
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

// A text of the problem, and of its variant, if there is one.
auto OfProblem(std::string ReplayProblem::*text) {
  return [text](const Row& row) { return KnownText(row.problem().*text); };
}
template <typename Get>
auto OfVariant(Get get) {
  return [get](const Row& row) { return row.variant == nullptr ? Cell() : ToCell(get(*row.variant)); };
}

TypedColumns<Row> ProblemColumns() {
  return {{TextColumn("layers", "The layers that it belongs to."), OfProblem(&ReplayProblem::layers)},
          {Detail(TextColumn("kind", "The primitive.")), OfProblem(&ReplayProblem::kind)},
          {TextColumn("direction", "Forward or backward, where the library says so."),
           OfProblem(&ReplayProblem::direction)},
          {Detail(TextColumn("problem", "Its size, as the library states it.")), OfProblem(&ReplayProblem::problem)}};
}

TypedColumns<Row> VariantColumns(const char* name, const char* explanation) {
  return {
      {TextColumn(name, explanation), OfVariant([](const ReplayTried& tried) {
         return absl::StrCat(tried.name, tried.changes_numerics ? ", changes numerics" : "");
       })},
      {RealColumn("times_as_fast", "", Better::kHigher,
                  "Its speed relative to the problem as it ran, by paired rounds, with what the framework does around "
                  "the library's call."),
       OfVariant([](const ReplayTried& tried) { return tried.speed.value; })},
      {Detail(RealColumn("low", "", Better::kHigher,
                         "Lower bound of times_as_fast, of all variants and rounds together.")),
       OfVariant([](const ReplayTried& tried) { return tried.speed.low; })},
      {Detail(RealColumn("high", "", Better::kHigher, "Upper bound.")),
       OfVariant([](const ReplayTried& tried) { return tried.speed.high; })},
      {RealColumn(
           "gain", "%", Better::kHigher,
           "Of a step: of the problem's share, the part that it is faster. Below 0: a loss. Unknown: not decided."),
       [](const Row& row) {
         const std::optional<double> ns = row.GainNs();
         return ns && row.run->step_ns > 0 ? Cell(100 * *ns / row.run->step_ns) : Cell();
       }},
      {Detail(TextColumn("outcome", "faster, slower, no gain (below 3 %), not decided, failed.")),
       OfVariant([](const ReplayTried& tried) { return std::string(OutcomeName(tried.outcome)); })},
  };
}

TypedColumns<Row> AnswerColumns(const std::string& unit) {
  TypedColumns<Row> columns = ProblemColumns();
  columns.Add(TypedColumns<Row>{
      {Detail(TextColumn("chosen", "The implementation in the run.")), OfProblem(&ReplayProblem::implementation)},
      {Detail(TextColumn("formats", "Memory format of every tensor in the run.")), OfProblem(&ReplayProblem::formats)},
      {Detail(RealColumn("share", "%", Better::kLower, absl::StrCat("Of a ", unit, ": its calls' share."))),
       [](const Row& row) {
         return row.run->step_ns > 0 ? Cell(100 * row.problem().step_ns / row.run->step_ns) : Cell();
       }},
      {TimeColumn("in_run", "A call in the run's steps: the lower quartile."),
       [](const Row& row) { return Nanoseconds(row.problem().call_ns); }},
      {TimeColumn(
           "alone",
           "A call alone, as it ran, with warm caches: mean over measurements; of oneDNN's primitive by its log."),
       [](const Row& row) { return Nanoseconds(row.Alone().mean); }},
      {Detail(TimeColumn("alone_low", "Lower bound (95 %, over measurements).")),
       [](const Row& row) { return Nanoseconds(row.Alone().low); }},
      {Detail(TimeColumn("alone_high", "Upper bound.")), [](const Row& row) { return Nanoseconds(row.Alone().high); }},
      {Detail(TimeColumn("op", "The framework's op around it, as it ran, with warm caches.")),
       [](const Row& row) { return Nanoseconds(BoundsOf(row.replayed->base.ns).mean); }},
      {Detail(TimeColumn("op_cold", "The same after other memory went through the caches.")),
       [](const Row& row) { return Nanoseconds(row.replayed->base.cold_ns); }},
  });
  columns.Add(VariantColumns("best_other", "The fastest other way of those tried."));
  return columns;
}

TypedColumns<Row> AllVariantsColumns() {
  TypedColumns<Row> columns = ProblemColumns();
  columns.Add(VariantColumns("variant", "What was changed."));
  const auto time = [](double ReplayTimes::*ns) {
    return OfVariant([ns](const ReplayTried& tried) { return Nanoseconds(tried.*ns); });
  };
  columns.Add(TypedColumns<Row>{
      {TextColumn("implementation", "What the library chose then; why it failed."),
       OfVariant([](const ReplayTried& tried) {
         return KnownText(tried.failure.empty() ? tried.implementation : tried.failure);
       })},
      {Detail(TimeColumn("op", "The framework's op with warm caches: mean over measurements.")),
       OfVariant([](const ReplayTried& tried) { return Nanoseconds(BoundsOf(tried.ns).mean); })},
      {Detail(TimeColumn("op_cold", "The same with cold caches, where it is faster.")), time(&ReplayTimes::cold_ns)},
      {Detail(TimeColumn("cpu", "Processor time of the op, of all threads.")), time(&ReplayTimes::cpu_ns)},
  });
  return columns;
}

// A variant over all problems, for which it is set together.
struct Sum {
  bool changes_numerics = false;
  double gain_ns = 0, before_ns = 0, after_ns = 0;  // before, after: of the faster ones
  size_t tried = 0, faster = 0, slower = 0;
};

void Add(const Row& row, Sum* sum) {
  sum->changes_numerics |= row.variant->changes_numerics;
  ++sum->tried;
  const double gain_ns = row.GainNs().value_or(0);
  sum->gain_ns += gain_ns;
  sum->slower += gain_ns < 0 ? 1 : 0;
  if (gain_ns <= 0) return;
  ++sum->faster;
  sum->before_ns += row.problem().step_ns;
  sum->after_ns += row.problem().step_ns - gain_ns;
}

std::string Sentence(const ReplayedRun& run, const std::string& name, const Sum& sum) {
  return absl::StrFormat(
      "%s would make the %s %.1f %% shorter%s: %d of %d problems take %.2f of their time%s", name, run.unit,
      100 * sum.gain_ns / run.step_ns, sum.changes_numerics ? ", but it changes numerics" : "", sum.faster, sum.tried,
      sum.after_ns / sum.before_ns, sum.slower > 0 ? absl::StrFormat(", %d take longer", sum.slower) : "");
}

std::string Answer(const ReplayedRun& run, const std::vector<Row>& variants) {
  std::map<std::string, Sum> sums;
  size_t open = 0;
  for (const Row& row : variants) {
    Add(row, &sums[row.variant->name]);
    open += row.variant->outcome == Outcome::kNotDecided ? 1 : 0;
  }
  std::vector<std::string> sentences;
  for (const bool changes_numerics : {false, true}) {
    const auto best = std::max_element(sums.begin(), sums.end(), [&](const auto& a, const auto& b) {
      const auto rank = [&](const Sum& sum) { return sum.changes_numerics == changes_numerics ? sum.gain_ns : 0; };
      return rank(a.second) < rank(b.second);
    });
    if (best == sums.end() || best->second.changes_numerics != changes_numerics) continue;
    if (best->second.gain_ns < kWorthOfStep * run.step_ns || best->second.gain_ns <= 0) continue;
    sentences.push_back(Sentence(run, best->first, best->second));
  }
  if (sentences.empty())
    sentences.emplace_back(open == 0 ? "the chosen implementations are the best of those tried"
                                     : "nothing tried is shown to be faster than the chosen implementations");
  if (open > 0) sentences.push_back(absl::StrCat("not decided: ", open, " of ", variants.size(), " variants"));
  return absl::StrJoin(sentences, "; ");
}

}  // namespace

std::vector<Table> ReplayTables(const ReplayedRun& run) {
  std::vector<Row> best, variants, not_replayed;
  for (const Replayed& replayed : run.problems) {
    const bool is_measured = !replayed.base.ns.empty() || !replayed.base.library_ns.empty();
    (is_measured ? best : not_replayed).push_back({&run, &replayed, BestOther(replayed)});
    for (const ReplayTried& variant : replayed.tried) {
      if (is_measured) variants.push_back({&run, &replayed, &variant});
    }
  }
  // What gains most first.
  std::stable_sort(variants.begin(), variants.end(),
                   [](const Row& a, const Row& b) { return a.GainNs().value_or(0) > b.GainNs().value_or(0); });
  std::vector<Table> tables = {NewTable("replay", best.empty() ? "nothing could be replayed" : Answer(run, variants),
                                        AnswerColumns(run.unit), best)};
  if (!variants.empty())
    tables.push_back(NewTable("variants", "Each problem in every other way tried", AllVariantsColumns(), variants));
  if (not_replayed.empty()) return tables;
  TypedColumns<Row> columns = ProblemColumns();
  columns.Add({TextColumn("not_replayed", "Why."), [](const Row& row) {
                 const std::string& failure = row.replayed->base.failure;
                 return absl::StrCat("not replayed, because ", failure.empty() ? row.problem().reason : failure);
               }});
  tables.push_back(NewTable("not_replayed", "What was not replayed", columns, not_replayed));
  tables.back().sentences_from = "not_replayed";
  return tables;
}

}  // namespace dlhook::analyzer::whatif
