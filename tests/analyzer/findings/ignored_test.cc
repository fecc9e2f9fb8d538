// Findings that --ignore removes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/diff/training_run.h"

namespace dlhook::analyzer {
namespace {

size_t LeftOut(const std::vector<std::string>& ignored) {
  std::vector<RuleFinding> findings(1);
  findings.front().rule = "float64";
  findings.front().finding.where = "conv1, conv2 and 3 more";
  findings.front().finding.line = "train.py:42";
  return LeaveOut(ignored, &findings);
}

TEST(IgnoredTest, ByRuleLayerOrLine) {
  EXPECT_EQ(LeftOut({}), 0);
  EXPECT_EQ(LeftOut({"input-wait", "float64"}), 1);
  EXPECT_EQ(LeftOut({"float64:train.py:42"}), 1);
  EXPECT_EQ(LeftOut({"float64:conv1"}), 1);
  EXPECT_EQ(LeftOut({"float64:conv1, conv2 and 3 more"}), 1);
  EXPECT_EQ(LeftOut({"float64:conv", "float64:", "float6", "input-wait:conv1"}), 0);
}

TEST(IgnoredTest, TheTableSaysHowMany) {
  RunSpec spec;
  spec.layers = Layers(2);
  spec.dtype = "f64";
  const TrainingRun run(spec);
  absl::StatusOr<Table> table = FindingsTable(*run.analyzed().model, run.analyzed().options);
  ASSERT_TRUE(table.ok());
  const size_t rows = table->rows.size(), notes = table->notes.size();
  LeaveOut({"float64:nowhere"}, &*table);
  EXPECT_EQ(table->rows.size(), rows);
  EXPECT_EQ(table->notes.size(), notes);
  LeaveOut({"float64"}, &*table);
  EXPECT_EQ(table->rows.size(), rows - 1);
  EXPECT_EQ(table->notes.back(), "1 finding is ignored (--ignore, .dlhook-ignore).");
}

}  // namespace
}  // namespace dlhook::analyzer
