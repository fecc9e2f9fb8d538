// Finds the repeating step in a sequence of ops. It is independent of traces, so that tests can write sequences down
// and it can be applied to parts of its own result.
//
// A call that happens once in every step cuts the sequence into pieces with the same calls. So every op, and every pair
// of adjacent ops, is tried as a cut. Pieces are compared as bags (multisets), because the order of threads may vary
// within a step. The cut whose equal pieces cover most of the sequence is a period. Of several nested periods
//   layer (a transformer's blocks)  <  step  <  epoch
// the step is the longest one that is not an epoch. An epoch contains, in addition to repetitions of the shorter
// period, more of the same work at the same or another batch size (an evaluation loop, a smaller last batch).
#pragma once

#include <cstddef>

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline steps {

// What the finder needs to know about a distinct op.
struct StepSymbol {
  enum class Pass { kUnknown, kForward, kBackward };
  Pass pass = Pass::kUnknown;
  // The same op at another batch size has an entry with equal `rest` and another `batch`. Several entries if it is not
  // known which number is the batch size (gemm).
  struct BatchVariant {
    uint64_t rest = 0;
    int64_t batch = 0;
  };
  std::vector<BatchVariant> variants;
  // Equal and not 0: the same work at an unknown other batch size (a kernel's grid is no measure of it).
  uint64_t any_batch = 0;
};

// Calls in the order of their starts, as parallel arrays; `symbol` indexes `symbols`.
struct StepSequence {
  std::vector<uint32_t> symbol;
  std::vector<int64_t> start_ns;
  std::vector<int64_t> end_ns;
  std::vector<StepSymbol> symbols;
  size_t size() const { return symbol.size(); }
};

struct StepPattern {
  // Positions in the sequence at which steps begin, ascending; empty if nothing repeats. Calls before the first one
  // belong to no step; the last step extends to the end of the sequence.
  std::vector<size_t> starts;
  std::vector<bool> regular;  // per step: contains exactly the calls that most steps contain
  size_t period = 0;          // calls of a regular step
  double coverage = 0;        // part of the sequence covered by regular steps
};

StepPattern FindSteps(const StepSequence& sequence);

}  // namespace dlhook::analyzer::steps
