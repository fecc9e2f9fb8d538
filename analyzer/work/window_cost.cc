#include "analyzer/work/window_cost.h"

#include <cmath>
#include <numeric>

#include "analyzer/steps/measured_steps.h"

namespace dlhook::analyzer::inline work {
namespace {

constexpr size_t kLeastInside = 4;
constexpr size_t kLeastOutside = 8;

// The variance of a median, from the interquartile range: (pi / 2) of a mean's, as of a normal distribution.
double VarianceOfMedian(const Quartiles& quartiles, size_t count) {
  constexpr double kRangeOfNormal = 1.349;  // in standard deviations
  const double deviation = static_cast<double>(quartiles.upper - quartiles.lower) / kRangeOfNormal;
  return M_PI / 2 * deviation * deviation / static_cast<double>(count);
}

}  // namespace

double WindowCost::outside_mean_ns() const {
  return std::accumulate(outside_ns.begin(), outside_ns.end(), 0.0) / static_cast<double>(outside_ns.size());
}

std::optional<WindowCost> CostOfWindows(const StepFacts& facts) {
  if (facts.model().scope_windows.empty() || !facts.HasSteps()) return std::nullopt;
  WindowCost cost;
  std::vector<int64_t> inside_ns, first_ns;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    for (const Step& step : track.steps) {
      if (step.kind != facts.steps().kind) continue;
      ++cost.all;
      cost.recorded += step.has_scopes ? 1 : 0;
      if (step.is_warm_up || !step.is_regular || &step == &track.steps.back()) continue;
      // The first window is long and has no steps before it to compare with.
      const bool is_first = step.has_scopes && cost.recorded == cost.all;
      (is_first ? first_ns : step.has_scopes ? inside_ns : cost.outside_ns).push_back(step.end_ns - step.start_ns);
    }
  }
  if (inside_ns.size() < kLeastInside) inside_ns.insert(inside_ns.end(), first_ns.begin(), first_ns.end());
  if (inside_ns.size() < kLeastInside || cost.outside_ns.size() < kLeastOutside) return std::nullopt;
  const Quartiles inside = QuartilesOf(inside_ns), outside = QuartilesOf(cost.outside_ns);
  cost.added_ns = static_cast<double>(inside.median - outside.median);
  cost.error_ns =
      std::sqrt(VarianceOfMedian(inside, inside_ns.size()) + VarianceOfMedian(outside, cost.outside_ns.size()));
  return cost;
}

}  // namespace dlhook::analyzer::work
