// Compact columns against a plain array, with values that fit and values that don't.
#include "analyzer/model/compact_column.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer {
namespace {

template <typename Column>
void ExpectEqual(const Column& column, const std::vector<typename Column::value_type>& values) {
  ASSERT_EQ(column.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(column[i], values[i]) << i;
  EXPECT_TRUE(column == values);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), column.begin()));
}

// Pushes values of which one in `rare` is large, then sets some anew.
template <typename Column>
void Compare(size_t count, uint32_t rare, int64_t large) {
  std::mt19937_64 random(count + rare);
  const auto value = [&] {
    const int64_t near = static_cast<int64_t>(random() % 100) - 1;
    return static_cast<typename Column::value_type>(random() % rare == 0 ? large + near : near);
  };
  Column column;
  std::vector<typename Column::value_type> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(value());
    column.push_back(values.back());
  }
  ExpectEqual(column, values);
  for (size_t i = 0; i < count; i += 3) {
    values[i] = value();
    column.Set(i, values[i]);
  }
  ExpectEqual(column, values);
}

TEST(CompactColumnTest, FewLargeValuesAreKeptApart) {
  for (const int64_t large : {int64_t{INT32_MAX}, int64_t{INT32_MIN}, INT64_MAX - 200, INT64_MIN + 200}) {
    Compare<CompactColumn<int64_t, int32_t>>(50'000, 1000, large);
  }
  Compare<CompactColumn<NameIndex, int16_t>>(50'000, 1000, INT16_MAX - 50);
}

TEST(CompactColumnTest, ManyLargeValuesAreStoredInFull) {
  Compare<CompactColumn<int64_t, int32_t>>(50'000, 2, int64_t{1} << 40);
  Compare<CompactColumn<StackIndex, int16_t>>(50'000, 2, INT16_MAX - 50);
}

TEST(CompactColumnTest, NothingIsASmallValue) {
  CompactColumn<StackIndex, int16_t> stacks;
  stacks.Fill(3, kNone);
  ExpectEqual(stacks, {kNone, kNone, kNone});
}

TEST(CompactColumnTest, IndicesNearAndFar) {
  CompactColumn<ScopeIndex, int16_t, AsDistance> column;
  std::vector<ScopeIndex> values;
  for (ScopeIndex i = 0; i < 200'000; ++i) {
    const ScopeIndex distances[] = {1, INT16_MAX - 1, INT16_MAX, INT16_MAX + 1, 40'000};
    ScopeIndex value = i % 7 == 0 ? kNone : i - 1;
    if (i % 1000 == 0 && i >= 40'000) value = i - distances[i / 1000 % 5];
    if (i % 1000 == 1) value = i + distances[i / 1000 % 5];
    values.push_back(value);
    column.push_back(value);
  }
  ExpectEqual(column, values);
  for (ScopeIndex i = 100'000; i < 110'000; ++i) {
    values[i] = 0;
    column.Set(i, 0);
  }
  ExpectEqual(column, values);
}

TEST(RunColumnTest, RangesOfThreads) {
  RunColumn threads;
  std::vector<ThreadIndex> values;
  for (ThreadIndex thread : {0u, 3u, 4u, 9u}) values.insert(values.end(), 1 + thread * 5, thread);
  for (ThreadIndex thread : values) threads.push_back(thread);
  ASSERT_EQ(threads.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(threads[i], values[i]);
  for (ThreadIndex thread = 0; thread < 12; ++thread) {
    const auto [first, last] = std::equal_range(values.begin(), values.end(), thread);
    const auto [begin, end] = threads.RangeOf(thread);
    ASSERT_EQ(end - begin, last - first);
    if (begin < end) EXPECT_EQ(begin, first - values.begin());
  }
}

}  // namespace
}  // namespace dlhook::analyzer
