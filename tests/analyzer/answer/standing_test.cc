// Where threads stand that record nothing any more.
#include "analyzer/answer/standing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000;

ThreadNow NoState(uint32_t, uint32_t) { return {}; }
ThreadNow Sleeps(uint32_t, uint32_t) { return {"sleeps", {"poll", "MPI_Allreduce", "main"}}; }

class StandingTest : public testing::Test {
 protected:
  std::vector<std::string> Lines(const std::vector<ProcessIndex>& silent, size_t most = 4) {
    std::vector<SilentProcess> processes;
    for (const ProcessIndex process : silent) processes.push_back({.process = process});
    return StandingLines(builder_.Build(), processes, 1000 * kMs, most, NoState);
  }

  // What lasts until 1000 ms has not ended.
  std::vector<std::string> OpenLines(const ThreadNowOf& now = NoState) {
    const TraceModel& model = builder_.Build();
    std::vector<SilentProcess> all;
    for (ProcessIndex i = 0; i < model.processes.size(); ++i) all.push_back({.process = i, .has_open = true});
    return StandingLines(model, all, 1000 * kMs, 4, now);
  }

  ModelBuilder builder_;
  const OpIndex gemm_ = builder_.AddOp(GemmDefinition(2, 3, 4, "NN"));
  const OpIndex all_reduce_ = builder_.AddOp(Definition(
      "function: 'MPI_Allreduce' family: 'mpi' time_source: CLOCK_TICKS collective { kind: ALL_REDUCE bytes: 8 }"));
};

TEST_F(StandingTest, TellsTheLastCallItsLineAndWhatCameNext) {
  const StackIndex stack = builder_.AddStack({{"/home/u/train.py", "train", 42}});
  for (int i = 0; i < 4; ++i) {
    builder_.Call(gemm_, (10 * i) * kMs, kMs);
    builder_.StackOfLastCall(stack);
    if (i < 3) builder_.Call(all_reduce_, (10 * i + 5) * kMs, kMs);
  }
  EXPECT_THAT(Lines({0}), ElementsAre(HasSubstr("last sgemm_ (gemm) at train.py:42, 969 ms ago; after it came "
                                                "MPI_Allreduce (collective) all 3 times before.")));
}

TEST_F(StandingTest, DoesNotGuessWhatComesNext) {
  for (int i = 0; i < 5; ++i) {
    builder_.Call(gemm_, (10 * i) * kMs, kMs);
    if (i < 3) builder_.Call(all_reduce_, (10 * i + 5) * kMs, kMs);  // once the product follows itself
  }
  EXPECT_THAT(Lines({0}), ElementsAre(Not(HasSubstr("after it"))));
}

TEST_F(StandingTest, TellsWhichRankReturnedFromWhichCollective) {
  const ThreadIndex other = builder_.AddThread(builder_.AddProcess());
  for (int i = 0; i < 3; ++i) {
    builder_.Call(all_reduce_, 10 * i * kMs, kMs, 0);
    if (i < 2) builder_.Call(all_reduce_, 10 * i * kMs, kMs, other);
  }
  const std::vector<std::string> lines = Lines({0, 1});
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[2], HasSubstr("has returned from collective operation 3, MPI_Allreduce"));
  EXPECT_THAT(lines[3], HasSubstr("has returned from collective operation 2, MPI_Allreduce"));
}

TEST_F(StandingTest, TellsWhatAThreadIsInAndItsStack) {
  const ThreadIndex other = builder_.AddThread();
  builder_.Call(gemm_, 90 * kMs, kMs, other);
  builder_.Call(gemm_, 80 * kMs, kMs);
  builder_.Call(all_reduce_, 500 * kMs, 500 * kMs);
  builder_.StackOfLastCall(builder_.AddStack({{"/home/u/train.py", "train", 42}}));
  const std::vector<std::string> lines = OpenLines(Sleeps);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr(" sleeps: in MPI_Allreduce (collective) for 500 ms, at train.py:42. Stack: poll < "
                                  "MPI_Allreduce < main"));
  EXPECT_THAT(lines[1], HasSubstr(" sleeps: last sgemm_ (gemm), 909 ms ago. Stack:"));
}

TEST_F(StandingTest, TellsWhichRankIsInWhichCollective) {
  const ThreadIndex other = builder_.AddThread(builder_.AddProcess());
  for (const ThreadIndex thread : {ThreadIndex{0}, other}) builder_.Call(all_reduce_, 90 * kMs, kMs, thread);
  builder_.Call(all_reduce_, 500 * kMs, 500 * kMs, 0);
  const std::vector<std::string> lines = OpenLines();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[2], HasSubstr(" is in collective operation 2, MPI_Allreduce (collective), for 500 ms."));
  EXPECT_THAT(lines[3],
              HasSubstr(" has returned from collective operation 1, MPI_Allreduce (collective), 909 ms ago."));
}

TEST_F(StandingTest, NamesThoseThreadsThatRecordedLast) {
  for (int i = 0; i < 5; ++i) builder_.Call(gemm_, 10 * i * kMs, kMs, i == 0 ? 0 : builder_.AddThread());
  const std::vector<std::string> lines = Lines({0}, 2);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], HasSubstr("959 ms ago"));
  EXPECT_THAT(lines[2], HasSubstr("3 more threads"));
}

}  // namespace
}  // namespace dlhook::analyzer
