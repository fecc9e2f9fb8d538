#include "analyzer/work/noise.h"

#include <numbers>

namespace dlhook::analyzer::inline work {
namespace {

constexpr double kLargestCorrelation = 0.9;
constexpr double kExplainedByTrend = 0.8;  // of the variance
constexpr double kLeastGrowth = 1.5;       // from one end to the other

// Upper quantile of the normal distribution; `upper` < 0.5.
double NormalQuantile(double upper) {
  // Newton's method on erfc with a rough start; it converges for all values used here.
  double x = std::sqrt(std::max(0.0, -2 * std::log(2 * upper)));
  for (int i = 0; i < 50; ++i) {
    const double error = 0.5 * std::erfc(x / std::numbers::sqrt2) - upper;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    const double step = error / density;
    x += std::clamp(step, -0.5, 0.5);
    if (std::abs(step) < 1e-12) break;
  }
  return x;
}

double Squared(double x) { return x * x; }

double OnLine(const Trend& trend, size_t block, size_t blocks) {
  return trend.first + (trend.last - trend.first) * static_cast<double>(block) / static_cast<double>(blocks - 1);
}

double DegreesOfFreedom(const BlockMeans& blocks) {
  return static_cast<double>(blocks.size()) - (TrendOf(blocks) ? 2 : 1);
}

// Variance of the mean of the blocks.
double VarianceOfMean(const BlockMeans& blocks) {
  const double mean = MeanOf(blocks);
  const auto n = static_cast<double>(blocks.size());
  const std::optional<Trend> trend = TrendOf(blocks);
  std::vector<double> residuals;
  for (size_t i = 0; i < blocks.size(); ++i)
    residuals.push_back(blocks[i] - (trend ? OnLine(*trend, i, blocks.size()) : mean));
  double squares = 0, products = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    squares += residuals[i] * residuals[i];
    if (i > 0) products += residuals[i] * residuals[i - 1];
  }
  if (squares == 0) return 0;
  // With few blocks the estimate is too low by about (1 + 3 r) / n (Kendall, "Note on bias in the estimation of
  // autocorrelation", 1954).
  const double r = std::clamp(products / squares + (1 + 3 * products / squares) / n, 0.0, kLargestCorrelation);
  return squares / DegreesOfFreedom(blocks) / n * (1 + r) / (1 - r);
}

// Of a side's mean.
struct Error {
  double variance = 0;
  double df = 1;
};

BlockMeans MeansOfRuns(const Samples& side) {
  BlockMeans means;
  for (const BlockMeans& blocks : side) means.push_back(MeanOf(blocks));
  return means;
}

// Variance of runs about their mean.
double VarianceBetween(const Samples& side) {
  const BlockMeans means = MeansOfRuns(side);
  double squares = 0;
  for (double mean : means) squares += Squared(mean - MeanOf(means));
  return squares / static_cast<double>(means.size() - 1);
}

std::optional<Error> ErrorOf(const Samples& side, const Samples& other) {
  const auto runs = static_cast<double>(side.size());
  double within = 0;
  for (const BlockMeans& blocks : side) within += blocks.size() < 2 ? 0 : VarianceOfMean(blocks) / (runs * runs);
  if (side.size() > 1) return Error{std::max(VarianceBetween(side) / runs, within), runs - 1};
  if (other.size() > 1) {
    const double mean = MeanOf(other);
    const double scale = mean == 0 ? 1 : MeanOf(side) / mean;
    return Error{std::max(VarianceBetween(other) * scale * scale, within), static_cast<double>(other.size() - 1)};
  }
  if (side.empty() || side.front().size() < kLeastBlocks) return std::nullopt;
  return Error{within, DegreesOfFreedom(side.front())};
}

}  // namespace

Samples Scaled(Samples samples, double factor) {
  for (BlockMeans& blocks : samples) {
    for (double& block : blocks) block *= factor;
  }
  return samples;
}

double MeanOf(const BlockMeans& blocks) {
  if (blocks.empty()) return 0;
  return std::accumulate(blocks.begin(), blocks.end(), 0.0) / static_cast<double>(blocks.size());
}

std::optional<Trend> TrendOf(const BlockMeans& blocks) {
  if (blocks.size() < kLeastBlocksOfTrend) return std::nullopt;
  const double mean = MeanOf(blocks), middle = static_cast<double>(blocks.size() - 1) / 2;
  double squares = 0, of_time = 0, products = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const double at = static_cast<double>(i) - middle;
    squares += Squared(blocks[i] - mean);
    of_time += Squared(at);
    products += at * (blocks[i] - mean);
  }
  if (squares == 0 || Squared(products) < kExplainedByTrend * of_time * squares) return std::nullopt;
  const double rise = products / of_time * middle;
  const Trend trend = {std::max(mean - rise, 0.0), std::max(mean + rise, 0.0)};
  const auto [low, high] = std::minmax(trend.first, trend.last);
  return high >= kLeastGrowth * low ? std::optional(trend) : std::nullopt;
}

double StudentQuantile(double two_sided, double degrees_of_freedom) {
  const double n = degrees_of_freedom, p = two_sided;
  if (n < 1.5) return 1 / std::tan(p * std::numbers::pi / 2);
  if (n < 2.5) return std::sqrt(2 / (p * (2 - p)) - 2);
  const double a = 1 / (n - 0.5);
  const double b = 48 / (a * a);
  double c = ((20700 * a / b - 98) * a - 16) * a + 96.36;
  const double d = ((94.5 / (b + c) - 3) / b + 1) * std::sqrt(a * std::numbers::pi / 2) * n;
  double y = std::pow(d * p, 2 / n);
  if (y > 0.05 + a) {
    const double x = -NormalQuantile(p / 2);
    y = x * x;
    if (n < 5) c += 0.3 * (n - 4.5) * (x + 0.6);
    c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c;
    y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x;
    y = std::expm1(a * y * y);
  } else {
    y = ((1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * y - 1) * (n + 1) / (n + 2) +
        1 / y;
  }
  return std::sqrt(n * y);
}

double MeanOf(const Samples& samples) { return MeanOf(MeansOfRuns(samples)); }

std::optional<double> NoiseBound(const Samples& base, const Samples& new_side, size_t tests) {
  const std::optional<Error> before = ErrorOf(base, new_side), after = ErrorOf(new_side, base);
  if (!before || !after) return std::nullopt;
  const double variance = before->variance + after->variance;
  if (variance == 0) return 0;
  const double df = variance * variance /
                    (before->variance * before->variance / before->df + after->variance * after->variance / after->df);
  return StudentQuantile(kAlpha / static_cast<double>(std::max<size_t>(tests, 1)), df) * std::sqrt(variance);
}

}  // namespace dlhook::analyzer::work
