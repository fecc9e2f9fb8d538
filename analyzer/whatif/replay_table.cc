// The tables of replay.h.

#include "analyzer/io/run_folder.h"
#include "analyzer/tables/columns.h"
#include "analyzer/whatif/replay.h"
#include "analyzer/whatif/try_table.h"

namespace dlhook::analyzer::inline whatif {
namespace {

constexpr double kWorthOfStep = 0.01;  // less is no gain worth a change

bool IsOfLibrary(const Replayed& replayed) { return replayed.problem.through == "onednn"; }

// Of a call alone, comparable with that in the run: of the primitive, where the library tells it.
const std::vector<double>& AloneOf(const ReplayVariant& way) {
  return way.library_ns.empty() ? way.ns : way.library_ns;
}

// "; not decided: 8 of 12 variants; not reached in the budget: 2".
struct Open {
  size_t variants = 0, undecided = 0, unreached = 0;
  void Add(const ReplayVariant& variant) {
    ++variants;
    if (variant.outcome == Outcome::kNotDecided) ++(variant.ns.empty() ? unreached : undecided);
  }
  std::string Text() const {
    std::string text = undecided > 0 ? absl::StrCat("; not decided: ", undecided, " of ", variants, " variants") : "";
    if (unreached > 0) absl::StrAppend(&text, "; not reached in the budget: ", unreached, " of ", variants);
    return text;
  }
};

struct Row {
  const ReplayedRun* run;
  const Replayed* replayed;
  const ReplayVariant* variant = nullptr;  // null: none

