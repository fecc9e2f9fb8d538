// Statuses of failed calls, from the packets to the model.
#include <gtest/gtest.h>

#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

// Three consecutive calls of thread 1, with the numbers 11, 12 and 14; `statuses` as text.
std::string Batch(const std::string& statuses) {
  return HeaderText() + OpsText() +
         "packet { call_batch { thread_id: 1 base_sequence: 10 base_end_ticks: 0 "
         "op_iid: 1 op_iid: 2 op_iid: 1 sequence_delta: 0 sequence_delta: 0 sequence_delta: 1 "
         "end_delta_ticks: 100 end_delta_ticks: 100 end_delta_ticks: 100 "
         "duration: 10 duration: 10 duration: 10 "
         "parent_distance: 0 parent_distance: 0 parent_distance: 0 " +
         statuses + " } }";
}

TEST(StatusTest, FailedCallsKeepTheirStatus) {
  const TraceModel model = LoadText(Batch("status_index: 0 status: -1 status_index: 2 status: 3000"));
  ASSERT_EQ(model.failed_calls.size(), 2u);
  EXPECT_EQ(model.StatusOf(0), -1);
  EXPECT_EQ(model.StatusOf(1), 0);
  EXPECT_EQ(model.StatusOf(2), 3000);
  EXPECT_EQ(model.StatusOf(3), 0);
  EXPECT_TRUE(model.oddities.empty());
}

TEST(StatusTest, StatusesMayBeInAnyOrder) {
  const TraceModel model = LoadText(Batch("status_index: 2 status: 7 status_index: 0 status: 5"));
  EXPECT_EQ(model.StatusOf(0), 5);
  EXPECT_EQ(model.StatusOf(1), 0);
  EXPECT_EQ(model.StatusOf(2), 7);
  EXPECT_TRUE(model.oddities.empty());
}

TEST(StatusTest, NestedCallsAreReorderedWithTheirStatus) {
  // The inner call ended first and comes first in the trace; in the model its parent does.
  const TraceModel model =
      LoadText(HeaderText() + OpsText() +
               "packet { call_batch { thread_id: 1 base_sequence: 1 base_end_ticks: 0 op_iid: 2 op_iid: 1 "
               "sequence_delta: 0 sequence_delta: -2 end_delta_ticks: 500 end_delta_ticks: 500 "
               "duration: 100 duration: 800 parent_distance: 1 parent_distance: 0 "
               "status_index: 0 status: 15 } }");
  ASSERT_EQ(model.calls.size(), 2u);
  EXPECT_EQ(model.ops[model.calls.op[1]].function, "inner");
  EXPECT_EQ(model.StatusOf(0), 0);
  EXPECT_EQ(model.StatusOf(1), 15);
}

TEST(StatusTest, ThreadsAndProcessesKeepTheirOwn) {
  const TraceModel model =
      LoadTexts({{"1.dlh", Batch("status_index: 1 status: 7")}, {"2.dlh", Batch("status_index: 2 status: 9")}});
  ASSERT_EQ(model.calls.size(), 6u);
  EXPECT_EQ(model.StatusOf(1), 7);
  EXPECT_EQ(model.StatusOf(5), 9);
  EXPECT_EQ(model.failed_calls.size(), 2u);
}

TEST(StatusTest, DamagedStatusesAreOddities) {
  for (const char* statuses :
       {"status_index: 3 status: 5", "status_index: 4000000000 status: 5", "status_index: 0", "status: 5"}) {
    const TraceModel model = LoadText(Batch(statuses));
    EXPECT_TRUE(model.failed_calls.empty()) << statuses;
    EXPECT_EQ(model.oddities.at("a status without a call, or a call without its status"), 1) << statuses;
  }
}

}  // namespace
}  // namespace dlhook::analyzer
