// The step finder on sequences written as text: a letter is an op, lower case forward, upper case backward,
// anything else without a direction; a blank is a pause; a ' after an op is the same op at another batch size.
#include "analyzer/steps/step_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <string>

namespace dlhook::analyzer {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

StepSymbol MakeSymbol(char letter, bool other_batch) {
  StepSymbol symbol;
  if (std::islower(letter)) symbol.pass = StepSymbol::Pass::kForward;
  if (std::isupper(letter)) symbol.pass = StepSymbol::Pass::kBackward;
  symbol.variants = {{static_cast<uint64_t>(letter), other_batch ? 7 : 64}};
  return symbol;
}

StepSequence Sequence(const std::string& text) {
  StepSequence sequence;
  std::map<std::string, uint32_t> numbers;
  int64_t now_ns = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') {
      now_ns += 1000;
      continue;
    }
    const bool other_batch = i + 1 < text.size() && text[i + 1] == '\'';
    const auto next = static_cast<uint32_t>(numbers.size());
    const auto [it, is_new] = numbers.emplace(text.substr(i, other_batch ? 2 : 1), next);
    if (is_new) sequence.symbols.push_back(MakeSymbol(text[i], other_batch));
    sequence.symbol.push_back(it->second);
    sequence.start_ns.push_back(now_ns += 10);
    sequence.end_ns.push_back(now_ns += 50);
    if (other_batch) ++i;
  }
  return sequence;
}

std::string Repeat(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

// The sequence cut into its steps: "abAB" …; without calls before the first step.
std::vector<std::string> Steps(const std::string& text) {
  const StepPattern pattern = FindSteps(Sequence(text));
  std::vector<std::string> calls;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text[i] == '\'') {
      calls.back() += '\'';
    } else {
      calls.push_back(text.substr(i, 1));
    }
  }
  std::vector<std::string> steps;
  for (size_t i = 0; i < pattern.starts.size(); ++i) {
    const size_t end = i + 1 < pattern.starts.size() ? pattern.starts[i + 1] : calls.size();
    std::string step;
    for (size_t call = pattern.starts[i]; call < end; ++call) step += calls[call];
    steps.push_back(step);
  }
  return steps;
}

int Regular(const std::string& text) {
  int count = 0;
  for (bool regular : FindSteps(Sequence(text)).regular) count += regular ? 1 : 0;
  return count;
}

TEST(StepFinderTest, EqualLayersAndWhatFollowsTheLastAreOneStep) {
  const std::string token = Repeat("kcckkk", 4) + "k";
  EXPECT_THAT(Steps(Repeat(token + " ", 40)), Each(token));
  const std::string layers = Repeat("kcckkk", 8) + "k";
  EXPECT_THAT(Steps(Repeat(layers + " ", 10)), Each(layers));
}

TEST(StepFinderTest, NothingRepeats) {
  EXPECT_THAT(Steps(""), IsEmpty());
  EXPECT_THAT(Steps("a"), IsEmpty());
  EXPECT_THAT(Steps("abcdefgh"), IsEmpty());
  EXPECT_THAT(Steps("aabbcdebfagch"), IsEmpty());
}

TEST(StepFinderTest, PlainTraining) {
  EXPECT_THAT(Steps(Repeat("abcCBA ", 10)), Each("abcCBA"));
  EXPECT_EQ(Steps(Repeat("abcCBA ", 10)).size(), 10u);
  EXPECT_EQ(Regular(Repeat("abcCBA ", 10)), 10);
}

TEST(StepFinderTest, TwoStepsAreEnoughIfThereIsNothingElse) {
  EXPECT_THAT(Steps("abcCBA abcCBA"), ElementsAre("abcCBA", "abcCBA"));
}

TEST(StepFinderTest, InferenceWithoutDirections) {
  EXPECT_THAT(Steps(Repeat("123 ", 8)), Each("123"));
  EXPECT_THAT(Steps(Repeat("1", 8)), Each("1"));
}

