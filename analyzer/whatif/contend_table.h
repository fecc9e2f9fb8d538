// The tables of `dlhook contend`.
#pragma once

#include "analyzer/table/table.h"
#include "analyzer/whatif/contest.h"

namespace dlhook::analyzer::inline whatif {

// What a program does alone and beside neighbours, in paired rounds, and what is told of it.
//
// Each row is a time or a count of a mean step, and has one pair of values a round: alone and beside. Their differences, or
// the logarithms of their ratios, are judged by the sequential test of contest.h, alpha divided by the rows of a table.
//
// A wait for a processor makes everything longer by about the same factor, because threads lose their processor at any point.
// So a phase, layer or operation is told to be affected more than the rest only where its ratio differs from that of all other
// operations together in the same rounds.
enum class PlaceLevel : uint8_t { kPhase, kLayer, kOperation };
struct ContendedPlace {
  PlaceLevel level = PlaceLevel::kPhase;
  std::string name, problem;  // problem: of an operation
  auto operator<=>(const ContendedPlace&) const = default;
};

// Of a step's thread; together its wall time.
struct StepStates {
  double running_ns = 0, waiting_ns = 0, blocked_ns = 0;
};

// One run; all of a mean step.
struct ContendedRun {
  double wall_ns = 0, cpu_ns = 0;    // cpu_ns: of all threads
  std::optional<StepStates> states;  // unset: not seen
  std::map<ContendedPlace, double> places_ns;
  std::map<std::string, double> counts;
};

using Rounds = std::vector<std::pair<ContendedRun, ContendedRun>>;  // alone, beside

inline constexpr char kNotTold[] = "not told apart", kUnchanged[] = "unchanged";
inline constexpr char kBeyond[] = "more than the rest", kWithin[] = "less than the rest", kOnlyBeside[] = "only beside";

// A row: its values in each round.
struct Compared {
  std::string name;
  std::string words = {};  // in the answer; of an operation its problem
  PlaceLevel level = PlaceLevel::kPhase;
  std::vector<double> alone, beside;
  // The change of the mean and its bounds; where all values are positive also the ratio, and that relative to the rest.
  double change = 0;
  std::optional<double> low, high;
  std::optional<Speed> times, beyond;
  std::string outcome = kNotTold;

  double Alone() const;  // means
  double Beside() const;
};

bool IsBeyond(const Compared& place);

// The step (`unit`), then what it consists of.
std::vector<Compared> PartsOf(const std::string& unit, const Rounds& rounds);
// Those of a hundredth of a step and more; what is beyond the rest first, then by level, the longest first.
std::vector<Compared> PlacesOf(const Rounds& rounds);
std::vector<Compared> CountsOf(const Rounds& rounds);

inline constexpr size_t kLeastContendRounds = 6;
// Whether a step takes longer, and whether its processor time does, or neither by 3 %.
bool IsDecided(const Rounds& rounds);

struct NeighbourUse {
  std::string name;
  size_t copies = 1;
  std::optional<double> intensity;  // asked for, of a built-in load
  bool moves_bytes = false;
  // Sums over all runs and copies; `seconds`: over the runs.
  double seconds = 0, processor_seconds = 0, bytes = 0;
  int64_t ended = 0;  // by itself, before it was stopped
};

struct Contended {
  std::string unit;  // "training step", "run"
  std::vector<NeighbourUse> neighbours;
  Rounds rounds;
};

// The answer's table, then places, counts, neighbours.
std::vector<Table> ContendTables(const Contended& contended);

}  // namespace dlhook::analyzer::whatif
