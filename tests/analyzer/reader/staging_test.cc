// Large staging arrays, of which pages are touched before they are used.
#include "analyzer/reader/staging.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/model/beside.h"

namespace dlhook::analyzer {
namespace {

constexpr size_t kManyValues = (size_t{100} << 20) / sizeof(uint64_t);

uint64_t ValueAt(size_t i) { return i * 0x9E3779B97F4A7C15; }

void Add(size_t count, StagingArray<uint64_t>* array) {
  for (const size_t end = array->size() + count; array->size() < end; array->Commit(1)) {
    *array->Reserve(1) = ValueAt(array->size());
  }
}

size_t ResidentBytes(const void* data, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  EXPECT_EQ(mincore(const_cast<void*>(data), bytes, pages.data()), 0);
  return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](int p) { return (p & 1) != 0; })) * page;
}

bool TouchesAhead() {
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return MayUseTwoProcessors() && madvise(page, 4096, MADV_POPULATE_WRITE) == 0;
}

TEST(StagingTest, LargeOnesKeepWhatIsAddedWhileTheyGrowAndMove) {
  StagingArray<uint64_t> first;
  Add(kManyValues / 2, &first);
  StagingArray<uint64_t> array(std::move(first));
  Add(kManyValues / 2, &array);
  for (size_t i = array.size(); i-- > 0;) ASSERT_EQ(array.TakeLast(), ValueAt(i));
  Add(kManyValues, &array);
  for (size_t i = array.size(); i-- > 0;) ASSERT_EQ(array.TakeLast(), ValueAt(i));
}

TEST(StagingTest, WhatWasTouchedAheadIsReturned) {
  constexpr size_t kBytes = kManyValues * sizeof(uint64_t), kCapacityBytes = size_t{128} << 20;
  StagingArray<uint64_t> array;
  Add(kManyValues, &array);
  const void* const data = array.values().data();
  const size_t least_bytes = kBytes + (TouchesAhead() ? size_t{4} << 20 : 0);
  for (int i = 0; i < 2000 && ResidentBytes(data, kCapacityBytes) < least_bytes; ++i) usleep(1000);
  EXPECT_GE(ResidentBytes(data, kCapacityBytes), least_bytes);
  EXPECT_LE(ResidentBytes(data, kCapacityBytes), kBytes + (size_t{12} << 20));
  while (array.size() > 0) array.TakeLast();
  EXPECT_LE(ResidentBytes(data, kCapacityBytes), size_t{2} << 20);
}

}  // namespace
}  // namespace dlhook::analyzer