TEST(StepFinderTest, ExtraWorkInTheFirstStep) {
  // Weights are packed once; otherwise the calls are the same.
  const std::vector<std::string> steps = Steps("9ab8cCBA " + Repeat("abcCBA ", 9));
  ASSERT_EQ(steps.size(), 10u);
  EXPECT_EQ(steps[0], "ab8cCBA");
  EXPECT_EQ(steps[9], "abcCBA");
  EXPECT_EQ(Regular("9ab8cCBA " + Repeat("abcCBA ", 9)), 9);
}

TEST(StepFinderTest, WorkBeforeTraining) {
  const std::vector<std::string> steps = Steps("777 778 9 " + Repeat("abcCBA ", 9));
  ASSERT_EQ(steps.size(), 9u);
  EXPECT_THAT(steps, Each("abcCBA"));
}

TEST(StepFinderTest, EvaluationInBetween) {
  const std::string epoch = Repeat("abcCBA ", 20) + Repeat("abc ", 5);
  const std::vector<std::string> steps = Steps(Repeat(epoch, 4));
  ASSERT_EQ(steps.size(), 100u);
  EXPECT_EQ(steps[19], "abcCBA");
  EXPECT_EQ(steps[20], "abc");
  EXPECT_EQ(steps[24], "abc");
  EXPECT_EQ(steps[25], "abcCBA");
  EXPECT_EQ(Regular(Repeat(epoch, 4)), 80);
}

TEST(StepFinderTest, EvaluationFirst) {
  const std::vector<std::string> steps = Steps(Repeat("abc ", 3) + Repeat("abcCBA ", 20));
  ASSERT_EQ(steps.size(), 23u);
  EXPECT_EQ(steps[2], "abc");
  EXPECT_EQ(steps[3], "abcCBA");
}

TEST(StepFinderTest, EvaluationAtAnotherBatchSizeAndASmallerLastBatch) {
  const std::string epoch = Repeat("abcCBA ", 20) + "a'b'c'C'B'A' " + Repeat("a'b'c' ", 2);
  const std::vector<std::string> steps = Steps(Repeat(epoch, 5));
  ASSERT_EQ(steps.size(), 5u * 23);
  EXPECT_EQ(steps[19], "abcCBA");
  EXPECT_EQ(steps[20], "a'b'c'C'B'A'");
  EXPECT_EQ(steps[21], "a'b'c'");
  EXPECT_EQ(steps[22], "a'b'c'");
  EXPECT_EQ(steps[23], "abcCBA");
  EXPECT_EQ(Regular(Repeat(epoch, 5)), 100);
}

TEST(StepFinderTest, GradientAccumulationEndsWithTheUpdate) {
  const std::vector<std::string> steps = Steps(Repeat(Repeat("abBA ", 4) + "789 ", 10));
  ASSERT_EQ(steps.size(), 10u);
  EXPECT_EQ(steps[0], "abBAabBAabBAabBA789");
}

TEST(StepFinderTest, GradientAccumulationWithoutAVisibleUpdateIsAPlainLoop) {
  EXPECT_EQ(Steps(Repeat("abBA abBA ", 10)).size(), 20u);
}

TEST(StepFinderTest, LoggingNowAndThenIsNoPeriod) {
  const std::vector<std::string> steps = Steps(Repeat(Repeat("abcdDCBA ", 10) + "7 ", 6));
  ASSERT_EQ(steps.size(), 60u);
  EXPECT_EQ(steps[0], "abcdDCBA");
  EXPECT_EQ(steps[9], "abcdDCBA7");
}

TEST(StepFinderTest, EqualLayersAreInsideOfAStep) {
  // A transformer: twelve equal blocks, then one op of its own.
  const std::vector<std::string> steps = Steps(Repeat(Repeat("1234", 12) + "9 ", 10));
  ASSERT_EQ(steps.size(), 10u);
  EXPECT_EQ(steps[0], Repeat("1234", 12) + "9");
}

TEST(StepFinderTest, ARecurrentNetworkTrainedWithEvaluation) {
  const std::string train = Repeat("a", 20) + "bB" + Repeat("A", 20) + " ";
  const std::string evaluation = Repeat("a", 20) + "b ";
  const std::vector<std::string> steps = Steps(Repeat(Repeat(train, 10) + Repeat(evaluation, 3), 4));
  ASSERT_EQ(steps.size(), 52u);
  EXPECT_EQ(steps[0], Repeat("a", 20) + "bB" + Repeat("A", 20));
  EXPECT_EQ(steps[10], Repeat("a", 20) + "b");
}

