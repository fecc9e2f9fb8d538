// Finds the repeating step in a sequence of ops. Pure: it knows nothing of traces, so that tests
// can write sequences down, and layers can be looked for inside of what it finds.
//
// How: a call that happens once in every step cuts the sequence into pieces that hold the same
// calls. So every op, and every pair of neighbours, is tried as a cut; pieces are compared as bags
// (threads may change places inside a step). What covers most of the sequence with equal pieces is
// a period. Of several periods inside each other
//   layer (a transformer's blocks)  <  step  <  epoch
// the step is the longest one that isn't an epoch, and an epoch is known by what it holds beside
// repetitions of the shorter period: more of the same work, at the same or another batch size (an
// evaluation loop, the last smaller batch).
#ifndef DLHOOK_ANALYZER_STEPS_ITERATION_FINDER_H_
#define DLHOOK_ANALYZER_STEPS_ITERATION_FINDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dlhook::analyzer::inline steps {

// What the finder needs to know of one distinct op.
struct StepSymbol {
  enum class Pass { kUnknown, kForward, kBackward };
  Pass pass = Pass::kUnknown;
  // The same op at another batch size has an entry with equal `rest` and another `batch`. Several
  // entries where it isn't known which number is the batch size (gemm).
  struct BatchVariant {
    uint64_t rest = 0;
    int64_t batch = 0;
  };
  std::vector<BatchVariant> variants;
  // Equal and not 0: the same work at some other batch size, which the op does not tell (a kernel's
  // grid is no measure of it).
  uint64_t any_batch = 0;
};

// Calls in the order in which they began, as parallel arrays; `symbol` indexes `symbols`.
struct StepSequence {
  std::vector<uint32_t> symbol;
  std::vector<int64_t> start_ns;
  std::vector<int64_t> end_ns;
  std::vector<StepSymbol> symbols;
  size_t size() const { return symbol.size(); }
};

struct StepPattern {
  // Positions in the sequence at which steps begin, ascending; empty if nothing repeats. Calls
  // before the first one belong to no step; the last step goes to the end of the sequence.
  std::vector<size_t> starts;
  std::vector<bool> regular;  // per step: holds exactly the calls that most steps hold
  size_t period = 0;          // calls of a regular step
  double coverage = 0;        // part of the sequence that regular steps make up
};

StepPattern FindSteps(const StepSequence& sequence);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_ITERATION_FINDER_H_
