// Which samples lie in time that nothing else tells of, and in whose.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/time/sample_split.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace gap_samples_test {

class GapSamplesTest : public testing::Test {
 protected:
  // "200: not seen 7": when, what, thread of the piece.
  std::vector<std::string> Found() {
    const TraceModel model = builder_.Build(1000);
    std::vector<std::string> found;
    const GapSamples samples(model);
    for (const GapSample& at : samples.Of(0)) {
      found.push_back(std::to_string(at.piece.start_ns) + ": " + std::to_string(static_cast<int>(at.piece.kind)) + " " +
                      (at.piece.thread == kNone ? "-" : std::to_string(at.piece.thread)));
    }
    return found;
  }
  std::string Is(int64_t ns, ActivityKind kind, const std::string& thread) {
    return std::to_string(ns) + ": " + std::to_string(static_cast<int>(kind)) + " " + thread;
  }
  StackIndex Stack() { return builder_.AddStack({{"train.py", "<module>", 7}}); }
  void Op(int64_t start_ns, int64_t duration_ns, ThreadIndex thread = 0) {
    builder_.Scope("aten::add", ScopeKind::kFrameworkOp, start_ns, duration_ns, thread, -1, Stack());
  }
  void Sample(int64_t time_ns, ThreadIndex thread = 0) { builder_.Sample(time_ns, 10, kNone, kNone, thread); }
  ModelBuilder builder_;
};

TEST_F(GapSamplesTest, InGapsAndUnattributedTimeOnly) {
  Op(100, 100);
  Op(300, 100);
  for (const int64_t ns : {50, 150, 250, 350, 500}) Sample(ns);
  EXPECT_EQ(Found(),
            (std::vector<std::string>{Is(50, ActivityKind::kUnattributed, "-"), Is(250, ActivityKind::kNotSeen, "0"),
                                      Is(500, ActivityKind::kUnattributed, "-")}));
}

TEST_F(GapSamplesTest, NotWhileAnotherThreadWorks) {
  const ThreadIndex other = builder_.AddThread();
  Op(100, 100);
  Op(300, 100);
  Op(200, 50, other);
  for (const int64_t ns : {220, 270}) Sample(ns);
  EXPECT_EQ(Found(), std::vector<std::string>{Is(270, ActivityKind::kNotSeen, "0")});
}

TEST_F(GapSamplesTest, APoolThreadComputesForWhoIdles) {
  const ThreadIndex pool = builder_.AddThread();
  Op(100, 100);
  Op(300, 100);
  for (const int64_t ns : {150, 250}) Sample(ns, pool);
  EXPECT_EQ(Found(), std::vector<std::string>{Is(250, ActivityKind::kNotSeen, "0")});
}

TEST_F(GapSamplesTest, EachThreadComputesForItself) {
  const ThreadIndex other = builder_.AddThread();
  for (const ThreadIndex thread : {ThreadIndex{0}, other}) {
    Op(100, 100, thread);
    Op(300, 100, thread);
  }
  for (const int64_t ns : {220, 230}) Sample(ns, other);
  EXPECT_EQ(Found(), (std::vector<std::string>{Is(220, ActivityKind::kNotSeen, std::to_string(other)),
                                               Is(230, ActivityKind::kNotSeen, std::to_string(other))}));
}

TEST_F(GapSamplesTest, NotInCalls) {
  builder_.Call(builder_.AddOp(GemmDefinition(2, 3, 4, "NN")), 100, 50);
  builder_.Sample(120, 10, kNone, kNone, 0, 0);
  builder_.Sample(120, 10, kNone);  // its call is not known, the time is
  Sample(160);
  EXPECT_EQ(Found(), std::vector<std::string>{Is(160, ActivityKind::kUnattributed, "-")});
}

}  // namespace gap_samples_test
}  // namespace dlhook::analyzer
