// Which rows a page keeps of a table that is too large for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "analyzer/page/report_page.h"

namespace dlhook::analyzer {
namespace {

// A row per value, numbered in the first column.
Table TableOf(const std::string& column, const std::vector<int64_t>& values, Role role = Role::kNone) {
  Table table;
  table.name = "big";
  table.columns.resize(2);
  table.columns[0].name = "number";
  table.columns[1].name = column;
  table.columns[0].type = table.columns[1].type = ColumnType::kInteger;
  table.columns[1].role = role;
  for (const int64_t value : values) table.rows.push_back({static_cast<int64_t>(table.rows.size()), value});
  return table;
}

std::vector<int64_t> Kept(size_t most, Table table) {
  FitRows(most, &table);
  std::vector<int64_t> numbers;
  for (const Row& row : table.rows) numbers.push_back(std::get<int64_t>(row.front()));
  return numbers;
}

using Numbers = std::vector<int64_t>;

TEST(FitRowsTest, KeepsTheHeaviestInTheirOrder) {
  EXPECT_EQ(Kept(3, TableOf("wall_share", {5, 9, 1, 7, 8}, Role::kWeight)), (Numbers{1, 3, 4}));
  EXPECT_EQ(Kept(2, TableOf("total_time", {5, 9, 1, 7, 8})), (Numbers{1, 4}));
  EXPECT_EQ(Kept(2, TableOf("change", {5, -9, 1, -7, 8})), (Numbers{1, 4})) << "by its size";
}

TEST(FitRowsTest, OverTimeKeepsSomeOfEverywhereAndTheLongest) {
  std::vector<int64_t> durations(100, 10);
  durations[57] = 1000;
  const Numbers kept = Kept(20, TableOf("duration", durations));
  EXPECT_EQ(kept.size(), 20u);
  EXPECT_EQ(kept.front(), 0);
  EXPECT_GE(kept.back(), 90);
  EXPECT_NE(std::find(kept.begin(), kept.end(), 57), kept.end());
}

TEST(FitRowsTest, SaysWhatIsLeftOut) {
  Table table = TableOf("calls", {1, 2, 3});
  FitRows(3, &table);
  EXPECT_TRUE(table.notes.empty());
  FitRows(2, &table);
  ASSERT_EQ(table.notes.size(), 1u);
  EXPECT_TRUE(absl::StrContains(table.notes[0], "2 of 3 rows, the first")) << table.notes[0];
}

}  // namespace
}  // namespace dlhook::analyzer
