// What a program does alone and beside neighbours, in paired rounds: what is told of it, and the tables of `dlhook contend`.
//
// Each row is a time or a count of a mean step, and has one pair of values a round: alone and beside. Their differences, or
// the logarithms of their ratios, are judged by the sequential test of contest.h, alpha divided by the rows of a table.
//
// A wait for a processor makes everything longer by about the same factor, because threads lose their processor at any point.
// So a phase, layer or operation is told to be affected more than the rest only where its ratio differs from the median ratio
// of the operations in the same rounds.
#ifndef DLHOOK_ANALYZER_WHATIF_CONTEND_TABLE_H_
#define DLHOOK_ANALYZER_WHATIF_CONTEND_TABLE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline whatif {

struct NeighbourUse {
  std::string name;
  size_t copies = 1;
  std::optional<double> intensity;  // asked for, of a built-in load
  bool moves_bytes = false;
  // Sums over all runs and copies; `seconds`: over the runs.
  double seconds = 0, processor_seconds = 0, bytes = 0;
  int64_t ended = 0;  // by itself, before it was stopped
};

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

struct Contended {
  std::string unit;  // "training step", "run"
  std::vector<NeighbourUse> neighbours;
  std::vector<std::pair<ContendedRun, ContendedRun>> rounds;  // alone, beside
};

inline constexpr size_t kLeastContendRounds = 6;
// Whether a step takes longer, and whether its processor time does, or neither by 3 %.
bool IsDecided(const Contended& contended);

// The answer's table, then places, counts, neighbours.
std::vector<Table> ContendTables(const Contended& contended);

}  // namespace dlhook::analyzer::whatif

#endif  // DLHOOK_ANALYZER_WHATIF_CONTEND_TABLE_H_
