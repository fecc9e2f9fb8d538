// The tables of `dlhook contend`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/table/table.h"
#include "analyzer/whatif/contend_rows.h"

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

struct Contended {
  std::string unit;  // "training step", "run"
  std::vector<NeighbourUse> neighbours;
  Rounds rounds;
};

// The answer's table, then places, counts, neighbours.
std::vector<Table> ContendTables(const Contended& contended);

}  // namespace dlhook::analyzer::whatif
