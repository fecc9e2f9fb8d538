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

TEST(CompactColumnTest, ByteThenTwoThenInFull) {
  for (const int64_t large : {int64_t{INT8_MAX} - 50, int64_t{INT8_MIN}, int64_t{INT16_MAX} - 50, int64_t{1} << 40}) {
    for (const uint32_t rare : {1000u, 2u}) {
      Compare<CompactColumn<int64_t, int8_t>>(50'000, rare, large);
      Compare<NearColumn<int64_t, int8_t>>(50'000, rare, large);
    }
  }
  for (const int64_t large : {200, 300, INT16_MAX - 50})
    Compare<CompactColumn<uint32_t, int8_t, AsNumber>>(50'000, 2, large);
}

TEST(CompactColumnTest, NothingIsASmallValue) {
  CompactColumn<StackIndex, int16_t> stacks;
  stacks.Fill(3, kNone);
  ExpectEqual(stacks, {kNone, kNone, kNone});
}

TEST(CompactColumnTest, IndicesNearAndFar) {
  CompactColumn<ScopeIndex, int8_t, AsDistance> column;
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

// A column that is filled from the back has no values in front while it may already have to store all of them in full.
template <typename Column>
void CompareFromTheBack(const std::vector<typename Column::value_type>& values) {
  Column column;
  column.push_back(7);
  column.Resize(1 + values.size());
  for (size_t i = values.size(); i-- > 0;) column.Set(1 + i, values[i]);
  std::vector<typename Column::value_type> all = {7};
  all.insert(all.end(), values.begin(), values.end());
  ExpectEqual(column, all);
  column.Resize(10);
  all.resize(10);
  ExpectEqual(column, all);
  column.push_back(8);
  all.push_back(8);
  ExpectEqual(column, all);
}

TEST(CompactColumnTest, FilledFromTheBack) {
  std::vector<int64_t> small, large;
  for (int64_t i = 0; i < 50'000; ++i) {
    small.push_back(i % 1000 == 0 ? i << 40 : i);
    large.push_back(i << 40);
  }
  CompareFromTheBack<CompactColumn<int64_t, int8_t>>(small);
  CompareFromTheBack<CompactColumn<int64_t, int8_t>>(large);
  CompareFromTheBack<NearColumn<int64_t, int8_t>>(small);
  CompareFromTheBack<CompactColumn<int64_t, int32_t>>(small);
  CompareFromTheBack<CompactColumn<int64_t, int32_t>>(large);
  CompareFromTheBack<NearColumn<int64_t, int32_t>>(small);
  CompareFromTheBack<NearColumn<int64_t, int32_t>>(large);
}

TEST(NearColumnTest, NearFarAndNothing) {
  for (const int64_t large : {int64_t{INT16_MAX}, int64_t{INT16_MIN}, INT64_MAX - 200, INT64_MIN + 200}) {
    Compare<NearColumn<int64_t, int16_t>>(50'000, 1000, large);
    Compare<NearColumn<int64_t, int16_t>>(50'000, 2, large);
  }
  Compare<NearColumn<uint32_t, int16_t>>(50'000, 1000, INT16_MAX - 50);
  NearColumn<uint32_t, int16_t> units;
  for (int i = 0; i < 70; ++i) units.push_back(kNone);
  ExpectEqual(units, std::vector<uint32_t>(70, kNone));
  units.Set(1, 0);  // 0 is a value like any other
  units.Set(2, 9);
  EXPECT_EQ(units[1], 0u);
  EXPECT_EQ(units[2], 9u);
}

TEST(NearColumnTest, ValuesThatAscend) {
  NearColumn<int64_t, int32_t> starts;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < 10'000; ++i) values.push_back(i * i * 1'000'000 - 5);
  for (const int64_t value : values) starts.push_back(value);
  ExpectEqual(starts, values);
  for (const int64_t value : {int64_t{-6}, int64_t{-5}, int64_t{1'000'000'000}, INT64_MAX}) {
    EXPECT_EQ(std::upper_bound(starts.begin() + 3, starts.end(), value) - starts.begin(),
              std::upper_bound(values.begin() + 3, values.end(), value) - values.begin());
  }
}

TEST(RecurringColumnTest, HoldsWhatWasSetFromBackToFront) {
  std::mt19937 random(7);
  for (const uint32_t distinct : {3u, 50'000u}) {  // fewer and more than 2 bytes can number
    std::vector<uint32_t> values;
    for (int i = 0; i < 100'000; ++i) values.push_back(i % 3 != 0 ? static_cast<uint32_t>(i) % 7 : random() % distinct);
    RecurringColumn<uint32_t> column;
    column.Resize(values.size());
    for (size_t i = values.size(); i-- > 0;) column.Set(i, values[i]);
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(column[i], values[i]) << i;
    for (size_t i = 1; i < values.size(); ++i) {
      ASSERT_EQ(column.IndexAt(i) == column.IndexAt(i - 1), values[i] == values[i - 1]) << i;
    }
  }
}

TEST(RunColumnTest, Resized) {
  RunColumn threads;
  threads.Resize(3, 0);
  threads.Resize(5, 2);
  threads.Resize(4, 2);
  threads.Resize(6, 7);
  const ThreadIndex expected[] = {0, 0, 0, 2, 7, 7};
  ASSERT_EQ(threads.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(threads[i], expected[i]);
  threads.Resize(3, 7);
  EXPECT_EQ(threads.RangeOf(2), (std::pair<uint32_t, uint32_t>(0, 0)));
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
    if (begin < end) {
      EXPECT_EQ(begin, first - values.begin());
    }
  }
}

}  // namespace
}  // namespace dlhook::analyzer
