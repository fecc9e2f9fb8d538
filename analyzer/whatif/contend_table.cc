// See contend_table.h.
#include "analyzer/whatif/contend_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/table/human.h"
#include "analyzer/tables/columns.h"
#include "analyzer/whatif/contest.h"
#include "analyzer/whatif/try_table.h"

namespace dlhook::analyzer::inline whatif {
namespace {

using Rounds = std::vector<std::pair<ContendedRun, ContendedRun>>;

constexpr double kPlaceCounts = 0.01;  // of a step
constexpr size_t kFewestPlaces = 3;    // operations that have a median
constexpr size_t kMostNamed = 3;
constexpr size_t kMostOfCommand = 40;  // characters
constexpr const char* kLevels[] = {"phase", "layer", "operation"};
constexpr char kNotTold[] = "not told apart", kBeyond[] = "more than the rest", kOnlyBeside[] = "only beside";

// A row: its values in each round.
struct Compared {
  std::string name;
  std::string words = {};  // in the answer; of an operation its problem
  PlaceLevel level = PlaceLevel::kPhase;
  std::vector<double> alone, beside;
  std::vector<double> rest;  // logarithms of the ratio that is common to all; empty: none is
  // The change of the mean and its bounds; where all values are positive also the ratio, and that relative to the rest.
  double change = 0;
  std::optional<double> low, high;
  std::optional<Speed> times, beyond;
  std::string outcome = kNotTold;

