// What ranks are compared by: raw_collectives and raw_work of hand-written models.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/export/raw_tables.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

class RowLines : public TableRows {
 public:
  TableRows& Integer(int64_t value) override { return Text(absl::StrCat(value)); }
  TableRows& Real(double value) override { return Text(absl::StrCat(value)); }
  TableRows& Text(absl::string_view value) override {
    cells_.emplace_back(value.empty() ? "-" : value);
    return *this;
  }
  TableRows& Null() override { return Text("-"); }
  void End() override {
    lines.push_back(absl::StrJoin(cells_, "|"));
    cells_.clear();
  }
  std::vector<std::string> lines;

 private:
  std::vector<std::string> cells_;
};

std::vector<std::string> RowLinesOf(const TraceModel& model, void (*fill)(const Timeline&, TableRows&)) {
  const LayerAnalysis analysis(model);
  RowLines rows;
  fill({model, analysis, {}}, rows);
  return rows.lines;
}

trace::OpDefinition RawAllReduce(int communicator, int rank, int ranks) {
  return Definition(absl::StrCat(
      "function: 'ncclAllReduce' family: 'nccl' time_source: CLOCK_TICKS collective { kind: ALL_REDUCE bytes: "
      "64 peer: -1 communicator: ",
      communicator, " ranks: ", ranks, " rank: ", rank, " }"));
}

// Communicators are numbered in each process: only one of all ranks is known to be the same on others.
TEST(RawCollectivesTest, CommunicatorsOfAllRanksHaveAName) {
  ModelBuilder builder;
  builder.model().processes[0].rank_variables = {{"RANK", "2"}, {"WORLD_SIZE", "4"}};
  builder.Call(builder.AddOp(RawAllReduce(1, 2, 4)), 10, 5);
  builder.Call(builder.AddOp(RawAllReduce(2, 0, 2)), 20, 5);
  builder.Call(builder.AddOp(RawAllReduce(1, 2, 4)), 30, 5);
  builder.Scope("gloo:all_gather", ScopeKind::kUserRange, 40, 7, 0, 80);
  EXPECT_EQ(RowLinesOf(builder.Build(100), FillCollectives),
            (std::vector<std::string>{
                "0|-|-|2|2|0|all reduce|64|NCCL|20|-", "0|-|NCCL, all 4 ranks, 1|1|4|0|all reduce|64|NCCL|10|-",
                "0|-|NCCL, all 4 ranks, 1|1|4|1|all reduce|64|NCCL|30|-", "0|-|-|-|-|0|all gather|80|gloo|40|47"}));
}

// Which one a call is, is not known where calls before it are totals only.
TEST(RawCollectivesTest, WithoutEarlierCallsThereIsNoSequence) {
  ModelBuilder builder;
  const OpIndex op = builder.AddOp(RawAllReduce(1, 0, 4));
  builder.Call(op, 10, 5);
  builder.model().aggregates.push_back({.op = op, .count = 7});
  EXPECT_EQ(RowLinesOf(builder.Build(100), FillCollectives),
            std::vector<std::string>{"0|-|-|1|4|-|all reduce|64|NCCL|10|-"});
}

}  // namespace
}  // namespace dlhook::analyzer
