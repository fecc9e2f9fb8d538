// Sets of intervals: random ones against a bitmap.
#include "analyzer/time/intervals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace dlhook::analyzer {
namespace {

constexpr int64_t kMoments = 96;
using Bitmap = std::array<int, kMoments>;  // how many intervals cover each nanosecond

class IntervalsTest : public testing::TestWithParam<uint32_t> {
 protected:
  int64_t Random(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }

  // Including empty and reversed ones; many are adjacent.
  std::vector<Interval> RandomIntervals() {
    std::vector<Interval> intervals(static_cast<size_t>(Random(14)));
    for (Interval& interval : intervals) {
      interval.start_ns = Random(kMoments / 4) * 4;
      interval.end_ns = std::min(kMoments, interval.start_ns + Random(20) - 2);
    }
    return intervals;
  }

  std::mt19937 random_{GetParam()};
};

Bitmap BitmapOf(const std::vector<Interval>& intervals) {
  Bitmap bitmap = {};
  for (const Interval& interval : intervals) {
    for (int64_t ns = interval.start_ns; ns < interval.end_ns; ++ns) ++bitmap[static_cast<size_t>(ns)];
  }
  return bitmap;
}

template <typename IsIn>
std::vector<Interval> Where(IsIn is_in) {
  std::vector<Interval> intervals;
  for (int64_t ns = 0; ns < kMoments; ++ns) {
    if (!is_in(static_cast<size_t>(ns))) continue;
    if (intervals.empty() || intervals.back().end_ns < ns) intervals.push_back({ns, ns});
    intervals.back().end_ns = ns + 1;
  }
  return intervals;
}

TEST_P(IntervalsTest, AreWhatABitmapSays) {
  const std::vector<Interval> a_list = RandomIntervals(), b_list = RandomIntervals();
  const IntervalSet a(a_list), b(b_list);
  const Bitmap in_a = BitmapOf(a_list), in_b = BitmapOf(b_list);
  EXPECT_EQ(a.intervals(), Where([&](size_t i) { return in_a[i] > 0; }));
  EXPECT_EQ(a.Union(b).intervals(), Where([&](size_t i) { return in_a[i] > 0 || in_b[i] > 0; }));
  EXPECT_EQ(a.Intersection(b).intervals(), Where([&](size_t i) { return in_a[i] > 0 && in_b[i] > 0; }));
  EXPECT_EQ(a.Difference(b).intervals(), Where([&](size_t i) { return in_a[i] > 0 && in_b[i] == 0; }));
  EXPECT_EQ(CoveredTwice(a_list).intervals(), Where([&](size_t i) { return in_a[i] > 1; }));
  EXPECT_EQ(a.total_ns(), std::count_if(in_a.begin(), in_a.end(), [](int count) { return count > 0; }));
  const int64_t from = Random(kMoments + 8) - 4, to = Random(kMoments + 8) - 4;
  const auto is_between = [&](size_t i) { return static_cast<int64_t>(i) >= from && static_cast<int64_t>(i) < to; };
  const std::vector<Interval> clipped = Where([&](size_t i) { return in_a[i] > 0 && is_between(i); });
  EXPECT_EQ(a.CoveredNs(from, to), IntervalSet(clipped).total_ns());
}

TEST_P(IntervalsTest, FinderHasWhatTheBitmapHas) {
  const IntervalSet set(RandomIntervals());
  const Bitmap bitmap = BitmapOf(set.intervals());
  IntervalFinder finder(set.intervals());
  for (int64_t ns = 0; ns < kMoments; ++ns) ASSERT_EQ(finder.Has(ns), bitmap[static_cast<size_t>(ns)] > 0) << ns;
  for (int i = 0; i < 200; ++i) {
    const int64_t ns = Random(kMoments);
    ASSERT_EQ(finder.Has(ns), bitmap[static_cast<size_t>(ns)] > 0) << ns;
  }
}

INSTANTIATE_TEST_SUITE_P(Random, IntervalsTest, testing::Range(0u, 400u));

TEST(IntervalsTest, NothingIsNothing) {
  EXPECT_TRUE(IntervalSet().empty());
  EXPECT_TRUE(IntervalSet({{5, 5}, {9, 3}}).empty());
  EXPECT_EQ(IntervalSet().total_ns(), 0);
  EXPECT_EQ(IntervalSet().CoveredNs(0, 10), 0);
}

}  // namespace
}  // namespace dlhook::analyzer
