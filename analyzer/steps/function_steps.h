// Steps in runs of TensorFlow's functions. Its executor starts whatever is ready: variables are read and some gradients
// computed before the forward pass, some weights updated before the gradients of others, and a loop repeats layers.
#pragma once

#include "analyzer/steps/moments.h"

namespace dlhook::analyzer::inline steps {

class FunctionSteps {
 public:
  explicit FunctionSteps(const Moments& moments);

  // Moments of one step have the same number. A function that updates no weights is one step, else it is as many as its
  // last update repeats. For moments in a function.
  size_t NumberOf(const Moment& moment) const;
  // Whether it is ahead of what it belongs to: a gradient before the end of the forward pass, an update before the last
  // gradient. No more than half of the gradients are, for a forward pass may have a part behind them.
  bool IsAhead(const Moment& moment) const;

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