  // All calls of the problem; where the run's times are not compared, as they take here.
  double ShareNs() const {
    const auto& [problem, base, variants] = *replayed;
    return run->apart.empty() ? problem.step_ns : problem.calls * BoundsOf(base.ns).mean;
  }
  // Of the share; below 0: a loss. Unset: not decided.
  std::optional<double> GainNs() const {
    if (variant == nullptr || variant->outcome == Outcome::kNotDecided || variant->outcome == Outcome::kFailed ||
        IsOfLibrary(*replayed))
      return std::nullopt;
    return ShareNs() * (1 - 1 / variant->speed.value);
  }
  Cell PercentOfStep(std::optional<double> ns) const {
    return ns && run->step_ns > 0 && run->apart.empty() ? Cell(100 * *ns / run->step_ns) : Cell();
  }
};

// The fastest of those that are shown to be faster than the choice.
const ReplayVariant* BestOther(const Replayed& replayed) {
  const ReplayVariant* best = nullptr;
  for (const ReplayVariant& variant : replayed.variants) {
    const bool is_better = best == nullptr || variant.speed.value > best->speed.value;
    if (variant.outcome == Outcome::kFaster && is_better) best = &variant;
  }
  return best;
}

auto OfProblem(std::string ReplayProblem::*text) {
  return [text](const Row& row) { return KnownText(row.replayed->problem.*text); };
}
template <typename Get>
auto OfVariant(Get get) {
  return [get](const Row& row) { return row.variant == nullptr ? Cell() : ToCell(get(*row.variant)); };
}
std::string NameOf(const ReplayVariant& variant) {
  return absl::StrCat(variant.name, variant.changes_numerics ? ", changes numerics" : "");
}
Cell MeanNs(const ReplayVariant& variant) { return Nanoseconds(BoundsOf(variant.ns).mean); }

TypedColumns<Row> ProblemColumns() {
  return {{TextColumn("layers"), "The layers that it belongs to.", OfProblem(&ReplayProblem::layers)},
          {TextColumn("kind"), "The primitive.", OfProblem(&ReplayProblem::kind)},
          {TextColumn("direction"), "Forward or backward, where the library says so.",
           OfProblem(&ReplayProblem::direction)},
          {Detail(TextColumn("problem")), "Its size, as the library states it.", OfProblem(&ReplayProblem::problem)}};
}

TypedColumn<Row> ThroughColumn() {
  return {TextColumn("through"), "The framework that computed it; onednn: the system's library of that name.",
          OfProblem(&ReplayProblem::through)};
}

TypedColumns<Row> SpeedColumns() {
  return whatif::SpeedColumns<Row>("times_as_fast", "", Better::kHigher,
                                   "Relative to the one as it ran, by paired rounds.", [](const Row& row) {
                                     const bool is_known = row.variant != nullptr && row.variant->rounds > 0;
                                     return is_known ? std::optional(row.variant->speed) : std::nullopt;
                                   });
}

TypedColumns<Row> VariantColumns(const char* name, const char* explanation) {
  TypedColumns<Row> columns = {{TextColumn(name, explanation), OfVariant(NameOf)}};
  columns.Add(SpeedColumns());
  columns.Add({RealColumn("gain", "%", Better::kHigher),
               "Of a step: of the problem's share, the part that it is faster. Below 0: a loss. Unknown: not decided, "
               "the run's times are not comparable, or not what computed it in the run.",
               [](const Row& row) { return row.PercentOfStep(row.GainNs()); }});
  return columns;
}

TypedColumns<Row> AnswerColumns() {
  TypedColumns<Row> columns = ProblemColumns();
  columns.Add(TypedColumns<Row>{
      ThroughColumn(),
      {Detail(TextColumn("chosen")), "The implementation in the run.", OfProblem(&ReplayProblem::implementation)},
      {Detail(TextColumn("chosen_alone")), "The one that was chosen when it ran alone.",
       [](const Row& row) { return KnownText(row.replayed->base.implementation); }},
      {Detail(TextColumn("formats")), "Memory format of every tensor in the run.", OfProblem(&ReplayProblem::formats)},
      {Detail(RealColumn("share", "%", Better::kLower)), "Of a step: all calls of the problem.",
       [](const Row& row) { return row.PercentOfStep(row.ShareNs()); }},
      {TimeColumn("in_run"),
       "A call in the run's steps: the lower quartile; on a GPU the mean of what it did. Unknown: not comparable.",
       [](const Row& row) { return row.run->apart.empty() ? Nanoseconds(row.replayed->problem.call_ns) : Cell(); }},
  });
  columns.Add(MeanColumns<Row>(
      "alone", "A call alone, as it ran, with warm caches: the mean; of oneDNN's primitive, by its log.",
      [](const Row& row) { return AloneOf(row.replayed->base); }));
  columns.Add(TypedColumns<Row>{
      {Detail(TimeColumn("op")), "The framework's op around it, as it ran, with warm caches.",
       [](const Row& row) { return MeanNs(row.replayed->base); }},
      {Detail(TimeColumn("op_cold")), "The same after other memory went through the caches.",
       [](const Row& row) { return Nanoseconds(row.replayed->base.cold_ns); }},
  });
  columns.Add(VariantColumns("best_other", "The fastest of the ways that are shown to be faster."));
  *columns.Find("times_as_fast") = Detail(*columns.Find("times_as_fast"));
  return columns;
}

TypedColumns<Row> AllVariantsColumns() {
  TypedColumns<Row> columns = ProblemColumns();
  columns.Add(VariantColumns("variant", "What was changed."));
  columns.Add(TypedColumns<Row>{
      {TextColumn("outcome"),
       "faster, slower, no gain (below 3 %), no gain or slower, not decided, not reached, failed.",
       OfVariant([](const ReplayVariant& variant) {
         const bool is_rather_slower = variant.outcome == Outcome::kNoGain && variant.speed.value < 1;
         return absl::StrCat(OutcomeName(variant.outcome, !variant.ns.empty()), is_rather_slower ? " or slower" : "");
       })},
      {Detail(TextColumn("implementation")), "What the library chose then; why it failed.",
       OfVariant([](const ReplayVariant& variant) {
         return KnownText(variant.failure.empty() ? variant.implementation : variant.failure);
       })},
      {Detail(TimeColumn("op")), "The framework's op with warm caches.", OfVariant(MeanNs)},
      {Detail(TimeColumn("op_cold")), "After other memory went through the caches; of what is faster with warm ones.",
       OfVariant([](const ReplayVariant& variant) { return Nanoseconds(variant.cold_ns); })},
  });
  return columns;
}

// Of the system's oneDNN; without a variant: its own choice.
TypedColumns<Row> CandidateColumns() {
  const auto tried = [](const Row& row) -> const ReplayVariant& {
    return row.variant == nullptr ? row.replayed->base : *row.variant;
  };
  TypedColumns<Row> columns = ProblemColumns();
  columns.Add(TypedColumns<Row>{
      {TextColumn("candidate"), "The implementation, as the library names it.",
       [](const Row& row) {
         return KnownText(row.variant == nullptr ? row.replayed->base.implementation : row.variant->name);
       }},
      {TextColumn("formats"), "recorded: the run's; own: the library's, without conversions to them.",
       [tried](const Row& row) { return KnownText(tried(row).formats); }},
      {TextColumn("outcome"), "taken: the library's choice; else relative to that.",
       [](const Row& row) {
         return Cell(row.variant == nullptr ? "taken" : OutcomeName(row.variant->outcome, !row.variant->ns.empty()));
       }},
      {TimeColumn("time"), "Mean of a call with warm caches.", [tried](const Row& row) { return MeanNs(tried(row)); }},
      {Detail(TimeColumn("time_cold")), "After other memory went through the caches; of the chosen and what is faster.",
       [tried](const Row& row) { return Nanoseconds(tried(row).cold_ns); }}});
  columns.Add(SpeedColumns());
  return columns;
}

// "; oneDNN 2.6.3 alone has something faster than its choice for 2 of 6 problems, at most 2.00 times: …".
std::string LibrarySentence(const ReplayedRun& run, const std::vector<Row>& rows) {
  std::set<const Replayed*> problems, faster;
  const Row* best = nullptr;
  Open open;
  for (const Row& row : rows) {
    problems.insert(row.replayed);
    if (row.variant == nullptr) continue;
    open.Add(*row.variant);
    if (row.variant->outcome != Outcome::kFaster) continue;
    faster.insert(row.replayed);
    if (best == nullptr || row.variant->speed.value > best->variant->speed.value) best = &row;
  }
  if (problems.empty()) return "";
  std::string text = absl::StrFormat("; %s alone has something faster than its choice for %d of %d %s", run.library,
                                     faster.size(), problems.size(), problems.size() == 1 ? "problem" : "problems");
  if (best != nullptr) {
    const ReplayProblem& problem = best->replayed->problem;
    absl::StrAppendFormat(&text, ", at most %.2f times: %s%s%s for %s", best->variant->speed.value, best->variant->name,
                          best->variant->formats == "own" ? " in its own formats" : "",
                          best->variant->changes_numerics ? ", which changes numerics," : "",
                          absl::StrJoin({problem.kind, problem.direction, problem.layers}, " "));
  }
  return text + open.Text();
}

// A variant over all problems, for which it is set together.
struct Sum {
  bool changes_numerics = false, on_gpu = false;
  double gain_ns = 0, before_ns = 0, saved_ns = 0;  // before, saved: of the faster ones
  size_t tried = 0, faster = 0, slower = 0;

