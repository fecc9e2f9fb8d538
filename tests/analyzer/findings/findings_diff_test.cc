// Findings that only one side of a comparison has.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace findings_diff_test {

RuleFinding Found(const std::string& rule, const std::string& where, double gain_ns = 1000) {
  RuleFinding found;
  found.rule = rule;
  found.finding.where = where;
  found.finding.gain_ns = gain_ns;
  return found;
}

using Rows = std::vector<std::pair<std::string, std::string>>;

Rows Changes(FindingsOfRuns base, FindingsOfRuns new_side) {
  const auto before = std::move(base);
  const auto after = std::move(new_side);
  const Table table = FindingsDiff(ChangedFindings(before, after));
  CheckShape(table);
  Rows rows;
  for (size_t row = 0; row < table.rows.size(); ++row)
    rows.emplace_back(Text(table, row, "change"), Text(table, row, "rule"));
  return rows;
}

TEST(FindingsDiffTest, WhatBothSidesHaveIsNotToldWhereverItIs) {
  EXPECT_EQ(Changes({{Found("float64", "conv1")}}, {{Found("float64", "conv2")}}), Rows());
}

TEST(FindingsDiffTest, NewAndGoneByGain) {
  EXPECT_EQ(Changes({{Found("float64", ""), Found("input-wait", "", 500)}},
                    {{Found("float64", ""), Found("python-bound", "", 20)}}),
            (Rows{{"gone", "input-wait"}, {"new", "python-bound"}}));
}

TEST(FindingsDiffTest, MuchMoreOrLess) {
  EXPECT_EQ(Changes({{Found("slow-lines", "", 100), Found("input-wait", "", 500), Found("float64", "", 100)}},
                    {{Found("slow-lines", "", 250), Found("input-wait", "", 200), Found("float64", "", 190)}}),
            (Rows{{"less", "input-wait"}, {"more", "slow-lines"}}));
  EXPECT_EQ(Changes({{Found("slow-lines", "load", 100)}}, {{Found("slow-lines", "save", 500)}}),
            (Rows{{"new", "slow-lines"}}));
  EXPECT_EQ(Changes({{Found("slow-lines", "load", 300)}}, {{Found("slow-lines", "save", 500)}}), Rows());
}

TEST(FindingsDiffTest, LinesAreMatchedByTheirText) {
  const auto at = [](const std::string& line, double gain_ns) {
    RuleFinding found = Found("slow-lines", "", gain_ns);
    found.finding.line = "train.py:" + line;
    found.finding.source = {line + (gain_ns < 200 ? ": load(x)" : ": save(x)")};
    return found;
  };
  EXPECT_EQ(Changes({{at("4", 300), at("7", 100)}}, {{at("5", 300), at("8", 110)}}), Rows());
  EXPECT_EQ(Changes({{at("4", 300), at("7", 100)}}, {{at("5", 900), at("8", 110)}}), (Rows{{"more", "slow-lines"}}));
}

TEST(FindingsDiffTest, ARuleWithSeveralFindingsIsMatchedByPlace) {
  EXPECT_EQ(Changes({{Found("gpu-idle", "input")}}, {{Found("gpu-idle", "input"), Found("gpu-idle", "copies")}}),
            (Rows{{"new", "gpu-idle"}}));
}

TEST(FindingsDiffTest, OfSeveralRunsMostDecide) {
  const std::vector<RuleFinding> none, some = {Found("machine-busy", "")};
  EXPECT_EQ(Changes({none, none, some}, {some, some, none}), (Rows{{"new", "machine-busy"}}));
  EXPECT_EQ(Changes({none, some}, {some, none}), Rows()) << "half is not most";
}

}  // namespace findings_diff_test
}  // namespace dlhook::analyzer
