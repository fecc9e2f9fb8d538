// A row of time divided by samples: sums stay, and nothing is said that so few samples do not show.
#include "analyzer/time/sample_split.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace dlhook::analyzer {
namespace sample_split_test {

constexpr int64_t kMs = 1'000'000;

// By place: so many samples of 10 ms.
SampleSums Samples(const std::vector<int64_t>& counts) {
  SampleSums sums;
  for (uint32_t place = 0; place < counts.size(); ++place) {
    for (int64_t i = 0; i < counts[place]; ++i) sums[place].Add(SumOfOne(10 * kMs));
  }
  return sums;
}

TEST(SampleSplit, TooFewSayNothing) {
  const SampleSplit split = SplitBySamples(90 * kMs, Samples({9}));
  EXPECT_TRUE(split.parts.empty());
  EXPECT_EQ(split.rest_ns, 90 * kMs);
}

TEST(SampleSplit, AsMuchCpuTimeAsTimeLeavesNoRest) {
  for (const int64_t wall_ms : {90, 100, 160}) {  // 100 ms of samples, 32 ms of standard deviation
    const SampleSplit split = SplitBySamples(wall_ms * kMs, Samples({8, 2}));
    ASSERT_EQ(split.parts.size(), 2u);
    EXPECT_EQ(split.rest_ns, 0);
    EXPECT_EQ(split.parts[0].ns, wall_ms * kMs * 8 / 10);
    EXPECT_EQ(split.parts[0].samples, 8);
  }
}

TEST(SampleSplit, LessCpuTimeIsAsItIs) {
  const SampleSplit split = SplitBySamples(200 * kMs, Samples({8, 2}));
  EXPECT_EQ(split.parts[0].ns, 80 * kMs);
  EXPECT_EQ(split.rest_ns, 100 * kMs);
}

TEST(SampleSplit, AddsUpAlways) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const int64_t wall_ns = static_cast<int64_t>(random()) * 7;
    const auto below = [&](uint32_t end) { return static_cast<int64_t>(random() % end); };
    const SampleSplit split = SplitBySamples(wall_ns, Samples({below(20), below(20), below(200)}));
    int64_t sum_ns = split.rest_ns;
    for (const SamplePart& part : split.parts) {
      EXPECT_GE(part.ns, 0);
      sum_ns += part.ns;
    }
    EXPECT_GE(split.rest_ns, 0);
    EXPECT_EQ(sum_ns, wall_ns);
  }
}

}  // namespace sample_split_test
}  // namespace dlhook::analyzer
