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

std::string NoState(uint32_t, uint32_t) { return ""; }

class StandingTest : public testing::Test {
 protected:
  std::vector<std::string> Lines(const std::vector<ProcessIndex>& silent, size_t most = 4) {
    const TraceModel model = builder_.Build();
    return StandingLines(model, silent, 1000 * kMs, most, NoState);
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

TEST_F(StandingTest, NamesThoseThreadsThatRecordedLast) {
  for (int i = 0; i < 5; ++i) builder_.Call(gemm_, 10 * i * kMs, kMs, i == 0 ? 0 : builder_.AddThread());
  const std::vector<std::string> lines = Lines({0}, 2);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], HasSubstr("959 ms ago"));
  EXPECT_THAT(lines[2], HasSubstr("3 more threads"));
}

}  // namespace
}  // namespace dlhook::analyzer
