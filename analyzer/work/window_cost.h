// What recording adds to steps, by the run itself: where operations are recorded in windows (DLHOOK_BUDGET, light mode), steps
// inside of them are compared with those outside.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline work {

struct WindowCost {
  std::vector<int64_t> outside_ns;  // durations of steady steps between windows
  int64_t recorded = 0;             // steps of this kind in windows, warm-up included
  int64_t all = 0;                  // of this kind
  double added_ns = 0;              // to a step in a window: the difference of the medians
  double error_ns = 0;              // of that: one standard error

  double outside_mean_ns() const;
  // Whether the difference is more than chance.
  bool IsSeen() const { return added_ns > 2 * error_ns; }
};

// Nothing if there are no windows, or too few steps inside or outside.
std::optional<WindowCost> CostOfWindows(const StepFacts& facts);

}  // namespace dlhook::analyzer::work
