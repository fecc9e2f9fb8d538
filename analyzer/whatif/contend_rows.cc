// See contend_rows.h.
#include "analyzer/whatif/contend_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

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
  return std::all_of(rounds.begin(), rounds.end(),
                     [](const auto& round) { return round.first.states && round.second.states; });
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

}  // namespace dlhook::analyzer::whatif
