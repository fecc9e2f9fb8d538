// Packets -> model: ids, threads, oddities, aggregates, losses.
#include "analyzer/reader/trace_builder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>

#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

std::string CallText(int op, int sequence, int end, int duration, int parent_distance = 0, int thread = 1) {
  const auto field = [](const char* name, int value) { return std::string(name) + ": " + std::to_string(value) + " "; };
  return "packet { call_batch { " + field("thread_id", thread) + field("base_sequence", sequence - 1) +
         field("op_iid", op) + field("sequence_delta", 0) + field("end_delta_ticks", end) +
         field("duration", duration) + field("parent_distance", parent_distance) + "} }\n";
}

TEST(TraceBuilder, DecodesTheExampleOfTheSchema) {
  const TraceModel model = LoadText(HeaderText() + OpsText() + R"pb(
    packet {
      call_batch {
        thread_id: 1
        base_sequence: 41
        base_end_ticks: 881234500
        op_iid: [ 1, 2, 1 ]
        sequence_delta: [ 0, 0, 2 ]
        end_delta_ticks: [ 1200, 5400, 1000 ]
        duration: [ 900, 3100, 100 ]
        parent_distance: [ 0, 0, 0 ]
      }
    })pb");
  const CallColumns& calls = model.calls;
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls.sequence, (std::vector<uint64_t>{42, 43, 46}));
  EXPECT_EQ(calls.start_ns, (std::vector<int64_t>{881234800, 881238000, 881242000}));
  EXPECT_EQ(calls.duration_ns, (std::vector<int64_t>{900, 3100, 100}));
  EXPECT_EQ(model.ops[calls.op[1]].function, "inner");
  EXPECT_TRUE(model.oddities.empty());
}