  void Add(const Row& row) {
    const double gain = row.GainNs().value_or(0);
    const bool is_faster = row.variant->outcome == Outcome::kFaster;
    changes_numerics = row.variant->changes_numerics;
    on_gpu |= row.replayed->problem.on_gpu;
    gain_ns += gain;
    saved_ns += is_faster ? gain : 0;
    before_ns += is_faster ? row.ShareNs() : 0;
    ++tried;
    faster += is_faster ? 1 : 0;
    slower += row.variant->outcome == Outcome::kSlower ? 1 : 0;
  }
};

const char* Take(size_t problems) { return problems == 1 ? "takes" : "take"; }

std::string Sentence(const ReplayedRun& run, const std::string& name, const Sum& sum) {
  const std::string gain = run.apart.empty() ? absl::StrFormat("would make the %s %.1f %% shorter", run.unit,
                                                               100 * sum.gain_ns / run.step_ns)
                                             : "is faster on this machine";
  return absl::StrFormat("%s %s%s%s: %d of %d problems %s %.2f of their time%s", name, gain,
                         sum.changes_numerics ? ", but it changes numerics" : "",
                         sum.on_gpu                         ? ", if it waits for the GPU"
                         : absl::EndsWith(name, " threads") ? ", if no other program has the processors"
                                                            : "",
                         sum.faster, sum.tried, Take(sum.faster), 1 - sum.saved_ns / sum.before_ns,
                         sum.slower > 0 ? absl::StrFormat(", %d %s longer", sum.slower, Take(sum.slower)) : "");
}

std::string Answer(const ReplayedRun& run, const std::vector<Row>& variants) {
  std::map<std::string, Sum> sums;
  size_t faster = 0;
  Open open;
  for (const Row& row : variants) {
    sums[row.variant->name].Add(row);
    open.Add(*row.variant);
    faster += row.variant->outcome == Outcome::kFaster ? 1 : 0;
  }
  std::vector<std::string> sentences;
  const double least_ns = run.apart.empty() ? kWorthOfStep * run.step_ns : 0;
  for (const bool changes_numerics : {false, true}) {
    const auto gain_ns = [&](const auto& named) {
      return named.second.changes_numerics == changes_numerics && named.second.faster > 0 ? named.second.gain_ns : 0;
    };
    const auto best = absl::c_max_element(sums, [&](const auto& a, const auto& b) { return gain_ns(a) < gain_ns(b); });
    if (best != sums.end() && gain_ns(*best) > least_ns) sentences.push_back(Sentence(run, best->first, best->second));
  }
  if (sentences.empty() && faster > 0) {
    sentences.push_back(run.apart.empty()
                            ? absl::StrCat("nothing tried is shown to make the ", run.unit, " 1 % shorter")
                            : "nothing tried is shown to be faster over all problems together");
  } else if (sentences.empty()) {
    sentences.emplace_back(open.Text().empty() ? "the chosen implementations are the best of those tried"
                                               : "nothing tried is shown to be faster than the chosen implementations");
  }
  return absl::StrJoin(sentences, "; ") + open.Text();
}

using Cells = std::vector<std::string>;

}  // namespace

std::vector<Table> ReplayTables(const ReplayedRun& run) {
  std::vector<Row> best, variants, of_library, not_replayed;
  for (const Replayed& replayed : run.problems) {
    const bool is_measured = !replayed.base.ns.empty() || !replayed.base.library_ns.empty();
    (is_measured ? best : not_replayed).push_back({&run, &replayed, BestOther(replayed)});
    if (!is_measured) continue;
    std::vector<Row>& rows = IsOfLibrary(replayed) ? of_library : variants;
    if (IsOfLibrary(replayed)) rows.push_back({&run, &replayed});
    for (const ReplayVariant& variant : replayed.variants) rows.push_back({&run, &replayed, &variant});
  }
  // What gains most first.
  absl::c_stable_sort(variants,
                      [](const Row& a, const Row& b) { return a.GainNs().value_or(0) > b.GainNs().value_or(0); });
  const std::string of_framework =
      variants.empty() ? "no other way was tried through the run's framework" : Answer(run, variants);
  const std::string answer =
      best.empty() ? "nothing could be replayed" : of_framework + LibrarySentence(run, of_library);
  std::vector<Table> tables = {NewTable("replay", answer, AnswerColumns(), best)};
  if (!run.apart.empty())
    tables.front().notes.push_back(absl::StrCat("times of the run are of another ", run.apart,
                                                "; they are not compared with those measured here."));
  if (!variants.empty())
    tables.push_back(NewTable("variants", "Each problem in every other way tried", AllVariantsColumns(), variants));
  if (!of_library.empty())
    tables.push_back(NewTable("candidates", absl::StrCat("What ", run.library, " has for the same problems"),
                              CandidateColumns(), of_library));
  if (not_replayed.empty()) return tables;
  TypedColumns<Row> columns = ProblemColumns();
  columns.Add(ThroughColumn());
  columns.Add({TextColumn("not_replayed"), "Why.", [](const Row& row) {
                 const auto& [problem, base, tried] = *row.replayed;
                 return absl::StrCat("not replayed, because ", base.failure.empty() ? problem.reason : base.failure);
               }});
  tables.push_back(NewTable("not_replayed", "What was not replayed", columns, not_replayed));
  tables.back().sentences_from = "not_replayed";
  return tables;
}

absl::Status KeepReplay(const ReplayFile& file, const ReplayedRun& run, const std::string& how) {
  if (file.path.empty()) return absl::NotFoundError("the run has no file");
  std::string text = absl::StrCat(file.first_line, how, "\n");
  for (const Replayed& replayed : run.problems) {
    const auto& [problem, base, variants] = replayed;
    const auto add = [&, &problem = problem](const ReplayVariant& way) {
      const std::vector<double>& ns = AloneOf(way);
      if (ns.empty()) return;
      const std::string by = IsOfLibrary(replayed)    ? absl::StrCat(run.library, ", formats: ", way.formats)
                             : way.library_ns.empty() ? "op of " + problem.through
                                                      : "oneDNN's primitive in an op of " + problem.through;
      Cells cells = {problem.kind, problem.direction, problem.problem, problem.types, problem.formats};
      const double speed = way.outcome == Outcome::kFaster ? way.speed.value : 0;
      cells.insert(cells.end(), {problem.implementation, by, NameOf(way), way.implementation});
      cells.insert(cells.end(), {absl::StrCat(static_cast<int64_t>(BoundsOf(ns).mean)), absl::StrCat(speed)});
      for (std::string& cell : cells) absl::StrReplaceAll({{"\t", " "}, {"\n", " "}}, &cell);
      absl::StrAppend(&text, absl::StrJoin(cells, "\t"), "\n");
    };
    add(base);
    absl::c_for_each(variants, add);
  }
  return ReplaceFile(file.path, text);
}

}  // namespace dlhook::analyzer::whatif
