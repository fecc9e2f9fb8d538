#include "analyzer/whatif/try_table.h"

#include "analyzer/tables/columns.h"
#include "analyzer/work/noise.h"

namespace dlhook::analyzer::inline whatif {
namespace {

constexpr absl::string_view kNumber = "0123456789.eE+-";

// "nan" and "inf" are losses, too.
bool ReadNumber(absl::string_view text, double* number) {
  for (absl::string_view word : {"nan", "inf", "-inf"}) {
    if (text.substr(0, word.size()) == word) return absl::SimpleAtod(word, number);
  }
  absl::string_view digits = text.substr(0, std::min(text.find_first_not_of(kNumber), text.size()));
  while (!digits.empty() && !absl::ascii_isdigit(digits.back())) digits.remove_suffix(1);  // the end of a sentence
  return absl::SimpleAtod(digits, number);
}

bool Differ(double a, double b) { return a != b && !(std::isnan(a) && std::isnan(b)); }

bool IsReached(const Tried& tried) { return !tried.times_ns.empty() || tried.outcome != Outcome::kNotDecided; }

TypedColumn<Tried> OutcomeColumn() {
  return {TextColumn("outcome", "faster, slower, no gain (below 3 %), not decided, not reached, failed."),
          [](const Tried& tried) {
            const bool is_base = tried.variation.name.empty();
            return is_base ? Cell() : Cell(OutcomeName(tried.outcome, !tried.times_ns.empty()));
          }};
}

TypedColumns<Tried> NumberColumns(const std::string& unit) {
  TypedColumns<Tried> columns = {
      {TextColumn("variation"), "What was set. none: the program as it is.",
       [](const Tried& tried) { return tried.variation.name.empty() ? "none" : tried.variation.name; }}};
  columns.Add(SpeedColumns<Tried>("times_as_fast", "", Better::kHigher,
                                  "Its speed relative to the program as it is, by paired rounds.",
                                  [](const Tried& tried) {
                                    const bool is_known = tried.speed.low || tried.times_ns.size() > 1;
                                    return is_known ? std::optional(tried.speed) : std::nullopt;
                                  }));
  columns.Add(OutcomeColumn());
  columns.Add(MeanColumns<Tried>("time", absl::StrCat("Mean over its runs of a ", unit, "."), &Tried::times_ns));
  columns.Add(TypedColumns<Tried>{
      {IntegerColumn("runs", "", Better::kNeither), "Runs that count.",
       [](const Tried& tried) { return tried.times_ns.size(); }},
      {IntegerColumn("peak_memory", "bytes", Better::kLower), "Most resident memory of a process that was seen.",
       [](const Tried& tried) { return tried.peak_bytes > 0 ? Cell(tried.peak_bytes) : Cell(); }}});
  return columns;
}

// "too-many-threads: at most 23 % of a step; here 18 % [12..24]".
std::string PromiseOf(const Tried& tried) {
  const Speed& speed = tried.speed;
  if (tried.variation.promise.empty() || !speed.low) return tried.variation.promise;
  const auto percent = [](double times) { return 100 * (1 - 1 / times); };
  return absl::StrFormat("%s; here %.0f %% [%.0f..%.0f]", tried.variation.promise, percent(speed.value),
                         percent(*speed.low), percent(*speed.high));
}

std::string CostOf(const Tried& tried) {
  std::vector<std::string> costs;
  if (tried.variation.changes_numerics) costs.emplace_back("changes numerics");
  if (tried.variation.changes_numerics && tried.losses.empty())
    costs.emplace_back("the program printed no loss to compare");
  if (!tried.losses.empty()) costs.push_back(tried.losses);
  return absl::StrJoin(costs, ": ");
}

TypedColumns<Tried> SentenceColumns() {
  return {
      {TextColumn("variation"), "What was set.", [](const Tried& tried) { return KnownText(tried.variation.name); }},
      OutcomeColumn(),
      {TextColumn("moved"), "What dlhook diff says first of a run without and one with it, or why it failed.",
       [](const Tried& tried) { return KnownText(tried.failure.empty() ? tried.moved : tried.failure); }},
      {TextColumn("command"), "How to run the program so.", Known(&Tried::command)},
      {TextColumn("promise"), "What the finding that suggested it said could be gained, and what was gained here.",
       [](const Tried& tried) { return KnownText(PromiseOf(tried)); }},
      {TextColumn("cost"),
       "What it changes in what is computed: by its kind, and by the losses that the program printed.",
       [](const Tried& tried) { return KnownText(CostOf(tried)); }},
  };
}

// Of those that compute the same, if there are such.
const Tried* Fastest(const TriedProgram& program) {
  const Tried* best = nullptr;
  const auto rank = [](const Tried& tried) { return std::pair(!tried.variation.changes_numerics, tried.speed.value); };
  for (const Tried& tried : program.variations) {
    if (tried.outcome == Outcome::kFaster && (best == nullptr || rank(tried) > rank(*best))) best = &tried;
  }
  return best;
}

// "OMP_NUM_THREADS=1: 1.25 times as fast [1.21..1.30]".
std::string FasterText(const Tried& tried) {
  return absl::StrFormat("%s: %.2f times as fast%s%s", tried.variation.name, tried.speed.value,
                         IntervalText(tried.speed),
                         tried.variation.changes_numerics ? ", but it changes numerics" : "");
}

std::string Answer(const TriedProgram& program) {
  std::string answer;
  const Tried* const best = Fastest(program);
  if (best != nullptr) {
    answer = absl::StrCat(FasterText(*best), "; use: ", best->command);
  } else if (program.variations.empty()) {
    return "there was nothing to try";
  } else {
    answer = "nothing tried is shown to be faster than the program as it is";
  }
  std::string rest;
  size_t undecided = 0, unreached = 0;
  const Tried* likely = nullptr;
  for (const Tried& tried : program.variations) {
    unreached += IsReached(tried) ? 0 : 1;
    if (tried.outcome == Outcome::kNotDecided && IsReached(tried)) {
      ++undecided;
      if (likely == nullptr || tried.speed.value > likely->speed.value) likely = &tried;
    }
    if (tried.outcome == Outcome::kFaster && &tried != best)
      absl::StrAppend(&rest, rest.empty() ? "; also faster: " : ", ", FasterText(tried));
  }
  const size_t all = program.variations.size();
  if (undecided > 0) absl::StrAppend(&rest, "; not decided: ", undecided, " of ", all);
  if (likely != nullptr && likely->speed.value > kWorth)
    absl::StrAppend(&rest, ", the likeliest gain ", FasterText(*likely), " in ", likely->times_ns.size(),
                    likely->times_ns.size() == 1 ? " round" : " rounds");
  if (unreached > 0) absl::StrAppend(&rest, "; not reached in the budget: ", unreached, " of ", all);
  return answer + rest;
}

}  // namespace

std::vector<double> LossesIn(absl::string_view output) {
  std::vector<double> losses;
  for (absl::string_view line : absl::StrSplit(output, absl::ByAnyChar("\n\r"))) {
    if (absl::StartsWith(line, "Traceback (")) break;  // it was stopped: lines of its code may have the word, too
    const std::string lower = absl::AsciiStrToLower(line);
    const size_t word = lower.find("loss");
    if (word == std::string::npos) continue;
    absl::string_view rest = absl::string_view(lower).substr(word + 4);
    for (; !rest.empty(); rest.remove_prefix(1)) {
      double loss = 0;
      const bool begins = absl::ascii_isdigit(rest.front()) || absl::StrContains("-.ni", rest.substr(0, 1));
      if (!begins || !ReadNumber(rest, &loss)) continue;
      losses.push_back(loss);
      break;
    }
  }
  return losses;
}

LossChange CompareLosses(const std::vector<double>& base, const std::vector<double>& other) {
  LossChange change = {.lines = std::min(base.size(), other.size())};
  for (size_t i = 0; i < change.lines; ++i) {
    if (!Differ(base[i], other[i])) continue;
    if (change.first == 0) change = {change.lines, 0, i + 1, base[i], other[i]};
    const double largest = std::max(std::abs(base[i]), std::abs(other[i]));
    const double difference = std::abs(base[i] - other[i]) / largest;
    change.most = std::isfinite(difference) ? std::max(change.most, difference) : INFINITY;
  }
  return change;
}

std::string LossSentence(const LossChange& change, const LossChange& own) {
  if (change.lines == 0) return "";
  const std::string lines = absl::StrCat(change.lines, change.lines == 1 ? " line" : " lines");
  if (change.first == 0) return absl::StrCat("printed losses are equal in ", lines);
  const std::string much =
      std::isinf(change.most) ? "without bound" : absl::StrFormat("by up to %.2g %%", 100 * change.most);
  std::string text = absl::StrFormat("printed losses differ %s in %s (line %d: %g, was %g)", much, lines, change.first,
                                     change.other, change.base);
  if (own.first > 0)
    absl::StrAppendFormat(&text, "; without it they differ by up to %.2g %% from run to run", 100 * own.most);
  return text;
}

Bounds BoundsOf(const std::vector<double>& times_ns) {
  const auto n = static_cast<double>(times_ns.size());
  if (n == 0) return {};
  Bounds bounds = {.mean = absl::c_accumulate(times_ns, 0.0) / n};
  if (n < 2) return bounds;
  double squares = 0;
  for (double ns : times_ns) squares += (ns - bounds.mean) * (ns - bounds.mean);
  const double bound = StudentQuantile(kTryAlpha, n - 1) * std::sqrt(squares / (n - 1) / n);
  bounds.low = std::max(bounds.mean - bound, 0.0);
  bounds.high = bounds.mean + bound;
  return bounds;
}

Cell Nanoseconds(std::optional<double> ns) { return ns && *ns > 0 ? Cell(static_cast<int64_t>(*ns)) : Cell(); }

std::string IntervalText(const Speed& speed) {
  return speed.low ? absl::StrFormat(" [%.2f..%.2f]", *speed.low, *speed.high) : "";
}

std::vector<Table> TryTables(const TriedProgram& program) {
  std::vector<const Tried*> rows = {&program.base}, told;
  for (const Tried& tried : program.variations) {
    rows.push_back(&tried);
    const bool is_open = tried.outcome == Outcome::kNoGain || tried.outcome == Outcome::kNotDecided;
    if (!IsReached(tried)) continue;
    if (!is_open || !tried.variation.promise.empty() || tried.variation.changes_numerics) told.push_back(&tried);
  }
  std::vector<Table> tables = {NewTable("try", Answer(program), NumberColumns(program.unit), rows)};
  if (told.empty()) return tables;
  tables.push_back(NewTable("variations", "What they change, and how to use them", SentenceColumns(), told));
  tables.back().sentences_from = "moved";
  return tables;
}

}  // namespace dlhook::analyzer::whatif
