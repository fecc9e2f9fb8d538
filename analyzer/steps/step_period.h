// First half of the step finder: how long a step is. See step_finder.h.
#pragma once

#include <optional>

#include "analyzer/steps/step_finder.h"

namespace dlhook::analyzer::inline steps {

// Sums of hashed symbols: equal sums of two pieces mean equal bags of calls (with an error probability of 2^-64).
class BagSums {
 public:
  explicit BagSums(const std::vector<uint32_t>& symbols);
  uint64_t Of(size_t begin, size_t end) const { return sums_[end] - sums_[begin]; }

 private:
  std::vector<uint64_t> sums_;
};

// The pieces between cuts that have the bag which covers most calls.
struct Cuts {
  std::vector<size_t> positions;  // where pieces begin; the last one extends to the end of the sequence
  uint64_t bag = 0;               // the most frequent bag, by calls
  size_t length = 0;              // calls in it
  size_t count = 0;               // pieces with this bag
  double coverage = 0;            // count * length, as a part of the sequence
};
Cuts EvaluateCuts(std::vector<size_t> positions, const BagSums& bags, size_t size);

// The cuts of the step's period at some call of the step; nullopt if nothing repeats.
std::optional<Cuts> FindPeriod(const StepSequence& sequence, const BagSums& bags);

// The ratios of batch sizes at which `a` and `b` are the same work, as reduced fractions: 1/1 for the same op, none for
// different work, several if it is not known which number is the batch size.
struct Ratio {
  int64_t numerator = 1;
  int64_t denominator = 1;
  auto operator<=>(const Ratio&) const = default;
};
std::vector<Ratio> BatchRatios(const StepSequence& sequence, uint32_t a, uint32_t b);

}  // namespace dlhook::analyzer::steps
