// Why a step takes another time: see causes.h.
#include "analyzer/diff/causes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/diff/contributions.h"
#include "analyzer/diff/diff_table.h"
#include "analyzer/diff/divide_change.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline diff {
namespace {

using Kind = CauseKind;

constexpr size_t kMostPlaces = 2;

std::string PlaceText(const Place& place) {
  const std::string layer = LayerLabel(place.first);
  return place.second.empty() ? layer : absl::StrCat(layer, " ", place.second);
}

// The keys with the largest sums in the direction of `change_ns`.
template <typename Key>
std::vector<Key> Largest(const std::map<Key, double>& sums, double change_ns) {
  std::vector<std::pair<double, Key>> order;
  for (const auto& [key, ns] : sums) {
    if (ns * change_ns > 0) order.emplace_back(-std::abs(ns), key);
  }
  std::sort(order.begin(), order.end());
  std::vector<Key> keys;
  for (auto& [ns, key] : order) keys.push_back(std::move(key));
  return keys;
}

std::string WhereText(const std::map<Place, double>& places, double change_ns) {
  const std::vector<Place> largest = Largest(places, change_ns);
  std::vector<std::string> names;
  for (const Place& place : largest) {
    if (!place.first.empty() && names.size() < kMostPlaces) names.push_back(PlaceText(place));
  }
  const size_t more = largest.size() - std::min(largest.size(), kMostPlaces);
  if (names.empty()) return "";
  return absl::StrCat(absl::StrJoin(names, ", "), more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

}  // namespace

const char* CauseName(CauseKind kind) {
  switch (kind) {
    case Kind::kLayers:
      return "layers";
    case Kind::kPasses:
      return "passes";
    case Kind::kCalls:
      return "calls";
    case Kind::kWork:
      return "work per call";
    case Kind::kTypes:
      return "data types";
    case Kind::kImplementation:
      return "implementation";
    case Kind::kOperations:
      return "operations";
    case Kind::kLayout:
      return "memory formats";
    case Kind::kInput:
      return "input";
    case Kind::kWaiting:
      return "waiting";
    case Kind::kCommunication:
      return "communication";
    case Kind::kPython:
      return "between calls";
    case Kind::kBusyMachine:
      return "busy machine";
    case Kind::kSlowerMachine:
      return "speed of the machine";
    case Kind::kThreads:
      return "threads";
    case Kind::kRate:
      return "rate";
    case Kind::kUnknownSizes:
      return "framework operations";
    case Kind::kOther:
      break;
  }
  return "unattributed";
}

std::string Cause::Clause() const {
  const std::string in = where.empty() ? "" : absl::StrCat(" in ", where);
  const auto with = [&](const char* words) { return absl::StrCat(words, what.empty() ? "" : ": ", what, in); };
  const bool is_more = change_ns > 0;
  switch (kind) {
    case Kind::kLayers:
      return what;
    case Kind::kPasses:
      return absl::StrCat(where, ": ", what);
    case Kind::kCalls:
      return with(is_more ? "more calls" : "fewer calls");
    case Kind::kWork:
      return with(is_more ? "more work per call" : "less work per call");
    case Kind::kTypes:
      return with("data types");
    case Kind::kImplementation:
      return with("another implementation");
    case Kind::kOperations:
      return with("other operations");
    case Kind::kLayout:
      return with("memory formats");
    case Kind::kInput:
      return is_more ? "more time for input" : "less time for input";
    case Kind::kWaiting:
      return with(is_more ? "longer waiting" : "shorter waiting");
    case Kind::kCommunication:
      return with("communication");
    case Kind::kPython:
      return absl::StrCat(is_more ? "more" : "less", " time between calls (Python or native code)", in);
    case Kind::kBusyMachine:
      return absl::StrCat(is_more ? "a busier machine: " : "a less busy machine: ", what);
    case Kind::kSlowerMachine:
      return absl::StrCat(is_more ? "a slower machine: " : "a faster machine: ", what);
    case Kind::kThreads:
      return absl::StrCat(what, ": the same work takes ", is_more ? "longer" : "less time", in);
    case Kind::kRate:
      return absl::StrCat("the same work takes ", is_more ? "longer" : "less time", in);
    case Kind::kUnknownSizes:
      return absl::StrCat("framework operations, whose sizes are not recorded, take ", is_more ? "longer" : "less time",
                          in);
    case Kind::kOther:
      break;
  }
  return "time in which nothing known was done";
}

std::vector<Cause> FindCauses(const CauseInput& input) {
  struct Sums {
    double ns = 0;
    std::map<std::string, double> what;
    std::map<Place, double> where;
  };
  std::map<Kind, Sums> kinds;
  for (const ChangePart& part : DivideChange(input)) {
    Sums& sums = kinds[part.kind];
    sums.ns += part.ns;
    sums.what[part.what] += part.ns;
    sums.where[part.place] += part.ns;
  }
  std::vector<Cause> causes;
  for (const auto& [kind, sums] : kinds) {
    if (sums.ns == 0) continue;
    const std::vector<std::string> what = Largest(sums.what, sums.ns);
    causes.push_back({kind, sums.ns, what.empty() ? "" : what.front(), WhereText(sums.where, sums.ns)});
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Cause& a, const Cause& b) { return std::abs(a.change_ns) > std::abs(b.change_ns); });
  return causes;
}

Table CausesTable(const std::vector<Cause>& causes, const Decision& decision) {
  // Whole nanoseconds that add up: what rounding leaves over is the largest one's.
  const auto whole_ns = std::llround(decision.whole.change_ns());
  std::vector<std::pair<const Cause*, int64_t>> rows;
  int64_t sum_ns = 0;
  for (const Cause& cause : causes) {
    rows.emplace_back(&cause, std::llround(cause.change_ns));
    sum_ns += rows.back().second;
  }
  if (!rows.empty()) rows.front().second += whole_ns - sum_ns;
  rows.erase(std::remove_if(rows.begin(), rows.end(), [](const auto& row) { return row.second == 0; }), rows.end());
  using Entry = std::pair<const Cause*, int64_t>;
  const TypedColumns<Entry> columns = {
      {As(Role::kKey, TextColumn("cause", "Kind of cause; docs/compare.md explains each.")),
       [](const Entry& row) { return Cell(std::string(CauseName(row.first->kind))); }},
      {Within(Range::kSigned,
              IntegerColumn("change", "ns", Better::kLower, "Of a step, new minus base; the rows add up to it.")),
       [](const Entry& row) { return Cell(row.second); }},
      {Within(Range::kSigned, RealColumn("percent", "%", Better::kLower, "The same as a part of the base's step.")),
       [&](const Entry& row) { return Percent(row.second, std::llround(decision.whole.base_ns)); }},
      {TextColumn("what", "What differs: of that which changed most."),
       [](const Entry& row) { return KnownText(row.first->what); }},
      {TextColumn("where", "Layers and directions that changed most."),
       [](const Entry& row) { return KnownText(row.first->where); }}};
  Table table =
      NewTable("causes", absl::StrCat("Why a step takes ", SignedTime(decision.whole.change_ns()), ", divided exactly"),
               columns, rows);
  return table;
}

}  // namespace dlhook::analyzer::diff
