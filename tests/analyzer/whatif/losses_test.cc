// Losses in what programs print.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "analyzer/whatif/try_table.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace losses_test {

TEST(LossesTest, AreTheNumbersBehindTheWord) {
  EXPECT_EQ(LossesIn("step 3: train_loss=0.693, lr 0.1\nLoss: 1.5e-2.\nepoch 1\r{'loss': -2, 'eval': 3}\n"),
            (std::vector<double>{0.693, 0.015, -2}));
  EXPECT_EQ(LossesIn("loss is tensor(0.25)\nlossless compression\nthe loss in step 7"), (std::vector<double>{0.25, 7}));
  EXPECT_TRUE(std::isnan(LossesIn("loss nan").at(0)));
  EXPECT_TRUE(LossesIn("").empty());
  EXPECT_EQ(LossesIn("loss 1.5\nTraceback (most recent call last):\n    loss = smooth(x, 0.3)\n"),
            std::vector<double>{1.5});
}

TEST(LossesTest, DifferencesAreTold) {
  EXPECT_EQ(LossSentence(CompareLosses({}, {1}), {}), "");
  EXPECT_EQ(LossSentence(CompareLosses({1, 2, 3}, {1, 2}), {}), "printed losses are equal in 2 lines");
  const LossChange change = CompareLosses({1, 2, 4}, {1, 2.5, 4});
  EXPECT_EQ(LossSentence(change, {}), "printed losses differ by up to 20 % in 3 lines (line 2: 2.5, was 2)");
  EXPECT_EQ(LossSentence(change, CompareLosses({1}, {2})),
            "printed losses differ by up to 20 % in 3 lines (line 2: 2.5, was 2); without it they differ by up to 50 % "
            "from run to "
            "run");
  EXPECT_EQ(CompareLosses({NAN}, {NAN}).first, 0U);
  EXPECT_EQ(LossSentence(CompareLosses({1}, {NAN}), {}),
            "printed losses differ without bound in 1 line (line 1: nan, was 1)");
}

TEST(LossesTest, OfVariationsThatChangeNumericsAreMissed) {
  TriedProgram program = {.unit = "training step"};
  program.variations = {
      {.variation = {.name = "TF32=1", .changes_numerics = true}, .times_ns = {1}},
      {.variation = {.name = "BF16=1", .changes_numerics = true}, .times_ns = {1}, .losses = "printed losses differ"}};
  const std::vector<Table> tables = TryTables(program);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(Text(tables[1], 0, "cost"), "changes numerics: the program printed no loss to compare");
  EXPECT_EQ(Text(tables[1], 1, "cost"), "changes numerics: printed losses differ");
}

TEST(LossesTest, PromisesStandBesideWhatWasGained) {
  TriedProgram program = {.unit = "training step"};
  program.variations = {{.variation = {.name = "BF16=1", .changes_numerics = true},
                         .outcome = Outcome::kFaster,
                         .speed = {2, 1.9, 2.1},
                         .times_ns = {1, 1},
                         .command = "BF16=1 python"},
                        {.variation = {.name = "KEEP=1", .promise = "page-faults: at most 25 % of a step"},
                         .outcome = Outcome::kFaster,
                         .speed = {1.25, 1.2, 1.3},
                         .times_ns = {1, 1},
                         .command = "KEEP=1 python"},
                        {.variation = {.name = "A=1"}, .speed = {1.1}, .times_ns = {1}},
                        {.variation = {.name = "B=1"}, .speed = {1.2}, .times_ns = {1}},
                        {.variation = {.name = "TF32=1", .changes_numerics = true, .promise = "lower-precision: 9 %"}}};
  const std::vector<Table> tables = TryTables(program);
  EXPECT_EQ(Text(tables[1], 1, "promise"), "page-faults: at most 25 % of a step; here 20 % [17..23]");
  // What computes the same is named first.
  EXPECT_EQ(tables[0].title,
            "KEEP=1: 1.25 times as fast [1.20..1.30]; use: KEEP=1 python; also faster: BF16=1: 2.00 times as fast "
            "[1.90..2.10], but it changes numerics; not decided: 2 of 5, the likeliest gain B=1: 1.20 times as fast "
            "in 1 round; not reached in the budget: 1 of 5");
  // What never ran printed no loss, but that says nothing.
  EXPECT_EQ(tables[1].rows.size(), 2U);
  EXPECT_EQ(Text(tables[0], 5, "outcome"), "not reached");
}

}  // namespace losses_test
}  // namespace dlhook::analyzer