TEST(StepFinderTest, EqualLayersForwardAndBackward) {
  // No op occurs once per step; only pairs of adjacent ops do.
  EXPECT_THAT(Steps(Repeat("aaAA ", 10)), Each("aaAA"));
  EXPECT_THAT(Steps(Repeat("aabbBBAA ", 10)), Each("aabbBBAA"));
}

TEST(StepFinderTest, FirstCallsThatComeAgainInTheMiddle) {
  // Both 1s follow a 3; only what follows distinguishes them.
  EXPECT_THAT(Steps("9 " + Repeat("123153 ", 10)), Each("123153"));
  EXPECT_EQ(Steps("9 " + Repeat("123153 ", 10)).size(), 10u);
}

TEST(StepFinderTest, ThreadsThatChangePlaces) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += i % 3 == 0 ? "adcbCBDA " : i % 3 == 1 ? "abcdBCDA " : "acbdCDBA ";
  const StepPattern pattern = FindSteps(Sequence(text));
  EXPECT_EQ(pattern.starts.size(), 20u);
  EXPECT_EQ(pattern.period, 8u);
  EXPECT_THAT(pattern.regular, Each(true));
}

// An engine that runs what is ready: the two products of each cell in either order, without directions.
TEST(StepFinderTest, CellsWhoseProductsSwap) {
  uint32_t random = 1;
  const auto cells = [&](const std::string& pair, int count) {
    std::string calls;
    for (int i = 0; i < count; ++i) {
      random = random * 1664525 + 1013904223;
      calls += (random >> 16) % 2 == 0 ? pair : std::string(pair.rbegin(), pair.rend());
    }
    return calls;
  };
  std::string text;
  for (int i = 0; i < 20; ++i) text += cells("12", 5) + " 34" + cells("56", 5) + "7";
  const std::vector<std::string> steps = Steps(text);
  ASSERT_EQ(steps.size(), 20u);
  for (const std::string& step : steps) {
    EXPECT_EQ(step.size(), 23u);
    EXPECT_EQ(step.substr(10, 2), "34");
  }
  EXPECT_EQ(Regular(text), 20);
}

TEST(StepFinderTest, BeginsAfterThePauseWhereNothingElseTells) {
  // Other work and part of a step come first; no directions are known.
  const std::vector<std::string> steps = Steps("8 56 " + Repeat("123456 ", 10));
  ASSERT_EQ(steps.size(), 10u);
  EXPECT_THAT(steps, Each("123456"));
}

TEST(StepFinderTest, BeginsWithForward) {
  // The same in training, with reorders of weights around the end of the step.
  const std::vector<std::string> steps = Steps("7BA8 " + Repeat("9abB7BA8 ", 10));
  ASSERT_EQ(steps.size(), 10u);
  EXPECT_THAT(steps, Each("9abB7BA8"));
}

TEST(StepFinderTest, ARecurrentNetworkAtAnotherBatchSize) {
  const std::string text = Repeat(Repeat("aaaabBAAAA ", 9) + "a'a'a'a'b'B'A'A'A'A' ", 4);
  const std::vector<std::string> steps = Steps(text);
  ASSERT_EQ(steps.size(), 40u);
  EXPECT_EQ(steps[9], "a'a'a'a'b'B'A'A'A'A'");
}

TEST(StepFinderTest, CoverageSaysHowMuchIsRegular) {
  const StepPattern pattern = FindSteps(Sequence(Repeat("abBA ", 9) + "wxyz"));
  EXPECT_EQ(pattern.period, 4u);
  EXPECT_DOUBLE_EQ(pattern.coverage, 32.0 / 40.0);  // the last step includes the four others
}

TEST(StepFinderTest, LargeSequencesAreFast) {
  const StepPattern pattern =
      FindSteps(Sequence(Repeat(Repeat("abcdefgh", 5) + "iI" + Repeat("HGFEDCBA", 5) + " ", 20000)));
  EXPECT_EQ(pattern.starts.size(), 20000u);
}

}  // namespace
}  // namespace dlhook::analyzer