  double Alone() const { return BoundsOf(alone).mean; }
  double Beside() const { return BoundsOf(beside).mean; }
};

Compared Of(const Rounds& rounds, std::string name, const std::function<double(const ContendedRun&)>& value) {
  Compared row = {.name = std::move(name)};
  for (const auto& [alone, beside] : rounds) {
    row.alone.push_back(value(alone));
    row.beside.push_back(value(beside));
  }
  return row;
}

// `low` and `high` of a change, between -same and same where nothing changes.
std::string OutcomeOf(std::optional<double> low, std::optional<double> high, double same, const char* more,
                      const char* less) {
  if (!low) return kNotTold;
  if (*low > -same && *high < same) return "unchanged";
  if (*low > 0) return more;
  return *high < 0 ? less : kNotTold;
}

std::vector<double> LogRatios(const Compared& row) {
  std::vector<double> logs;
  for (size_t i = 0; i < row.alone.size(); ++i) {
    if (row.alone[i] <= 0 || row.beside[i] <= 0) return {};
    logs.push_back(std::log(row.beside[i] / row.alone[i]));
  }
  return logs;
}

void JudgeRatio(double alpha, Compared* row) {
  std::vector<double> logs = LogRatios(*row);
  if (logs.empty()) return;
  row->times = SpeedOf(logs, alpha);
  const Speed* judged = &*row->times;
  if (!row->rest.empty()) {
    for (size_t i = 0; i < logs.size(); ++i) logs[i] -= row->rest[i];
    row->beyond = SpeedOf(logs, alpha);
    judged = &*row->beyond;
  }
  if (!judged->low) return;
  const bool has_rest = row->beyond.has_value();
  row->outcome = OutcomeOf(std::log(*judged->low), std::log(*judged->high), std::log(kWorth),
                           has_rest ? kBeyond : "more", has_rest ? "less than the rest" : "less");
  if (has_rest && row->outcome == "unchanged") row->outcome = "as the rest";
}

void JudgeChange(double alpha, double step_ns, Compared* row) {
  std::vector<double> changes;
  for (size_t i = 0; i < row->alone.size(); ++i) changes.push_back(row->beside[i] - row->alone[i]);
  row->change = BoundsOf(changes).mean;
  if (const std::optional<double> bound = BoundOfMean(changes, alpha, kLeastSpread * step_ns)) {
    row->low = row->change - *bound;
    row->high = row->change + *bound;
  }
  const std::vector<double> logs = LogRatios(*row);
  if (!logs.empty()) row->times = SpeedOf(logs, alpha);
  row->outcome = OutcomeOf(row->low, row->high, (kWorth - 1) * step_ns, "longer", "shorter");
}

bool HasStates(const Rounds& rounds) {
  return std::all_of(rounds.begin(), rounds.end(),
                     [](const auto& round) { return round.first.states && round.second.states; });
}

// The step, then what it consists of.
std::vector<Compared> PartsOf(const Contended& contended) {
  const Rounds& rounds = contended.rounds;
  std::vector<Compared> rows = {Of(rounds, contended.unit, [](const ContendedRun& run) { return run.wall_ns; })};
  const auto add = [&](const char* name, const char* words, const auto& value) {
    rows.push_back(Of(rounds, name, value));
    rows.back().words = words;
  };
  if (HasStates(rounds)) {
    add("running", "time on a processor", [](const ContendedRun& run) { return run.states->running_ns; });
    add("waiting", "wait for a processor", [](const ContendedRun& run) { return run.states->waiting_ns; });
    add("blocked", "blocked", [](const ContendedRun& run) { return run.states->blocked_ns; });
    add("all threads", "processor time of all threads", [](const ContendedRun& run) { return run.cpu_ns; });
  }
  for (Compared& row : rows) JudgeChange(kTryAlpha / static_cast<double>(rows.size()), rows.front().Alone(), &row);
  return rows;
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Of each round the median of the operations' logarithms.
std::vector<double> CommonRatios(const std::vector<Compared>& rows) {
  std::vector<std::vector<double>> by_round;
  for (const Compared& row : rows) {
    const std::vector<double> logs = LogRatios(row);
    if (row.level != PlaceLevel::kOperation || logs.empty()) continue;
    by_round.resize(logs.size());
    for (size_t i = 0; i < logs.size(); ++i) by_round[i].push_back(logs[i]);
  }
  std::vector<double> common;
  if (by_round.empty() || by_round.front().size() < kFewestPlaces) return common;
  for (std::vector<double>& logs : by_round) common.push_back(MedianOf(std::move(logs)));
  return common;
}

bool IsBeyond(const Compared& place) { return place.outcome == kBeyond || place.outcome == kOnlyBeside; }

// Those of a hundredth of a step and more; what is beyond the rest first, then by level, the longest first.
std::vector<Compared> PlacesOf(const Rounds& rounds) {
  std::map<ContendedPlace, double> all_ns;
  double step_ns = 0;
  for (const auto& [alone, beside] : rounds) {
    step_ns += alone.wall_ns + beside.wall_ns;
    for (const ContendedRun* run : {&alone, &beside}) {
      for (const auto& [place, ns] : run->places_ns) all_ns[place] += ns;
    }
  }
  std::vector<Compared> rows;
  for (const auto& [place, ns] : all_ns) {
    if (ns < kPlaceCounts * step_ns) continue;
    rows.push_back(Of(rounds, place.name, [&place = place](const ContendedRun& run) {
      const auto found = run.places_ns.find(place);
      return found == run.places_ns.end() ? 0 : found->second;
    }));
    rows.back().level = place.level;
    rows.back().words = place.problem;
  }
  const std::vector<double> common = CommonRatios(rows);
  for (Compared& row : rows) {
    row.rest = common;
    JudgeRatio(kTryAlpha / static_cast<double>(rows.size()), &row);
    if (common.empty()) row.outcome = kNotTold;
    if (row.Alone() == 0) row.outcome = kOnlyBeside;
    if (row.Beside() == 0) row.outcome = "only alone";
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Compared& a, const Compared& b) {
    return std::tuple(!IsBeyond(a), a.level, b.Beside()) < std::tuple(!IsBeyond(b), b.level, a.Beside());
  });
  return rows;
}

std::vector<Compared> CountsOf(const Rounds& rounds) {
  std::vector<Compared> rows;
  if (rounds.empty()) return rows;
  for (const auto& [name, unused] : rounds.front().first.counts) {
    const bool is_everywhere = std::all_of(rounds.begin(), rounds.end(), [&name = name](const auto& round) {
      return round.first.counts.contains(name) && round.second.counts.contains(name);
    });
    if (is_everywhere)
      rows.push_back(Of(rounds, name, [&name = name](const ContendedRun& run) { return run.counts.at(name); }));
  }
  for (Compared& row : rows) JudgeRatio(kTryAlpha / static_cast<double>(rows.size()), &row);
  return rows;
}

std::string Times(const Speed& times) { return absl::StrFormat("%.2f%s", times.value, IntervalText(times)); }

// "wait for a processor +19.8 ms [18.1..21.5]".
std::string ChangeText(const Compared& row) {
  const auto text = [](double ns) { return absl::StrFormat("%+.3g", ns / 1e6); };
  return absl::StrCat(row.words, " ", text(row.change), " ms",
                      row.low ? absl::StrCat(" [", text(*row.low), "..", text(*row.high), "]") : "");
}

std::string NeighboursText(const std::vector<NeighbourUse>& neighbours) {
  std::vector<std::string> words;
  for (const NeighbourUse& use : neighbours) {
    words.push_back(use.intensity ? absl::StrCat(use.copies, use.copies == 1 ? " load" : " loads", " on ", use.name)
                                  : absl::StrCat(use.copies, " x '", use.name.substr(0, kMostOfCommand),
                                                 use.name.size() > kMostOfCommand ? "..." : "", "'"));
  }
  return absl::StrJoin(words, ", ");
}

std::string Answer(const Contended& contended, const std::vector<Compared>& parts,
                   const std::vector<Compared>& places) {
  const Compared& step = parts.front();
  std::string answer = absl::StrCat("beside ", NeighboursText(contended.neighbours), " a ", contended.unit);
  if (contended.rounds.empty()) return absl::StrCat(answer, " was not measured: there was no time for a round");
  const std::string times = absl::StrCat(step.times ? Times(*step.times) : "", " times as long (",
                                         HumanTime(step.Alone()), " -> ", HumanTime(step.Beside()), ")");
  absl::StrAppend(&answer,
                  step.outcome == kNotTold      ? " is not told apart from alone: "
                  : step.outcome == "unchanged" ? " takes no other time by 3 %: "
                                                : " takes ",
                  times);
  std::map<std::string, std::vector<std::string>> by_outcome;
  for (size_t i = 1; i < parts.size(); ++i) {
    const bool is_moved = parts[i].outcome == "longer" || parts[i].outcome == "shorter";
    by_outcome[is_moved ? "moved" : parts[i].outcome].push_back(ChangeText(parts[i]));
  }
  for (const char* outcome : {"moved", "unchanged", kNotTold}) {
    if (by_outcome.contains(outcome))
      absl::StrAppend(&answer, "; ", outcome, ": ", absl::StrJoin(by_outcome[outcome], ", "));
  }
  if (parts.size() == 1) absl::StrAppend(&answer, "; what its thread waited for was not seen in all runs");
  std::vector<std::string> named;
  for (const Compared& place : places) {
    if (place.level == PlaceLevel::kOperation && IsBeyond(place) && named.size() < kMostNamed)
      named.push_back(
          absl::StrCat(place.name, " ", place.times ? Times(*place.times) + " times as long" : kOnlyBeside));
  }
  return named.empty() ? answer : absl::StrCat(answer, "; more than the rest: ", absl::StrJoin(named, ", "));
}

// Ratios of rows, by the member that has them.
TypedColumns<Compared> RatioColumns(const char* name, const char* what, std::optional<Speed> Compared::*ratio) {
  return {{RealColumn(name, "", Better::kLower, what),
           [ratio](const Compared& row) { return row.*ratio ? Cell((row.*ratio)->value) : Cell(); }},
          {Detail(RealColumn(absl::StrCat(name, "_low"), "", Better::kLower, "Lower bound.")),
           [ratio](const Compared& row) { return row.*ratio ? ToCell((row.*ratio)->low) : Cell(); }},
          {Detail(RealColumn(absl::StrCat(name, "_high"), "", Better::kLower, "Upper bound.")),
           [ratio](const Compared& row) { return row.*ratio ? ToCell((row.*ratio)->high) : Cell(); }}};
}

TypedColumns<Compared> PartColumns() {
  const auto signed_time = [](const char* name, const char* what) {
    return Within(Range::kSigned, TimeColumn(name, what));
  };
  const auto whole = [](std::optional<double> ns) {
    return ns ? Cell(static_cast<int64_t>(std::llround(*ns))) : Cell();
  };
  TypedColumns<Compared> columns = {
      {TextColumn("part", "The step; the states of its thread, which add up to it; the running time of all threads."),
       &Compared::name},
      {TimeColumn("alone", "Mean over runs."), [whole](const Compared& row) { return whole(row.Alone()); }},
      {TimeColumn("beside", "The same beside the neighbours."),
       [whole](const Compared& row) { return whole(row.Beside()); }},
      {signed_time("change", "Mean over rounds."), [whole](const Compared& row) { return whole(row.change); }},
      {signed_time("change_low", "Lower bound, of all rows and rounds together with 95 %."),
       [whole](const Compared& row) { return whole(row.low); }},
      {signed_time("change_high", "Upper bound."), [whole](const Compared& row) { return whole(row.high); }},
      {TextColumn("outcome", "longer, shorter, unchanged (by less than 3 % of the step) or not told apart."),
       &Compared::outcome}};
  columns.Add(RatioColumns("times_as_long", "By paired rounds.", &Compared::times));
  return columns;
}

TypedColumns<Compared> PlaceColumns() {
  TypedColumns<Compared> columns = {
      {TextColumn("place", "phase, layer or operation."),
       [](const Compared& row) { return Cell(kLevels[static_cast<size_t>(row.level)]); }},
      {TextColumn("name", "Its name; of an operation: layer, direction, kind."), &Compared::name},
      {Detail(TextColumn("problem", "Of an operation: its size.")), Known(&Compared::words)},
      {TimeColumn("alone", "Wall share of a mean step, mean over runs."),
       [](const Compared& row) { return Nanoseconds(row.Alone()); }},
      {TimeColumn("beside", "The same beside the neighbours."),
       [](const Compared& row) { return Nanoseconds(row.Beside()); }}};
  columns.Add(RatioColumns("times_as_long", "By paired rounds.", &Compared::times));
  columns.Add(
      RatioColumns("beyond", "The same, relative to the median operation in the same rounds.", &Compared::beyond));
  columns.Add(
      {TextColumn("outcome",
                  "By beyond: more or less than the rest, as the rest (by 3 %), not told apart; or only beside."),
       &Compared::outcome});
  return columns;
}

TypedColumns<Compared> CountColumns() {
  TypedColumns<Compared> columns = {
      {TextColumn("counter", "What was counted, with its unit."), &Compared::name},
      {RealColumn("alone", "", Better::kNeither, "Mean over runs."), &Compared::Alone},
      {RealColumn("beside", "", Better::kNeither, "The same beside the neighbours."), &Compared::Beside}};
  columns.Add(RatioColumns("times", "By paired rounds.", &Compared::times));
  columns.Add(
      {TextColumn("outcome", "more, less, unchanged (by less than 3 %) or not told apart."), &Compared::outcome});
  return columns;
}

TypedColumns<NeighbourUse> NeighbourColumns() {
  const auto rate = [](double sum, double seconds) { return seconds > 0 ? Cell(sum / seconds) : Cell(); };
  return {{TextColumn("neighbour", "The command, or the load."), &NeighbourUse::name},
          {IntegerColumn("copies", "", Better::kNeither, "So many at a time."), &NeighbourUse::copies},
          {RealColumn("intensity", "%", Better::kNeither, "Part of the time in which a load was to work."),
           [](const NeighbourUse& use) { return use.intensity ? Cell(100 * *use.intensity) : Cell(); }},
          {RealColumn("processors", "", Better::kNeither, "That all copies used, on average."),
           [rate](const NeighbourUse& use) { return rate(use.processor_seconds, use.seconds); }},
          {RealColumn("bandwidth", "GB/s", Better::kNeither, "That all copies read and wrote."),
           [rate](const NeighbourUse& use) { return use.moves_bytes ? rate(use.bytes / 1e9, use.seconds) : Cell(); }},
          {IntegerColumn("ended", "", Better::kNeither, "So many ended by themselves before the program was stopped."),
           [](const NeighbourUse& use) { return use.ended; }}};
}

}  // namespace

bool IsDecided(const Contended& contended) {
  if (contended.rounds.size() < kLeastContendRounds) return false;
  const std::vector<Compared> parts = PartsOf(contended);
  return std::all_of(parts.begin(), parts.begin() + std::min<int64_t>(parts.size(), 2),
                     [](const Compared& part) { return part.outcome != kNotTold; });
}

std::vector<Table> ContendTables(const Contended& contended) {
  const std::vector<Compared> parts = PartsOf(contended), places = PlacesOf(contended.rounds),
                              counts = CountsOf(contended.rounds);
  std::vector<Table> tables = {NewTable("contend", Answer(contended, parts, places), PartColumns(), parts)};
  if (!places.empty()) {
    tables.push_back(NewTable("places", "What became longer, and what by more than the rest", PlaceColumns(), places));
    tables.back().notes.push_back(
        "Phases, layers and operations of a hundredth of a step and more. A wait for a processor hits all of them: "
        "only what is beyond the median operation is a place of its own.");
  }
  if (!counts.empty()) tables.push_back(NewTable("counters", "Counted in a step", CountColumns(), counts));
  tables.push_back(NewTable("neighbours", "What the neighbours did", NeighbourColumns(), contended.neighbours));
  return tables;
}

}  // namespace dlhook::analyzer::whatif
