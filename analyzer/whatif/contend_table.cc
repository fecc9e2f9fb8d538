// See contend_table.h.
#include "analyzer/whatif/contend_table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/tables/columns.h"
#include "analyzer/whatif/try_table.h"

namespace dlhook::analyzer::inline whatif {
namespace {

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
  columns.Add(RatioColumns("beyond", "The same, relative to all other operations together in the same rounds.",
                           &Compared::beyond));
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
