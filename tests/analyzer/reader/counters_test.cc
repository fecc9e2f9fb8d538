// Counter readings: from batches to series, and impossible batches.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/model/trace_model.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

std::string Names() {
  return "packet { interned { string { iid: 3 value: 'task-clock' } string { iid: 4 value: 'minor-faults' } } }\n";
}

std::string Thread(int id, int tid) {
  return absl::StrCat("packet { thread { thread_id: ", id, " tid: ", tid, " name: 'main' } }\n");
}

std::string BatchText(const std::string& fields) { return absl::StrCat("packet { counter_batch { ", fields, " } }\n"); }

TEST(CounterSeriesTest, DeltasAddUpWithinABatchAndBatchesJoin) {
  const TraceModel model = LoadText(
      HeaderText("pid: 7") + Thread(1, 70) + Names() +
      BatchText(
          "thread_id: 1 tid: 70 kind: BOUNDARY source: RUSAGE name_iid: 3 name_iid: 4 tick_delta: 1000 tick_delta: 500 "
          "value_delta: 100 value_delta: 5 value_delta: 400 value_delta: 2") +
      BatchText("thread_id: 1 tid: 70 kind: BOUNDARY source: RUSAGE name_iid: 3 name_iid: 4 tick_delta: 1800 "
                "value_delta: 700 "
                "value_delta: 7"));
  ASSERT_EQ(model.counters.size(), 1u);
  const CounterSeries& series = model.counters[0];
  EXPECT_EQ(series.thread, 0u);
  EXPECT_EQ(series.tid, 70u);
  EXPECT_EQ(series.kind, CounterKind::kBoundary);
  EXPECT_EQ(series.source, CounterSource::kRusage);
  EXPECT_EQ(model.names[series.names[1]], "minor-faults");
  EXPECT_EQ(series.time_ns, (std::vector<int64_t>{1000, 1500, 1800}));
  EXPECT_EQ(series.value, (std::vector<uint64_t>{100, 5, 500, 7, 700, 7}));
  EXPECT_TRUE(series.enabled_ns.empty());
  EXPECT_TRUE(model.oddities.empty());
}

TEST(CounterSeriesTest, AThreadThatTheSamplerMetBeforeItsFirstCallIsTheSameThread) {
  const TraceModel model =
      LoadText(HeaderText("pid: 7") + Thread(1, 70) + Names() +
               BatchText("tid: 70 kind: SAMPLE source: PROC name_iid: 3 tick_delta: 100 tick_delta: 100 value_delta: 1 "
                         "value_delta: 1") +
               BatchText("thread_id: 1 tid: 70 kind: SAMPLE source: PROC name_iid: 3 tick_delta: 300 value_delta: 3") +
               BatchText("tid: 71 kind: SAMPLE source: PROC name_iid: 3 tick_delta: 100 value_delta: 9") +
               BatchText("kind: SAMPLE source: RUSAGE name_iid: 3 tick_delta: 100 value_delta: 40"));
  ASSERT_EQ(model.counters.size(), 3u);
  EXPECT_EQ(model.counters[0].thread, 0u);
  EXPECT_EQ(model.counters[0].value, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(model.counters[1].thread, kNone);
  EXPECT_EQ(model.counters[1].tid, 0u) << "the process";
  EXPECT_EQ(model.counters[2].tid, 71u);
}

TEST(CounterSeriesTest, ReadingsAreOrderedByTime) {
  const TraceModel model = LoadText(
      HeaderText("pid: 7") + Thread(1, 70) + Names() +
      BatchText(
          "thread_id: 1 tid: 70 name_iid: 3 tick_delta: 900 value_delta: 30 enabled_delta_ns: 9 running_delta_ns: 3") +
      BatchText(
          "thread_id: 1 tid: 70 name_iid: 3 tick_delta: 500 value_delta: 20 enabled_delta_ns: 5 running_delta_ns: 2"));
  ASSERT_EQ(model.counters.size(), 1u);
  EXPECT_EQ(model.counters[0].time_ns, (std::vector<int64_t>{500, 900}));
  EXPECT_EQ(model.counters[0].value, (std::vector<uint64_t>{20, 30}));
  EXPECT_EQ(model.counters[0].enabled_ns, (std::vector<uint64_t>{5, 9}));
  EXPECT_EQ(model.counters[0].running_ns, (std::vector<uint64_t>{2, 3}));
}

TEST(CounterSeriesTest, WhatRunsBackwardsOrTooFarCountsNothing) {
  const TraceModel model = LoadText(
      HeaderText("pid: 7") + Thread(1, 70) + Names() +
      BatchText("thread_id: 1 tid: 70 name_iid: 3 tick_delta: 100 tick_delta: 100 tick_delta: 100 tick_delta: 100 "
                "value_delta: 50 value_delta: -20 value_delta: 5 value_delta: 4000000000000000000"));
  ASSERT_EQ(model.counters.size(), 1u);
  EXPECT_EQ(model.counters[0].value, (std::vector<uint64_t>{50, 50, 55, 55}));
  EXPECT_EQ(OddityCount(model, "ran backwards"), 2);
}

TEST(CounterSeriesTest, BatchesThatDoNotFitTogetherAreLeftOut) {
  const TraceModel model =
      LoadText(HeaderText("pid: 7") + Thread(1, 70) + Names() + BatchText("thread_id: 1 tick_delta: 1 value_delta: 1") +
               BatchText("thread_id: 1 name_iid: 3 name_iid: 4 tick_delta: 1 value_delta: 1") +
               BatchText("thread_id: 1 name_iid: 3 tick_delta: 1 value_delta: 1 enabled_delta_ns: 1") +
               BatchText("thread_id: 1 name_iid: 99 tick_delta: 1 value_delta: 1"));
  ASSERT_EQ(model.counters.size(), 1u);
  EXPECT_EQ(model.names[model.counters[0].names[0]], "[unknown name]");
  EXPECT_EQ(OddityCount(model, "do not fit together"), 3);
}

}  // namespace
}  // namespace dlhook::analyzer
