// The table `hotspots`: self and total CPU time, by function, library, line and layer; what lies in recorded calls.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/tables/calls/tick_fit.h"
#include "analyzer/tables/tables.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

constexpr int64_t kIntervalNs = 10'000'000;

class HotspotsTest : public testing::Test {
 protected:
  HotspotsTest() {
    builder_.Scope("aten::conv2d", ScopeKind::kFrameworkOp, 0, 200);
    builder_.Call(builder_.AddOp(GemmDefinition(2, 3, 4, "NN")), 100, 50);
    inner_ =
        builder_.AddNativeStack({"inlined(int)|inner(int)", "outer(int)", "outer(int)", "main"}, "/home/u/libown.so");
    outer_ = builder_.AddNativeStack({"outer(int)", "main"}, "/home/u/libown.so");
  }

  void AddSample(int64_t time_ns, FrameIndex frame, SampleState state = SampleState::kWhole) {
    const bool is_in_call = time_ns >= 100 && time_ns < 150;
    builder_.Sample(time_ns, kIntervalNs, frame, kNone, 0, is_in_call ? 0 : kNone, state);
    builder_.model().samples.scope.back() = time_ns < 200 ? 0 : kNone;
  }

  Table Make(By by) {
    TraceModel model = builder_.Build(1000);
    const LayerAnalysis analysis(model);
    TableOptions options;
    options.analysis = &analysis;
    options.by = by;
    Table table = *HotspotsTable(model, options);
    EXPECT_TRUE(CheckTable(table).ok());
    return table;
  }

  // Rows as "what: self + in calls, total", in intervals.
  std::vector<std::string> Rows(const Table& table) {
    const auto intervals = [&](size_t row, const char* column) {
      return std::to_string(Integer(table, row, column) / kIntervalNs);
    };
    std::vector<std::string> rows;
    for (size_t row = 0; row < table.rows.size(); ++row) {
      rows.push_back(Text(table, row, table.columns[0].name) + ": " + intervals(row, "self_time") + " " +
                     intervals(row, "in_calls") + " " + intervals(row, "total_time"));
    }
    return rows;
  }

  ModelBuilder builder_;
  FrameIndex inner_ = kNone;
  FrameIndex outer_ = kNone;
};

TEST_F(HotspotsTest, SelfAndTotalByFunction) {
  AddSample(50, inner_);
  AddSample(120, inner_);
  AddSample(300, inner_);
  AddSample(310, outer_);
  const Table table = Make(By::kFunction);
  EXPECT_EQ(Rows(table), (std::vector<std::string>{"inner: 3 1 3", "outer: 1 0 4", "main: 0 0 4"}));
  EXPECT_EQ(Text(table, 0, "library"), "libown.so");
  EXPECT_DOUBLE_EQ(Real(table, 0, "self_percent"), 75);
}

TEST_F(HotspotsTest, ByLibraryAndLayer) {
  AddSample(50, inner_);
  AddSample(120, outer_);
  EXPECT_EQ(Rows(Make(By::kLibrary)), (std::vector<std::string>{"libown.so: 2 1 2"}));
  const Table layers = Make(By::kLayer);
  EXPECT_EQ(layers.columns[0].name, "layer");
  int64_t sum = 0;
  for (size_t row = 0; row < layers.rows.size(); ++row) sum += Integer(layers, row, "self_time");
  EXPECT_EQ(sum, 2 * kIntervalNs);
}

TEST_F(HotspotsTest, WhatHasNoPlaceIsCounted) {
  AddSample(50, kNone, SampleState::kLate);
  AddSample(60, outer_, SampleState::kWithoutStack);
  const Table table = Make(By::kFunction);
  EXPECT_EQ(Rows(table)[0], "[not known]: 1 0 1");
  ASSERT_GE(table.notes.size(), 3u);
  EXPECT_NE(table.notes[1].find("have no stack"), std::string::npos);
  EXPECT_NE(table.notes[2].find("had blocked the signal"), std::string::npos);
}

TEST_F(HotspotsTest, WithoutSamplesItSaysHow) {
  const Table table = Make(By::kFunction);
  EXPECT_TRUE(table.rows.empty());
  EXPECT_NE(table.notes.at(0).find("--sample"), std::string::npos);
}

// Samples every 10.1 ms of loops that compute all the time.
std::vector<double> PlacesOf(double period_ms) {
  std::vector<double> places;
  for (int i = 0; i < 1000; ++i) places.push_back(std::fmod(i * 10.1 / period_ms, 1));
  return places;
}

TEST(TickFitTest, LoopsThatFitTheTicksAreTold) {
  EXPECT_TRUE(MeetsTheSamePlaces(PlacesOf(5.05), 1));
  EXPECT_TRUE(MeetsTheSamePlaces(PlacesOf(3 * 10.1), 0.95));
  EXPECT_FALSE(MeetsTheSamePlaces(PlacesOf(7.3), 1));
  EXPECT_FALSE(MeetsTheSamePlaces(PlacesOf(91.7), 1));
  EXPECT_FALSE(MeetsTheSamePlaces(PlacesOf(5.05), 0.5)) << "the thread sleeps elsewhere";
  EXPECT_FALSE(MeetsTheSamePlaces({0.5, 0.5, 0.5}, 1)) << "too few samples";
}

}  // namespace
}  // namespace dlhook::analyzer
