// Medians and quartiles; look-up.
#include "analyzer/peaks/calibration.h"

#include <algorithm>

namespace dlhook::analyzer::inline peaks {
namespace {

// Linear between neighbours (Hyndman and Fan's definition 7).
double Quantile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Spread SpreadOf(std::vector<double> values, bool is_rate) {
  std::sort(values.begin(), values.end());
  return {.best = is_rate ? values.back() : values.front(),
          .median = Quantile(values, 0.5),
          .low = Quantile(values, 0.25),
          .high = Quantile(values, 0.75),
          .repeats = static_cast<int>(values.size())};
}

const Measurement* Calibration::Find(absl::string_view what, uint32_t threads) const {
  for (const Measurement& measurement : measured) {
    if (measurement.what == what && measurement.threads == threads) return &measurement;
  }
  return nullptr;
}

}  // namespace dlhook::analyzer::peaks
