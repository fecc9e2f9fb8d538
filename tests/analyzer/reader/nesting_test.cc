// Which call contains which: recorded parents, adoption by tap calls, clipping.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/scope_nesting.h"

namespace dlhook::analyzer {
namespace {

ClockMap Nanoseconds() {
  trace::Clock clock;
  clock.set_kind(trace::Clock::MONOTONIC);
  return ClockMap(clock, {}, nullptr);
}

StagedCall Hook(uint64_t sequence, int64_t start, int64_t end, uint64_t parent = 0) {
  return {end, end - start, sequence, 0, parent == 0 ? 0 : static_cast<uint32_t>(sequence - parent)};
}

StagedCall Tap(uint64_t sequence, int64_t start, int64_t end, uint64_t parent = 0) {
  StagedCall call = Hook(sequence, start, end, parent);
  call.op |= kTapCall;
  return call;
}

// Nested calls as "sequence[start,end]", with "<parent" after those that have one, in their new order.
std::vector<std::string> Nest(std::vector<StagedCall> calls, NestingCounts* counts = nullptr) {
  NestingCounts ignored;
  NestCalls(Nanoseconds(), absl::MakeSpan(calls), counts == nullptr ? &ignored : counts);
  std::vector<std::string> result;
  for (const StagedCall& call : calls) {
    result.push_back(absl::StrCat(call.sequence, "[", call.time, ",", call.time + call.duration, "]"));
    if (call.parent != kNone) absl::StrAppend(&result.back(), "<", calls[call.parent].sequence);
  }
  return result;
}

using Strings = std::vector<std::string>;

TEST(Nesting, PutsHooksIntoTheirRecordedParents) {
  EXPECT_EQ(Nest({Hook(1, 0, 90), Hook(4, 110, 120, 3), Hook(3, 105, 130, 2), Hook(5, 140, 150, 2), Hook(2, 100, 200),
                  Hook(6, 210, 220)}),
            (Strings{"1[0,90]", "2[100,200]", "3[105,130]<2", "4[110,120]<3", "5[140,150]<2", "6[210,220]"}));
}

TEST(Nesting, LetsATapCallAdoptTheHooksInsideIt) {
  EXPECT_EQ(Nest({Hook(1, 5'000, 9'000), Hook(2, 10'000, 12'000), Tap(3, 2'000, 20'000), Hook(4, 30'000, 31'000)}),
            (Strings{"3[2000,20000]", "1[5000,9000]<3", "2[10000,12000]<3", "4[30000,31000]"}));
}

TEST(Nesting, KeepsTheChildrenOfAdoptedHooks) {
  EXPECT_EQ(Nest({Hook(2, 5'100, 8'000, 1), Hook(1, 5'000, 9'000), Tap(3, 2'000, 20'000)}),
            (Strings{"3[2000,20000]", "1[5000,9000]<3", "2[5100,8000]<1"}));
}

TEST(Nesting, LeavesAShortHookAtTheTapsStartBesideIt) {
  // Shorter than the log's resolution and within it: it may as well have run before.
  EXPECT_EQ(Nest({Hook(1, 2'500, 2'900), Tap(2, 2'000, 20'000)}), (Strings{"1[2500,2900]", "2[2900,20000]"}));
  // Not within a step of the start.
  EXPECT_EQ(Nest({Hook(1, 2'977, 3'100), Tap(2, 2'000, 20'000)}), (Strings{"2[2000,20000]", "1[2977,3100]<2"}));
  // Not shorter than a step.
  EXPECT_EQ(Nest({Hook(1, 2'500, 3'477), Tap(2, 2'000, 20'000)}), (Strings{"2[2000,20000]", "1[2500,3477]<2"}));
}

TEST(Nesting, DecidesByTheOverlapWhereAHookBeganBeforeTheTap) {
  // Most of it is inside: the tap call's start was late.
  EXPECT_EQ(Nest({Hook(1, 1'500, 9'000), Tap(2, 2'000, 20'000)}), (Strings{"2[1500,20000]", "1[1500,9000]<2"}));
  // Within a step: the tap call's start was early.
  EXPECT_EQ(Nest({Hook(1, 1'500, 2'900), Tap(2, 2'000, 20'000)}), (Strings{"1[1500,2900]", "2[2900,20000]"}));
  // Less than half of it.
  EXPECT_EQ(Nest({Hook(1, 0, 5'000), Tap(2, 3'000, 20'000)}), (Strings{"1[0,5000]", "2[5000,20000]"}));
}

TEST(Nesting, NeverPutsATapCallIntoATapCall) {
  EXPECT_EQ(Nest({Tap(1, 1'000, 5'000), Tap(2, 4'500, 9'000)}), (Strings{"1[1000,5000]", "2[5000,9000]"}));
  EXPECT_EQ(Nest({Tap(1, 3'000, 5'000), Tap(2, 1'000, 9'000)}), (Strings{"1[3000,5000]", "2[5000,9000]"}));
}

TEST(Nesting, PutsATapCallIntoTheHookItWasPrintedIn) {
  EXPECT_EQ(Nest({Hook(2, 3'000, 5'000, 1), Tap(3, 2'000, 8'000, 1), Hook(1, 1'000, 9'000)}),
            (Strings{"1[1000,9000]", "3[2000,8000]<1", "2[3000,5000]<3"}));
  // Its start cannot be before the hook's.
  EXPECT_EQ(Nest({Tap(2, 500, 8'000, 1), Hook(1, 1'000, 9'000)}), (Strings{"1[1000,9000]", "2[1000,8000]<1"}));
}

TEST(Nesting, KeepsATapCallInItsHookWhateverItAdopts) {
  EXPECT_EQ(Nest({Hook(2, 500, 6'000, 1), Tap(3, 2'000, 8'000, 1), Hook(1, 1'000, 9'000)}),
            (Strings{"1[1000,9000]", "3[1000,8000]<1", "2[1000,6000]<3"}));
}

TEST(Nesting, ATapCallInsideAHookAdoptsOnlyThatHooksCalls) {
  // 1 ran before the hook 2 in which the tap call was printed.
  EXPECT_EQ(Nest({Hook(1, 0, 3'000), Hook(3, 5'000, 7'000, 2), Tap(4, 2'000, 8'000, 2), Hook(2, 4'000, 9'000)}),
            (Strings{"1[0,3000]", "2[4000,9000]", "4[4000,8000]<2", "3[5000,7000]<4"}));
}

TEST(Nesting, CountsALostParentAndTakesTheCallAroundIt) {
  NestingCounts counts;
  EXPECT_EQ(Nest({Hook(3, 20, 30, 2), Hook(1, 0, 100)}, &counts), (Strings{"1[0,100]", "3[20,30]<1"}));
  EXPECT_EQ(counts.lost_parents, 1);
  counts = {};
  EXPECT_EQ(Nest({Hook(3, 20, 30, 2), Hook(4, 40, 50)}, &counts), (Strings{"3[20,30]", "4[40,50]"}));
  EXPECT_EQ(counts.lost_parents, 1);
}

TEST(Nesting, ClipsWhatDoesNotFit) {
  NestingCounts counts;
  EXPECT_EQ(Nest({Hook(2, 500, 9'000, 1), Hook(1, 1'000, 5'000)}, &counts),
            (Strings{"1[1000,5000]", "2[1000,5000]<1"}));
  EXPECT_EQ(counts.clipped, 1);
  counts = {};
  EXPECT_EQ(Nest({Hook(1, 0, 5'000), Hook(2, 3'000, 9'000)}, &counts), (Strings{"1[0,3000]", "2[3000,9000]"}));
  EXPECT_EQ(counts.clipped, 1);
}

// The guarantees of NestCalls, for any input.
void ExpectNested(const std::vector<StagedCall>& calls) {
  std::vector<int64_t> free_from(calls.size() + 1,
                                 INT64_MIN);  // by parent; the last element is for calls without one
  int64_t last_start = INT64_MIN;
  for (size_t i = 0; i < calls.size(); ++i) {
    const StagedCall& call = calls[i];
    ASSERT_GE(call.duration, 0);
    ASSERT_GE(call.time, last_start);
    last_start = call.time;
    if (call.parent != kNone) {
      ASSERT_LT(call.parent, i);
      const StagedCall& parent = calls[call.parent];
      ASSERT_GE(call.time, parent.time);
      ASSERT_LE(call.time + call.duration, parent.time + parent.duration);
    }
    int64_t& free = free_from[call.parent == kNone ? calls.size() : call.parent];
    ASSERT_GE(call.time, free);
    free = call.time + call.duration;
  }
}

TEST(Nesting, NestsWhateverItIsGiven) {
  std::mt19937 random(1);
  const auto up_to = [&](int limit) { return static_cast<int64_t>(random() % (limit + 1)); };
  for (int round = 0; round < 20'000; ++round) {
    std::vector<StagedCall> calls;
    int64_t end = 10'000;
    for (int64_t i = 0, count = 1 + up_to(12); i < count; ++i) {
      end += up_to(2'000);
      const uint64_t sequence = 1 + i;
      const uint64_t parent = up_to(2) == 0 ? up_to(static_cast<int>(i)) : 0;
      calls.push_back(up_to(2) == 0 ? Tap(sequence, end - up_to(6'000), end, parent)
                                    : Hook(sequence, end - up_to(6'000), end, parent));
    }
    std::shuffle(calls.begin(), calls.end(), random);
    std::stable_sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
    NestingCounts counts;
    std::vector<uint64_t> sequences;
    NestCalls(Nanoseconds(), absl::MakeSpan(calls), &counts);
    ExpectNested(calls);
    for (const StagedCall& call : calls) sequences.push_back(call.sequence);
    std::sort(sequences.begin(), sequences.end());
    for (size_t i = 0; i < sequences.size(); ++i) ASSERT_EQ(sequences[i], i + 1);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace dlhook::analyzer
