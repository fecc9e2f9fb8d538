// See sample_split.h.
#include "analyzer/time/sample_split.h"

#include <algorithm>
#include <cmath>

namespace dlhook::analyzer::inline time {

SampleSum SumOfOne(int64_t cpu_ns) { return {1, cpu_ns, static_cast<double>(cpu_ns) * static_cast<double>(cpu_ns)}; }

void AddTo(const SampleSums& from, SampleSums& to) {
  for (const auto& [place, sum] : from) to[place].Add(sum);
}

SampleSplit SplitBySamples(int64_t wall_ns, const SampleSums& places) {
  SampleSum all;
  for (const auto& [place, sum] : places) all.Add(sum);
  SampleSplit split = {.rest_ns = wall_ns};
  if (all.samples < kFewestOfRow || all.cpu_ns <= 0) return split;
  const auto cpu_ns = static_cast<double>(all.cpu_ns);
  const bool waits = cpu_ns + 2 * std::sqrt(all.square) < static_cast<double>(wall_ns);
  const int64_t computing_ns = waits ? all.cpu_ns : wall_ns;
  for (const auto& [place, sum] : places) {
    const double part = static_cast<double>(sum.cpu_ns) / cpu_ns;
    const auto ns = static_cast<int64_t>(part * static_cast<double>(computing_ns));
    split.parts.push_back({place, sum.samples, std::min(ns, split.rest_ns)});
    split.rest_ns -= split.parts.back().ns;
  }
  if (waits) return split;
  std::max_element(split.parts.begin(), split.parts.end(), [](const SamplePart& a, const SamplePart& b) {
    return a.ns < b.ns;
  })->ns += split.rest_ns;
  split.rest_ns = 0;
  return split;
}

}  // namespace dlhook::analyzer::time
