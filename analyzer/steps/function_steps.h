// Steps in runs of TensorFlow's functions. Its executor starts whatever is ready: variables are read and some gradients
// computed before the forward pass, some weights updated before the gradients of others, and a loop repeats layers.
#pragma once

#include "analyzer/steps/moments.h"

namespace dlhook::analyzer::inline steps {

class FunctionSteps {
 public:
  explicit FunctionSteps(const Moments& moments);

  // For moments in a function: those of one step have the same number. A function is as many steps as its last update repeats
  // (passes without gradients in it belong to them); one that updates no weights, as many as it fetches batches, or one.
  size_t NumberOf(const Moment& moment) const;
  // Whether it is ahead of what it belongs to: a gradient before the last part of the forward pass, an update before the
  // last gradient. No more than half of the gradients are, for a forward pass may have a part behind them.
  bool IsAhead(size_t number, const Moment& moment) const;

 private:
  struct Step {
    int64_t end_ns = 0;
    int64_t function = -1;
    int64_t backward_from_ns = 0;
    int64_t updates_from_ns = 0;
  };

  std::vector<Step> steps_;  // ascending
};

}  // namespace dlhook::analyzer::steps
