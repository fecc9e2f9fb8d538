// Which rows of two tables correspond.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/diff/changes.h"
#include "analyzer/diff/diff_table.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer {
namespace {

using Rows = std::vector<std::vector<std::string>>;  // kind, problem, chosen

Table Problems(const Rows& rows, bool of_layers = false) {
  Table table;
  table.name = "problems";
  table.columns = {As(of_layers ? Role::kName : Role::kKey, TextColumn("kind", "Kind.")),
                   As(Role::kShape, TextColumn("problem", "Size.")), As(Role::kChoice, TextColumn("chosen", "How."))};
  for (const std::vector<std::string>& cells : rows) table.rows.push_back({cells[0], cells[1], cells[2]});
  return table;
}

// "0-1 changed": base row, new row, how.
std::vector<std::string> Matched(const Table& base, const Table& new_side, const NameMap& names = {}) {
  std::map<std::pair<size_t, size_t>, std::string> ordered;
  for (const RowPair& pair : MatchRows(base, new_side, names)) {
    const std::string from = pair.base == kNoRow ? "" : std::to_string(pair.base);
    const std::string to = pair.new_row == kNoRow ? "" : std::to_string(pair.new_row);
    const char* const names_of[] = {"same", "changed", "resized", "added", "removed"};
    ordered[{pair.base, pair.new_row}] = from + "-" + to + " " + names_of[static_cast<int>(pair.match)];
  }
  std::vector<std::string> texts;
  for (const auto& [key, text] : ordered) texts.push_back(text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(MatchRowsTest, OthersAreOneRowHoweverMany) {
  EXPECT_EQ(Matched(Problems({{"others (115)", "", ""}}), Problems({{"others (103)", "", ""}})), Texts{"0-0 same"});
}

TEST(MatchRowsTest, OrderDoesNotMatter) {
  EXPECT_EQ(Matched(Problems({{"conv", "ic3", "a"}, {"pool", "ic3", "b"}}),
                    Problems({{"pool", "ic3", "b"}, {"conv", "ic3", "a"}})),
            (Texts{"0-1 same", "1-0 same"}));
}

TEST(MatchRowsTest, AnotherAlgorithmIsTheSameRowChanged) {
  EXPECT_EQ(Matched(Problems({{"conv", "ic3", "jit"}}), Problems({{"conv", "ic3", "gemm"}})), (Texts{"0-0 changed"}));
}

TEST(MatchRowsTest, OfSeveralWaysThoseThatStayAreTakenFirst) {
  EXPECT_EQ(Matched(Problems({{"conv", "ic3", "a"}, {"conv", "ic3", "b"}}),
                    Problems({{"conv", "ic3", "c"}, {"conv", "ic3", "a"}})),
            (Texts{"0-1 same", "1-0 changed"}));
}

TEST(MatchRowsTest, OtherSizesOfTheSameFormAreResizedTheMostAlikeFirst) {
  EXPECT_EQ(Matched(Problems({{"conv", "mb8_ic3oc16", "a"}, {"conv", "mb8_ic16oc16", "a"}}),
                    Problems({{"conv", "mb8_ic16oc32", "a"}, {"conv", "mb8_ic3oc32", "a"}})),
            (Texts{"0-1 resized", "1-0 resized"}));
}

TEST(MatchRowsTest, WhatHasLittleInCommonIsAddedAndRemoved) {
  const Rows before = {{"conv", "mb8_ic3oc16", "a"}}, after = {{"conv", "mb9_ic4oc16", "a"}};
  EXPECT_EQ(Matched(Problems(before), Problems(after)), (Texts{"0- removed", "-0 added"}));
  EXPECT_EQ(Matched(Problems(before, true), Problems(after, true)), (Texts{"0-0 resized"})) << "the one of a layer";
  EXPECT_EQ(Matched(Problems({{"conv", "mb8", "a"}}), Problems({{"conv", "g2mb8", "a"}})),
            (Texts{"0- removed", "-0 added"}));
  EXPECT_EQ(Matched(Problems({{"conv", "mb8", "a"}}), Problems({{"pool", "mb8", "a"}})),
            (Texts{"0- removed", "-0 added"}));
}

TEST(MatchRowsTest, LayersAreMatchedUnderTheirNewNames) {
  const Table base = Problems({{"conv1", "ic3", "a"}, {"conv2", "ic3", "a"}}, true);
  const Table new_side = Problems({{"conv2", "ic3", "a"}, {"conv3", "ic3", "a"}}, true);
  EXPECT_EQ(Matched(base, new_side, {{"conv1", "conv2"}, {"conv2", "conv3"}}), (Texts{"0-0 same", "1-1 same"}));
}

TEST(MatchRowsTest, ATableMatchesItself) {
  const Table table = Problems({{"conv", "ic3", "a"}, {"conv", "ic3", "a"}, {"conv", "ic3", "b"}, {"pool", "", ""}});
  EXPECT_EQ(Matched(table, table), (Texts{"0-0 same", "1-1 same", "2-2 same", "3-3 same"}));
}

TEST(SizesChangedTest, NamesWhatDiffers) {
  EXPECT_EQ(SizesChanged("mb60_ic1oc6_ih32oh28", "mb60_ic1oc12_ih32oh28"), "oc 6 -> 12");
  EXPECT_EQ(SizesChanged("mb60_ic1", "mb30_ic2"), "mb 60 -> 30, ic 1 -> 2");
  EXPECT_EQ(SizesChanged("60x16", "60x32"), "16 -> 32");
  EXPECT_EQ(SizesChanged("60x16", "mb60"), "60x16 -> mb60");
}

TEST(ShortTimeTest, HasThreeDigits) {
  EXPECT_EQ(HumanTime(6), "6 ns");
  EXPECT_EQ(HumanTime(999.6), "1.00 us");
  EXPECT_EQ(HumanTime(428470), "428 us");
  EXPECT_EQ(HumanTime(6.7e6), "6.70 ms");
  EXPECT_EQ(HumanTime(12.34e9), "12.3 s");
  EXPECT_EQ(SignedTime(-480e3), "-480 us");
  EXPECT_EQ(SignedTime(480e3), "+480 us");
}

}  // namespace
}  // namespace dlhook::analyzer
