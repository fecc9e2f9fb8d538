// The table `collectives`.
#include <gtest/gtest.h>

#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

trace::OpDefinition Collective(const std::string& function, const std::string& family, const std::string& fields) {
  return Definition("function: '" + function + "' family: '" + family + "' time_source: CLOCK_TICKS collective { " +
                    fields + " }");
}

trace::OpDefinition AllReduce(int rank, int64_t bytes) {
  return Collective("ncclAllReduce", "nccl",
                    "kind: ALL_REDUCE bytes: " + std::to_string(bytes) +
                        " data_type: F32 reduction: 0 peer: -1 communicator: 1 ranks: 2 rank: " + std::to_string(rank));
}

TEST(CollectivesTableTest, ProcessesStandInOneRow) {
  ModelBuilder builder;
  const ThreadIndex other = builder.AddThread(builder.AddProcess());
  for (int i = 0; i < 3; ++i) {
    builder.Call(builder.AddOp(AllReduce(0, 4096)), i * 100, 10);
    builder.Call(builder.AddOp(AllReduce(1, 4096)), i * 100, 30, other);
  }
  builder.Call(builder.AddOp(AllReduce(0, 64)), 900, 10, 0, 5);
  const Table table = RunPass("collectives", builder.Build(1000));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Text(table, 0, "kind"), "all reduce");
  EXPECT_EQ(Integer(table, 0, "communicator"), 1);
  EXPECT_EQ(Integer(table, 0, "ranks"), 2);
  EXPECT_EQ(Integer(table, 0, "size"), 4096);
  EXPECT_EQ(Text(table, 0, "type"), "f32");
  EXPECT_EQ(Text(table, 0, "reduction"), "sum");
  EXPECT_EQ(Integer(table, 0, "calls"), 6);
  EXPECT_EQ(Integer(table, 0, "bytes"), 6 * 4096);
  EXPECT_EQ(Integer(table, 0, "total_time"), 120);
  EXPECT_EQ(Text(table, 0, "callers"), "0,1");
  EXPECT_EQ(Text(table, 0, "peers"), "");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, 0, "rate")));
  EXPECT_EQ(Integer(table, 0, "failed"), 0);
  EXPECT_EQ(Integer(table, 1, "failed"), 1);
}

TEST(CollectivesTableTest, BlockingCallsHaveARate) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(Collective("MPI_Bcast", "mpi",
                                        "kind: BROADCAST bytes: 6000 reduction: -1 peer: 3 "
                                        "communicator: 2 rank: -1 blocking: true")),
               0, 2000);
  builder.Call(builder.AddOp(Collective("MPI_Barrier", "mpi",
                                        "kind: BARRIER reduction: -1 peer: -1 communicator: 2 "
                                        "rank: -1 blocking: true")),
               3000, 500);
  builder.Call(builder.AddOp(Collective("MPI_Send", "mpi",
                                        "kind: SEND reduction: -1 peer: 1 communicator: 2 rank: -1 "
                                        "blocking: true")),
               4000, 500);
  const Table table = RunPass("collectives", builder.Build(10000));
  ASSERT_EQ(table.rows.size(), 3u);
  const size_t broadcast = RowWhere(table, {{"kind", "broadcast"}});
  EXPECT_DOUBLE_EQ(Real(table, broadcast, "rate"), 3.0);
  EXPECT_EQ(Text(table, broadcast, "peers"), "3");
  EXPECT_EQ(Text(table, broadcast, "reduction"), "");
  EXPECT_EQ(Integer(table, RowWhere(table, {{"kind", "barrier"}}), "bytes"), 0);
  // Its type is unknown: bytes are unknown, not 0.
  const size_t send = RowWhere(table, {{"kind", "send"}});
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, send, "bytes")));
}

// Backends of torch.distributed without hooks report ranges; for NCCL and MPI the calls themselves are recorded.
TEST(CollectivesTableTest, RangesOfGlooStandInIt) {
  ModelBuilder builder;
  for (int i = 0; i < 3; ++i) {
    builder.Scope("gloo:_allgather_base", ScopeKind::kUserRange, i * 100, 10 + i, 0, 4096);
    builder.Scope("nccl:all_reduce", ScopeKind::kUserRange, i * 100 + 50, 10);
  }
  builder.Scope("gloo:broadcast", ScopeKind::kUserRange, 500, 10);  // of a release that does not tell its bytes
  const Table table = RunPass("collectives", builder.Build(1000));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Text(table, 0, "kind"), "all gather");
  EXPECT_EQ(Integer(table, 0, "calls"), 3);
  EXPECT_EQ(Integer(table, 0, "total_time"), 33);
  EXPECT_EQ(Integer(table, 0, "mean_time"), 11);
  EXPECT_EQ(Text(table, 0, "functions"), "gloo:_allgather_base");
  EXPECT_EQ(Integer(table, 0, "size"), 4096);
  EXPECT_EQ(Integer(table, 0, "bytes"), 3 * 4096);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, 1, "size")));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, 0, "wall_share")));
}

TEST(CollectivesTableTest, WhatIsReducedBehindTheBackwardPassIsTold) {
  ModelBuilder builder;
  builder.model().processes[0].rank_variables = {{"RANK", "0"}};
  const ThreadIndex backend = builder.AddThread(0);
  for (int64_t at_ns = 0; at_ns < 6000; at_ns += 1000) {
    builder.Scope("aten::linear", ScopeKind::kFrameworkOp, at_ns, 100, 0, at_ns / 1000);
    builder.Scope("AddmmBackward0", ScopeKind::kBackwardNode, at_ns + 200, 200, 0, at_ns / 1000);
    builder.Scope("gloo:all_reduce", ScopeKind::kUserRange, at_ns + 300, 50, backend, 2048);
    builder.Scope("gloo:all_reduce", ScopeKind::kUserRange, at_ns + 410, 240, backend, 6144);
    builder.Scope("Optimizer.step#SGD.step", ScopeKind::kUserRange, at_ns + 700, 100);
  }
  const Table table = RunPass("collectives", builder.Build(6000));
  ASSERT_EQ(table.notes.size(), 1u);
  EXPECT_TRUE(table.notes[0].starts_with(
      "Reductions from the backward pass on: 2 a step, 8.00 KiB. The last, of 6.00 KiB, ends 250 ns "
      "after the pass (25.0 % of the step)"))
      << table.notes[0];
}

}  // namespace
}  // namespace dlhook::analyzer