TEST(TraceBuilder, ComputesSelfTimeAndOrdersParentsFirst) {
  const TraceModel model = LoadText(HeaderText() + OpsText() + CallText(2, 2, 500, 100, 1) +
                                    CallText(2, 3, 700, 150, 2) + CallText(1, 1, 1000, 800));
  const CallColumns& calls = model.calls;
  EXPECT_EQ(calls.sequence, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(calls.parent, (std::vector<CallIndex>{kNone, 0, 0}));
  EXPECT_EQ(calls.self_ns, (std::vector<int64_t>{550, 100, 150}));
}

TEST(TraceBuilder, TakesTapDurationsAsNanoseconds) {
  const TraceModel model =
      LoadText("packet { header { schema_major: 1 clock { kind: TSC ticks_per_second: 2000000000 } } }" + OpsText() +
               CallText(1, 1, 4000, 1000) + CallText(3, 2, 8000, 1000));
  EXPECT_EQ(model.calls.start_ns, (std::vector<int64_t>{1500, 3000}));
  EXPECT_EQ(model.calls.duration_ns, (std::vector<int64_t>{500, 1000}));
}

TEST(TraceBuilder, FindsOneOpInSeveralProcessesAndInterningPeriods) {
  const std::string other_ids =
      "packet { interned { op { iid: 9 function: 'inner' family: 'blas' time_source: CLOCK_TICKS } "
      "} }";
  const TraceModel model = LoadTexts({{"a", HeaderText() + OpsText() + CallText(2, 1, 100, 10) + "packet { reset {} }" +
                                                other_ids + CallText(9, 2, 200, 10)},
                                      {"b", HeaderText() + other_ids + CallText(9, 1, 100, 10)}});
  ASSERT_EQ(model.calls.size(), 3u);
  EXPECT_EQ(model.ops.size(), 3u);
  EXPECT_EQ(model.calls.op[0], model.calls.op[1]);
  EXPECT_EQ(model.calls.op[0], model.calls.op[2]);
}

TEST(TraceBuilder, ForgetsIdsAtAReset) {
  const TraceModel model =
      LoadText(HeaderText() + OpsText() + "packet { reset { reason: TABLES_FULL } }" + CallText(1, 1, 100, 10));
  EXPECT_EQ(OddityCount(model, "does not define"), 1);
  ASSERT_EQ(model.calls.size(), 1u);
  EXPECT_EQ(model.ops[model.calls.op[0]].function, "[unknown op]");
}

TEST(TraceBuilder, LeavesOutTheSecondOfTwoEqualSequenceNumbers) {
  const TraceModel model = LoadText(HeaderText() + OpsText() + CallText(1, 1, 100, 10) + CallText(2, 1, 300, 10) +
                                    CallText(2, 1, 300, 10, 0, 2));
  ASSERT_EQ(model.calls.size(), 2u);  // thread 2 has its own numbers
  EXPECT_EQ(model.ops[model.calls.op[0]].function, "outer");
  EXPECT_EQ(OddityCount(model, "twice"), 1);
}

TEST(TraceBuilder, SortsCallsThatComeLate) {
  const TraceModel model =
      LoadText(HeaderText() + OpsText() + CallText(1, 1, 100, 10) + CallText(1, 3, 500, 10) + CallText(3, 2, 300, 50));
  EXPECT_EQ(model.calls.sequence, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(model.oddities.empty());
}

TEST(TraceBuilder, CountsLostParentsUnequalArraysAndUnknownPackets) {
  const TraceModel model = LoadText(HeaderText() + OpsText() + CallText(2, 9, 100, 10, 3) +
                                    "packet { call_batch { thread_id: 1 op_iid: [ 1, 1 ] } } "
                                    "packet {}");
  EXPECT_EQ(model.calls.size(), 1u);
  EXPECT_EQ(OddityCount(model, "surrounding call"), 1);
  EXPECT_EQ(OddityCount(model, "differ in length"), 2);
  EXPECT_EQ(OddityCount(model, "does not know"), 1);
}

TEST(TraceBuilder, ComparesTheFootersCount) {
  const std::string calls = HeaderText() + OpsText() + CallText(1, 1, 100, 10);
  EXPECT_EQ(OddityCount(LoadText(calls + "packet { footer { calls: 1 } }"), "footer"), 0);
  EXPECT_EQ(OddityCount(LoadText(calls + "packet { footer { calls: 5 } }"), "footer tells of 5 calls, it holds 1"), 1);
}

TEST(TraceBuilder, ObservesFromTheShimsLoadingToTheFooter) {
  const TraceModel model = LoadText(HeaderText("shim_loaded_ticks: 50") + OpsText() + CallText(1, 1, 100, 10) +
                                    "packet { footer { end: VANISHED end_ticks: 400 calls: 1 } }");
  EXPECT_EQ(model.start_ns, 50);
  EXPECT_EQ(model.end_ns, 400);
  EXPECT_TRUE(model.processes[0].has_footer);
  EXPECT_EQ(model.processes[0].end, ProcessEnd::kVanished);
}

TEST(TraceBuilder, TakesTheLastRecordAsEndWhereThereIsNoFooter) {
  const TraceModel model = LoadText(HeaderText() + OpsText() + CallText(1, 1, 100, 10));
  EXPECT_EQ(model.start_ns, 90);
  EXPECT_EQ(model.end_ns, 100);
  EXPECT_FALSE(model.processes[0].has_footer);
}

TEST(TraceBuilder, KeepsTheLastCapabilityAndSumsLosses) {
  const TraceModel model = LoadText(HeaderText() + R"pb(
    packet { capability { name: "onednn-tap" object: "a.so" state: ON } }
    packet { capability { name: "onednn-tap" object: "b.so" state: REFUSED } }
    packet { capability { name: "onednn-tap" object: "a.so" state: LOST reason: "r" } }
    packet { loss { reason: RING_FULL thread_id: 3 calls: 5 } }
    packet { loss { reason: RING_FULL thread_id: 3 calls: 7 bytes: 2 } }
    packet { loss { reason: RING_FULL thread_id: 4 calls: 1 } })pb");
  const ProcessInfo& process = model.processes[0];
  ASSERT_EQ(process.capabilities.size(), 2u);
  EXPECT_EQ(process.capabilities[0].state, CapabilityState::kLost);
  ASSERT_EQ(process.losses.size(), 2u);
  EXPECT_EQ(process.losses[0].calls, 12u);
  EXPECT_EQ(process.losses[0].bytes, 2u);
}

TEST(TraceBuilder, ReadsAggregates) {
  const TraceModel model = LoadText(
      "packet { header { schema_major: 1 clock { kind: TSC ticks_per_second: 2000000000 } } }" + OpsText() + R"pb(
        packet { thread { thread_id: 1 tid: 5 name: "main" } }
        packet {
          call_aggregate {
            thread_id: 1
            op_iid: 1
            window_start_ticks: 2000
            window_end_ticks: 10000
            count: 10
            sum: 4000
            min: 200
            max: 800
            nested_count: 2
            nested_sum: 1000
          }
        }
        packet {
          call_aggregate { thread_id: 1 op_iid: 3 window_start_ticks: 2000 window_end_ticks: 10000 count: 1 sum: 500 }
        })pb");
  ASSERT_EQ(model.aggregates.size(), 2u);
  const AggregateRow& row = model.aggregates[0];
  EXPECT_EQ(row.window_start_ns, 1000);
  EXPECT_EQ(row.window_end_ns, 5000);
  EXPECT_EQ(row.count, 10);
  EXPECT_EQ(row.sum_ns, 2000);
  EXPECT_EQ(row.min_ns, 100);
  EXPECT_EQ(row.nested_count, 2);
  EXPECT_EQ(row.nested_sum_ns, 500);
  EXPECT_EQ(model.aggregates[1].sum_ns, 500);  // the tap's are nanoseconds
  EXPECT_EQ(model.start_ns, 1000);
  EXPECT_EQ(model.end_ns, 5000);
}

TEST(TraceBuilder, SurvivesTracesWithChangedBytes) {
  const std::string bytes = TraceBytesOf(HeaderText("shim_loaded_ticks: 50") + OpsText() + CallText(2, 2, 500, 100, 1) +
                                         CallText(1, 1, 1000, 800) + CallText(3, 3, 3000, 100) +
                                         "packet { call_aggregate { thread_id: 1 op_iid: 1 count: 3 sum: 9 } }");
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = bytes;
    for (int i = 0; i < 2; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    TraceBuilder builder("run");
    builder.AddTrace("x", {damaged}).IgnoreError();
    const TraceModel model = std::move(builder).Build();
    const RunTotals totals = ComputeTotals(model);
    EXPECT_EQ(totals.in_library_wall_ns + totals.unattributed_ns, model.wall_ns());
  }
}

}  // namespace
}  // namespace dlhook::analyzer
