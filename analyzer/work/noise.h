// How much two means of a quantity per step differ by chance.
//
// Consecutive steps are correlated (another program's load comes and goes), so their own variance would promise too
// much. The steps of a run are cut into blocks of consecutive steps, and the means of the blocks are the samples: the
// method of batch means (Law, "Simulation Modeling and Analysis", 9.5.3; 10 to 30 batches: Schmeiser, "Batch size
// effects in the analysis of simulation output", 1982). The bound is that of Welch's test for unequal variances, with
// Satterthwaite's degrees of freedom:
//
//     bound = t(1 - alpha/2, df) * sqrt(se_base^2 + se_new^2)        se^2 = s^2 / n * (1 + r) / (1 - r)
//
// s: standard deviation of the n block means; r: their lag-1 autocorrelation if positive (at most 0.9), for the
// correlation that remains between blocks. If many rows are tested, alpha is divided by their number (Bonferroni).
//
// Steps that grow (or shrink) steadily do not scatter: then s is that of the block means about their line of least
// squares, with n - 2 degrees of freedom.
//
// A difference between the runs as a whole (a busier or slower machine, another placement in memory) does not show in
// the variance within either run: with one run a side, only Pace in changes.h covers some of it. With several runs a
// side, their means are the samples, so that the bound contains what varies between runs and within them (Kalibera and
// Jones, "Rigorous benchmarking in reasonable time", 2013: repeat at the highest level that varies):
//
//     se^2 = max(s_runs^2 / runs, sum over runs of se_run^2 / runs^2)        df = runs - 1
//
// Runs that agree by chance don't promise more than their steps allow: hence the maximum. A side of one run is taken to
// vary as the other side's runs do, relative to its mean.
#pragma once

#include <cstddef>

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline work {

using BlockMeans = std::vector<double>;   // of consecutive blocks of steps, in order of time
using Samples = std::vector<BlockMeans>;  // of each run of a side

inline constexpr size_t kBlocks = 15;      // into which the steps of a run are cut, if there are enough
inline constexpr size_t kLeastBlocks = 3;  // with fewer the variance is not known
inline constexpr double kAlpha = 0.01;

// A steady growth or decrease, by the line of least squares, which explains 80 % of the variance of the block means.
struct Trend {
  double first = 0;  // on the line, at the first block …
  double last = 0;   // … and the last; neither is below zero
  bool IsGrowth() const { return last > first; }
};
// nullopt: there is none, there are fewer than kLeastBlocksOfTrend blocks, or it is less than half of the lower end.
std::optional<Trend> TrendOf(const BlockMeans& blocks);
inline constexpr size_t kLeastBlocksOfTrend = 6;

// Bound for |mean(new) - mean(base)|. Unknown if both sides have one run and one of them fewer than kLeastBlocks
// blocks.
std::optional<double> NoiseBound(const Samples& base, const Samples& new_side, size_t tests = 1);

Samples Scaled(Samples samples, double factor);
double MeanOf(const BlockMeans& blocks);  // 0 if empty
double MeanOf(const Samples& samples);    // over runs, each of which counts the same

// The value that is in place `rank` of the ascending ones; reorders them.
template <typename Value>
Value NthOf(std::vector<Value>& values, size_t rank) {
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}
// The entry of a map with the largest value, or the largest of what `of` makes of it; of equal ones the first; end(): it is empty.
template <typename Map, typename Of = std::identity>
auto MostOf(const Map& map, Of of = {}) {
  return std::ranges::max_element(map, {}, [&](const auto& entry) { return std::invoke(of, entry.second); });
}

template <typename Value>
Value MedianOf(std::vector<Value> values) {
  return NthOf(values, values.size() / 2);
}

// Quantile of Student's t distribution: Hill, "Algorithm 396: Student's t-quantiles", 1970. `two_sided` is the
// probability outside +-quantile.
double StudentQuantile(double two_sided, double degrees_of_freedom);

}  // namespace dlhook::analyzer::work
