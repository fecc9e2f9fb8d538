#include "analyzer/whatif/contend_table.h"

#include "analyzer/table/table_ops.h"
#include "analyzer/tables/columns.h"
#include "analyzer/whatif/try_table.h"

namespace dlhook::analyzer::inline whatif {
namespace {

constexpr double kPlaceCounts = 0.01;  // of a step
constexpr size_t kFewestPlaces = 2;    // operations that are a rest

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
  if (*low > -same && *high < same) return kUnchanged;
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

std::string OutcomeOf(const Speed& ratio, const char* more, const char* less) {
  if (!ratio.low) return kNotTold;
  return OutcomeOf(std::log(*ratio.low), std::log(*ratio.high), std::log(kWorth), more, less);
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
  return absl::c_all_of(rounds, [](const auto& round) { return round.first.states && round.second.states; });
}

// Of each round the logarithm of the ratio of all operations together that are no place of their own yet, but for `row`.
std::vector<double> RatiosOfRest(const std::vector<Compared>& rows, const std::set<const Compared*>& told,
                                 const Compared& row) {
  const std::vector<double> zeros(row.alone.size());
  Compared rest = {.alone = zeros, .beside = zeros};
  size_t operations = 0;
  for (const Compared& other : rows) {
    const bool is_of_both = other.Alone() > 0 && other.Beside() > 0;
    if (other.level != PlaceLevel::kOperation || !is_of_both || told.contains(&other) || &other == &row) continue;
    ++operations;
    for (size_t i = 0; i < row.alone.size(); ++i) {
      rest.alone[i] += other.alone[i];
      rest.beside[i] += other.beside[i];
    }
  }
  return operations < kFewestPlaces ? std::vector<double>() : LogRatios(rest);
}

// How far beyond the rest, in half intervals; 0: not told.
double Distance(const Compared& place) {
  if (place.level != PlaceLevel::kOperation || !place.beyond || !place.beyond->low) return 0;
  const double middle = std::log(place.beyond->value);
  const double distance = std::abs(middle) / (std::log(*place.beyond->high) - middle);
  return distance > 1 && (place.outcome == kBeyond || place.outcome == kWithin) ? distance : 0;
}

// Operations that differ from the rest are taken out of it one by one, the farthest first: else they would make all others
// differ from it, too.
void JudgePlaces(std::vector<Compared>* rows) {
  std::set<const Compared*> told;
  for (const Compared* farthest = nullptr;; told.insert(farthest)) {
    for (Compared& row : *rows) {
      std::vector<double> logs = LogRatios(row);
      const std::vector<double> rest = RatiosOfRest(*rows, told, row);
      if (row.Alone() == 0) row.outcome = kOnlyBeside;
      if (row.Beside() == 0) row.outcome = "only alone";
      if (logs.empty()) continue;
      const double alpha = kTryAlpha / static_cast<double>(rows->size());
      row.times = SpeedOf(logs, alpha);
      if (rest.empty()) continue;
      for (size_t i = 0; i < logs.size(); ++i) logs[i] -= rest[i];
      row.beyond = SpeedOf(logs, alpha);
      row.outcome = OutcomeOf(*row.beyond, kBeyond, kWithin);
      if (row.outcome == kUnchanged) row.outcome = "as the rest";
    }
    farthest = nullptr;
    for (const Compared& row : *rows) {
      if (!told.contains(&row) && Distance(row) > (farthest == nullptr ? 0 : Distance(*farthest))) farthest = &row;
    }
    if (farthest == nullptr) return;
  }
}

constexpr const char* kLevels[] = {"phase", "layer", "operation"};
constexpr size_t kMostNamed = 3;
constexpr size_t kMostOfCommand = 40;  // characters

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
                  step.outcome == kNotTold     ? " is not told apart from alone: "
                  : step.outcome == kUnchanged ? " takes no other time by 3 %: "
                                               : " takes ",
                  times);
  std::map<std::string, std::vector<std::string>> by_outcome;
  for (size_t i = 1; i < parts.size(); ++i) {
    const bool is_moved = parts[i].outcome == "longer" || parts[i].outcome == "shorter";
    by_outcome[is_moved ? "moved" : parts[i].outcome].push_back(ChangeText(parts[i]));
  }
  for (const char* outcome : {"moved", kUnchanged, kNotTold}) {
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

// By the member that has them.
TypedColumns<Compared> RatioColumns(const char* name, const char* what, std::optional<Speed> Compared::*ratio) {
  return SpeedColumns<Compared>(name, absl::StrCat(name, "_"), Better::kLower, what, ratio);
}

TypedColumn<Compared> OutcomeColumn(const char* what) { return {TextColumn("outcome", what), &Compared::outcome}; }

TypedColumns<Compared> SideColumns(const char* of_alone) {
  const auto whole = [](double ns) { return static_cast<int64_t>(std::llround(ns)); };
  return {{TimeColumn("alone", of_alone), [whole](const Compared& row) { return whole(row.Alone()); }},
          {TimeColumn("beside"), "The same beside the neighbours.",
           [whole](const Compared& row) { return whole(row.Beside()); }}};
}

TypedColumns<Compared> PartColumns() {
  const auto column = [](const char* name, const char* what, auto get) {
    return TypedColumn<Compared>(Within(Range::kSigned, TimeColumn(name, what)), [get](const Compared& row) {
      const std::optional<double> ns = std::invoke(get, row);
      return ns ? Cell(static_cast<int64_t>(std::llround(*ns))) : Cell();
    });
  };
  TypedColumns<Compared> columns = {
      {TextColumn("part"), "The step; the states of its thread, which add up to it; the running time of all threads.",
       &Compared::name}};
  columns.Add(SideColumns("Mean over runs."));
  columns.Add(TypedColumns<Compared>{
      column("change", "Mean over rounds.", &Compared::change),
      column("change_low", "Lower bound, of all rows and rounds together with 95 %.", &Compared::low),
      column("change_high", "Upper bound.", &Compared::high),
      OutcomeColumn("longer, shorter, unchanged (by less than 3 % of the step) or not told apart.")});
  columns.Add(RatioColumns("times_as_long", "By paired rounds.", &Compared::times));
  return columns;
}

TypedColumns<Compared> PlaceColumns() {
  TypedColumns<Compared> columns = {
      {TextColumn("place"), "phase, layer or operation.",
       [](const Compared& row) { return Cell(kLevels[static_cast<size_t>(row.level)]); }},
      {TextColumn("name"), "Its name; of an operation: layer, direction, kind.", &Compared::name},
      {Detail(TextColumn("problem")), "Of an operation: its size.", Known(&Compared::words)}};
  columns.Add(SideColumns("Wall share of a mean step, mean over runs."));
  columns.Add(RatioColumns("times_as_long", "By paired rounds.", &Compared::times));
  columns.Add(RatioColumns("beyond", "The same, relative to all other operations together in the same rounds.",
                           &Compared::beyond));
  columns.Add(
      OutcomeColumn("By beyond: more or less than the rest, as the rest (by 3 %), not told apart; or only beside."));
  return columns;
}

TypedColumns<Compared> CountColumns() {
  TypedColumns<Compared> columns = {
      {TextColumn("counter"), "What was counted, with its unit.", &Compared::name},
      {RealColumn("alone", "", Better::kNeither), "Mean over runs.", &Compared::Alone},
      {RealColumn("beside", "", Better::kNeither), "The same beside the neighbours.", &Compared::Beside}};
  columns.Add(RatioColumns("times", "By paired rounds.", &Compared::times));
  columns.Add(OutcomeColumn("more, less, unchanged (by less than 3 %) or not told apart."));
  return columns;
}

TypedColumns<NeighbourUse> NeighbourColumns() {
  const auto rate = [](double sum, double seconds) { return seconds > 0 ? Cell(sum / seconds) : Cell(); };
  return {{TextColumn("neighbour"), "The command, or the load.", &NeighbourUse::name},
          {IntegerColumn("copies", "", Better::kNeither), "So many at a time.", &NeighbourUse::copies},
          {RealColumn("intensity", "%", Better::kNeither), "Part of the time in which a load was to work.",
           [](const NeighbourUse& use) { return use.intensity ? Cell(100 * *use.intensity) : Cell(); }},
          {RealColumn("processors", "", Better::kNeither), "That all copies used, on average.",
           [rate](const NeighbourUse& use) { return rate(use.processor_seconds, use.seconds); }},
          {RealColumn("bandwidth", "GB/s", Better::kNeither), "That all copies read and wrote.",
           [rate](const NeighbourUse& use) { return use.moves_bytes ? rate(use.bytes / 1e9, use.seconds) : Cell(); }},
          {IntegerColumn("ended", "", Better::kNeither), "So many ended by themselves before the program was stopped.",
           [](const NeighbourUse& use) { return use.ended; }}};
}

}  // namespace

double Compared::Alone() const { return BoundsOf(alone).mean; }
double Compared::Beside() const { return BoundsOf(beside).mean; }
bool IsBeyond(const Compared& place) { return place.outcome == kBeyond || place.outcome == kOnlyBeside; }

std::vector<Compared> PartsOf(const std::string& unit, const Rounds& rounds) {
  std::vector<Compared> rows = {Of(rounds, unit, [](const ContendedRun& run) { return run.wall_ns; })};
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
  JudgePlaces(&rows);
  absl::c_stable_sort(rows, [](const Compared& a, const Compared& b) {
    return std::tuple(!IsBeyond(a), a.level, b.Beside()) < std::tuple(!IsBeyond(b), b.level, a.Beside());
  });
  return rows;
}

std::vector<Compared> CountsOf(const Rounds& rounds) {
  std::vector<Compared> rows;
  if (rounds.empty()) return rows;
  for (const auto& [name, unused] : rounds.front().first.counts) {
    const bool is_everywhere = absl::c_all_of(rounds, [&name = name](const auto& round) {
      return round.first.counts.contains(name) && round.second.counts.contains(name);
    });
    if (is_everywhere)
      rows.push_back(Of(rounds, name, [&name = name](const ContendedRun& run) { return run.counts.at(name); }));
  }
  for (Compared& row : rows) {
    const std::vector<double> logs = LogRatios(row);
    if (logs.empty()) continue;
    row.times = SpeedOf(logs, kTryAlpha / static_cast<double>(rows.size()));
    row.outcome = OutcomeOf(*row.times, "more", "less");
  }
  return rows;
}

bool IsDecided(const Rounds& rounds) {
  if (rounds.size() < kLeastContendRounds) return false;
  const std::vector<Compared> parts = PartsOf("", rounds);
  return std::all_of(parts.begin(), parts.begin() + std::min<int64_t>(parts.size(), 2),
                     [](const Compared& part) { return part.outcome != kNotTold; });
}

std::vector<Table> ContendTables(const Contended& contended) {
  const std::vector<Compared> parts = PartsOf(contended.unit, contended.rounds), places = PlacesOf(contended.rounds),
                              counts = CountsOf(contended.rounds);
  std::vector<Table> tables = {NewTable("contend", Answer(contended, parts, places), PartColumns(), parts)};
  if (!places.empty()) {
    tables.push_back(NewTable("places", "What became longer, and what by more than the rest", PlaceColumns(), places));
    tables.back().notes.push_back(
        "Phases, layers and operations of a hundredth of a step and more. A wait for a processor hits all of them: "
        "only what is beyond all other operations together is told.");
  }
  if (!counts.empty()) tables.push_back(NewTable("counters", "Counted in a step", CountColumns(), counts));
  tables.push_back(NewTable("neighbours", "What the neighbours did", NeighbourColumns(), contended.neighbours));
  return tables;
}

}  // namespace dlhook::analyzer::whatif
