// The tables `devices` and `ranks`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace devices_test {

using Kind = GpuActivityKind;

// A model whose processes have a GPU each. Add calls first: activities refer to them by their later index.
class GpuRun {
 public:
  explicit GpuRun(int processes) {
    for (int i = 1; i < processes; ++i) builder_.AddThread(builder_.AddProcess());
    for (int i = 0; i < processes; ++i) {
      GpuDevice device;
      device.process = static_cast<ProcessIndex>(i);
      device.uuid = "GPU-" + std::to_string(i);
      builder_.model().gpu_devices.push_back(device);
    }
  }

  void Rank(ProcessIndex process, const std::string& rank) {
    builder_.model().processes[process].rank_variables = {{"RANK", rank}};
  }

  void Work(Kind kind, GpuDeviceIndex device, int64_t start_ns, int64_t end_ns, CallIndex call = kNone,
            uint64_t bytes = 0) {
    GpuActivityColumns& gpu = builder_.model().gpu;
    gpu.start_ns.push_back(start_ns);
    gpu.end_ns.push_back(end_ns);
    gpu.kind.push_back(kind);
    gpu.source.push_back(GpuTimeSource::kCupti);
    gpu.device.push_back(device);
    gpu.stream.push_back(7);
    gpu.kernel.push_back(kNone);
    gpu.bytes.push_back(bytes);
    gpu.direction.push_back(CopyDirection::kHostToDevice);
    gpu.host_memory.push_back(HostMemory::kPinned);
    gpu.graph.push_back(0);
    gpu.launch_call.push_back(call);
    gpu.call.push_back(call);
    gpu.thread.push_back(kNone);
    gpu.requested_ns.push_back(GpuActivityColumns::kNotKnown);
  }

  void AllReduce(ProcessIndex process, int rank, int64_t start_ns, int64_t duration_ns, const std::string& more = "") {
    builder_.Call(builder_.AddOp(Definition("function: 'ncclAllReduce' family: 'nccl' time_source: CLOCK_TICKS "
                                            "collective { kind: ALL_REDUCE bytes: 64 peer: -1 communicator: 1 "
                                            "ranks: 2 rank: " +
                                            std::to_string(rank) + more + " }")),
                  start_ns, duration_ns, process);
  }

  GpuDevice& Device(GpuDeviceIndex device) { return builder_.model().gpu_devices[device]; }
  TraceModel Build() { return builder_.Build(1000); }
  ModelBuilder& builder() { return builder_; }

 private:
  ModelBuilder builder_;
};

bool IsUnknown(const Table& table, size_t row, const std::string& column) {
  return std::holds_alternative<std::monostate>(At(table, row, column));
}

TEST(DevicesTableTest, TimesOverlapAndAddUp) {
  GpuRun run(1);
  run.AllReduce(0, 0, 10, 5);
  run.Work(GpuActivityKind::kKernel, 0, 100, 300);
  run.Work(GpuActivityKind::kKernel, 0, 200, 400);     // overlaps the first: counts once
  run.Work(GpuActivityKind::kKernel, 0, 350, 500, 0);  // for the collective: 100 ns exposed
  run.Work(GpuActivityKind::kCopy, 0, 600, 650, kNone, 4096);
  run.Work(GpuActivityKind::kSet, 0, 900, 1100, kNone, 10);  // extends beyond the end: cut
  const Table table = RunPass("devices", run.Build());
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Integer(table, 0, "time"), 1000);
  EXPECT_EQ(Integer(table, 0, "compute"), 300);
  EXPECT_EQ(Integer(table, 0, "communication"), 150);
  EXPECT_EQ(Integer(table, 0, "exposed_communication"), 100);
  EXPECT_NEAR(Real(table, 0, "comm_overlap"), 100.0 / 3, 1e-9);
  EXPECT_EQ(Integer(table, 0, "copy"), 150);
  EXPECT_EQ(Integer(table, 0, "idle"), 1000 - 400 - 150);
  EXPECT_DOUBLE_EQ(Real(table, 0, "busy"), 55.0);
  EXPECT_EQ(Integer(table, 0, "kernels"), 3);
  EXPECT_EQ(Integer(table, 0, "copies"), 2);
  EXPECT_EQ(Integer(table, 0, "copied_bytes"), 4106);
  EXPECT_EQ(Text(table, 0, "source"), "CUPTI");
  EXPECT_TRUE(IsUnknown(table, 0, "steps"));
  EXPECT_TRUE(IsUnknown(table, 0, "shared_with"));
}

TEST(DevicesTableTest, WhatWasNotMeasuredIsNotIdle) {
  GpuRun run(1);
  run.Work(GpuActivityKind::kKernel, 0, 100, 300);
  TraceModel model = run.Build();
  model.gpu_windows = {{0, 50, 400, GpuTimeSource::kCupti, ""},
                       {0, 400, 700, GpuTimeSource::kNone, "the program uses CUPTI itself"},
                       {0, 700, 1000, GpuTimeSource::kCupti, ""}};
  const Table table = RunPass("devices", model);
  EXPECT_EQ(Integer(table, 0, "time"), 650);
  EXPECT_EQ(Integer(table, 0, "idle"), 450);
}

TEST(DevicesTableTest, ProcessesThatShareADeviceSaySo) {
  GpuRun run(3);
  run.Rank(0, "10");
  run.Rank(1, "9");
  run.Device(2).uuid = run.Device(1).uuid;
  run.Device(0).name = "NVIDIA H200";
  run.Device(0).is_partition = true;
  run.Device(0).link_generation = 5;
  run.Device(0).link_width = 16;
  for (GpuDeviceIndex device = 0; device < 3; ++device) run.Work(GpuActivityKind::kKernel, device, 100, 300);
  const Table table = RunPass("devices", run.Build());
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(Text(table, 0, "rank"), "9");
  EXPECT_EQ(Text(table, 0, "shared_with"), "process 4713");
  EXPECT_EQ(Text(table, 1, "rank"), "10");
  EXPECT_EQ(Text(table, 1, "name"), "NVIDIA H200, MIG instance");
  EXPECT_EQ(Text(table, 1, "link"), "PCIe 5 x16");
  EXPECT_TRUE(IsUnknown(table, 1, "shared_with"));
  EXPECT_EQ(Text(table, 2, "shared_with"), "process 4712");
  ASSERT_EQ(table.notes.size(), 1u);
  EXPECT_NE(table.notes[0].find("process 4712, process 4713 share the device GPU-1"), std::string::npos)
      << table.notes[0];
}

TEST(DevicesTableTest, RunsWithoutGpuTimesHaveNoRows) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(GemmDefinition(4, 4, 4, "NN")), 0, 10);
  EXPECT_TRUE(RunPass("devices", builder.Build()).rows.empty());
}

// Rank 1 comes 30 ns late to the first, rank 0 100 ns late to the second.
TEST(RanksTableTest, WhoWaitsForWhomOnTheGpu) {
  GpuRun run(2);
  run.Rank(0, "0");
  run.Rank(1, "1");
  for (int process = 0; process < 2; ++process) {
    run.AllReduce(static_cast<ProcessIndex>(process), process, 10, 5);
    run.AllReduce(static_cast<ProcessIndex>(process), process, 400, 5,
                  " count: 7");  // a different problem: nothing repeats
  }
  // Calls 0 and 1 belong to process 0.
  run.Work(GpuActivityKind::kKernel, 0, 50, 100);
  run.Work(GpuActivityKind::kKernel, 0, 100, 160, 0);
  run.Work(GpuActivityKind::kKernel, 0, 600, 650, 1);
  run.Work(GpuActivityKind::kKernel, 1, 50, 125);
  run.Work(GpuActivityKind::kKernel, 1, 130, 160, 2);
  run.Work(GpuActivityKind::kKernel, 1, 500, 650, 3);
  const TraceModel model = run.Build();
  const Table table = RunPass("ranks", model);
  ASSERT_EQ(table.rows.size(), 2u);
  for (size_t row = 0; row < 2; ++row) EXPECT_EQ(Integer(table, row, "collectives"), 2);
  EXPECT_EQ(Integer(table, 0, "waiting"), 30);
  EXPECT_EQ(Integer(table, 1, "waiting"), 100);
  EXPECT_EQ(Integer(table, 0, "lateness"), 50);
  EXPECT_EQ(Integer(table, 1, "lateness"), 15);
  EXPECT_EQ(Integer(table, 0, "came_last"), 1);
  EXPECT_EQ(Integer(table, 1, "came_last"), 1);
  EXPECT_EQ(Integer(table, 0, "compute"), 50);
  EXPECT_EQ(Integer(table, 1, "communication"), 180);
  ASSERT_EQ(table.notes.size(), 2u);
  EXPECT_EQ(table.notes[0], "Compute of a step takes 75 ns on rank 1 and 50 ns on rank 0: 1.50 times as long.");
  EXPECT_NE(table.notes[1].find("at 2 collective operations"), std::string::npos) << "each was last once";
  EXPECT_NE(table.notes[1].find("at most 100 ns"), std::string::npos) << table.notes[1];
  EXPECT_EQ(Integer(RunPass("collectives", model), 0, "arrival_skew"), 65);  // of 30 and 100
}

TEST(RanksTableTest, WithoutGpuTimesBlockingCallsTell) {
  GpuRun run(2);
  run.AllReduce(0, 0, 10, 100, " blocking: true");
  run.AllReduce(1, 1, 70, 40, " blocking: true");
  const Table table = RunPass("ranks", run.Build());
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Integer(table, 0, "waiting"), 60);
  EXPECT_EQ(Integer(table, 1, "waiting"), 0);
  EXPECT_TRUE(IsUnknown(table, 0, "compute"));
}

// The first of a part on one rank need not be the first on another.
TEST(RanksTableTest, PartsOfARunAreNotMatched) {
  GpuRun run(2);
  run.AllReduce(0, 0, 10, 100, " blocking: true");
  run.AllReduce(1, 1, 70, 40, " blocking: true");
  TraceModel model = run.Build();
  model.read_spans = {{0, 0, 1000}, {1, 0, 1000}};
  EXPECT_TRUE(RunPass("ranks", model).rows.empty());
}

TEST(RanksTableTest, HowLongAsynchronousOnesWaitIsNotKnownByTheHost) {
  GpuRun run(2);
  run.AllReduce(0, 0, 10, 5);
  run.AllReduce(1, 1, 70, 5);
  const Table table = RunPass("ranks", run.Build());
  EXPECT_TRUE(IsUnknown(table, 0, "waiting"));
  EXPECT_EQ(Integer(table, 1, "lateness"), 60);
}

// Only operations that wait for each other tell which processes belong together.
TEST(RanksTableTest, ProcessesOfSeveralGroupsAreMatchedIfTheyAlwaysMeet) {
  for (const char* blocking : {"", " blocking: true"}) {
    GpuRun run(4);
    for (int process = 0; process < 4; ++process)
      run.AllReduce(static_cast<ProcessIndex>(process), process % 2, process < 2 ? 10 : 40, 20, blocking);
    const Table table = RunPass("ranks", run.Build());
    EXPECT_EQ(table.rows.size(), *blocking == 0 ? 0u : 4u);
    EXPECT_EQ(table.notes.back().find("the same rank twice") != std::string::npos, *blocking == 0);
  }
}

// torchrun starts all ranks again: each start is a group of its own.
TEST(RanksTableTest, ARankThatCameBackMeetsThoseOfItsStart) {
  GpuRun run(4);
  for (ProcessIndex process = 0; process < 4; ++process) {
    run.AllReduce(process, process % 2, process < 2 ? 10 : 500 + 50 * (process % 2), 100, " blocking: true");
    run.builder().model().processes[process].rank_variables.push_back(
        {"TORCHELASTIC_RESTART_COUNT", process < 2 ? "0" : "1"});
  }
  const Table table = RunPass("ranks", run.Build());
  ASSERT_EQ(table.rows.size(), 4u);
  for (size_t row = 0; row < 4; ++row) EXPECT_EQ(Integer(table, row, "collectives"), 1);
  std::vector<std::pair<int64_t, int64_t>> late;  // restart, time after the first rank
  for (size_t row = 0; row < 4; ++row)
    late.emplace_back(Integer(table, row, "restart"), Integer(table, row, "lateness"));
  EXPECT_THAT(late, testing::UnorderedElementsAre(std::pair(0, 0), std::pair(0, 0), std::pair(1, 0), std::pair(1, 50)));
}

TEST(RanksTableTest, WithoutRowsItSaysWhy) {
  ModelBuilder builder;
  builder.model().processes.front().rank_variables = {{"RANK", "3"}};
  builder.Scope("gloo:all_reduce", ScopeKind::kUserRange, 0, 10);
  EXPECT_THAT(RunPass("ranks", builder.Build(100)).notes, testing::ElementsAre(testing::HasSubstr("One rank")));
}

// What torch.distributed's Gloo records: one range per operation, on a separate thread.
class GlooRun {
 public:
  GlooRun() {
    for (int i = 1; i < kRanks; ++i) builder_.AddThread(builder_.AddProcess());
    for (int i = 0; i < kRanks; ++i) {
      builder_.AddThread(static_cast<ProcessIndex>(i));  // another one of the backend
      builder_.model().processes[static_cast<size_t>(i)].rank_variables = {{"RANK", std::to_string(i)}};
    }
  }
  void Range(int rank, const std::string& what, int64_t start_ns, int64_t end_ns, bool on_other = false,
             int64_t bytes = -1) {
    builder_.Scope("gloo:" + what, ScopeKind::kUserRange, start_ns, end_ns - start_ns,
                   static_cast<ThreadIndex>(rank + (on_other ? kRanks : 0)), bytes);
  }
  // All end 10 ns after the last one has begun.
  void AllReduce(const std::vector<int64_t>& starts_ns) {
    const int64_t last_ns = *std::max_element(starts_ns.begin(), starts_ns.end());
    for (int rank = 0; rank < static_cast<int>(starts_ns.size()); ++rank) {
      Range(rank, "all_reduce", starts_ns[static_cast<size_t>(rank)], last_ns + 10);
    }
  }
  TraceModel Build(int64_t wall_ns = 1000) { return builder_.Build(wall_ns); }

 private:
  static constexpr int kRanks = 4;
  ModelBuilder builder_;
};

TEST(RanksTableTest, RangesOfGlooTellForWhomTheOthersWait) {
  GlooRun run;
  for (int64_t step = 0; step < 5; ++step) run.AllReduce({step * 100 + 1, step * 100, step * 100 + 50, step * 100 + 2});
  const Table table = RunPass("ranks", run.Build());
  ASSERT_EQ(table.rows.size(), 4u);
  EXPECT_EQ(Integer(table, 2, "came_last"), 5);
  EXPECT_EQ(Integer(table, 2, "waiting"), 0);
  EXPECT_EQ(Integer(table, 1, "waiting"), 5 * 50) << "of the whole run, which has no steps";
  EXPECT_EQ(
      table.notes[0],
      "The others wait for rank 2: it came last to 5 of 5 operations, in a mean step 250 ns after the first one.");
}

// Of later operations each rank keeps others.
TEST(RanksTableTest, OfABoundedTraceTheBeginningIsMatched) {
  GlooRun run;
  for (int64_t step = 0; step < 5; ++step) run.AllReduce({step * 100 + 1, step * 100, step * 100 + 50, step * 100 + 2});
  TraceModel model = run.Build();
  for (ProcessIndex rank = 0; rank < 4; ++rank) {
    model.processes[rank].losses.emplace_back().reason = LossReason::kTraceLimit;
    model.scope_windows.push_back({rank, 0, rank == 1 ? 350 : 260});
    model.scope_windows.push_back({rank, 400, 500});
  }
  const Table table = RunPass("ranks", model);
  EXPECT_EQ(Integer(table, 2, "came_last"), 3);
  EXPECT_EQ(table.notes.back(), "Not matched: operations later than the beginning of which the trace keeps all (7).");
}

TEST(RanksTableTest, NamesTheLateRankFromThreeFifthsOfTheWaits) {
  for (const auto& [other_ns, times] : {std::pair<int64_t, int64_t>(48, 100), {54, 100}, {48, 3}}) {
    GlooRun run;  // rank 2 causes 62.5 % of the waits, or 59.7 %; of six operations chance may do that
    for (int64_t at_ns = 0; at_ns < 200 * times; at_ns += 200) {
      run.AllReduce({at_ns + 1, at_ns, at_ns + 80, at_ns + 2});
      run.AllReduce({at_ns + 101, at_ns + 100, at_ns + 102, at_ns + 100 + other_ns});
    }
    const Table table = RunPass("ranks", run.Build(200 * times));
    const bool is_named = std::any_of(table.notes.begin(), table.notes.end(), [](const std::string& note) {
      return note.starts_with("The others wait for rank 2");
    });
    EXPECT_EQ(is_named, other_ns == 48 && times == 100);
  }
}

// A mesh of 2 x 2: ranks 0 and 1, 2 and 3 reduce 64 bytes together, 0 and 2, 1 and 3 then 4096. Only visible because one group ends
// before another begins.
TEST(RanksTableTest, RangesOfSeveralGroupsAreMatchedWithinEach) {
  GlooRun run;
  for (int64_t at_ns = 0; at_ns < 500; at_ns += 100) {
    for (int rank = 0; rank < 4; ++rank) {
      const int64_t first_ns = at_ns + (rank < 2 ? 0 : 40), second_ns = at_ns + 70 + rank % 2 * 10;
      run.Range(rank, "all_reduce", first_ns + (rank == 3 ? 9 : 0), first_ns + 20, false, 64);
      run.Range(rank, "all_reduce", second_ns, second_ns + 5, false, 4096);
      run.Range(rank, "broadcast", at_ns + 95, at_ns + 96, false, 64);  // as many in each group
    }
  }
  const Table table = RunPass("ranks", run.Build());
  ASSERT_EQ(table.rows.size(), 4u);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(Integer(table, rank, "collectives"), 10);
    EXPECT_EQ(Integer(table, rank, "came_last"), rank == 3 ? 5 : 0);
    EXPECT_EQ(Integer(table, rank, "waiting"), rank == 2 ? 5 * 9 : 0);
  }
}

// Ranks 0 and 1 meet, 2 and 3 do not: records are lost, or they wait for others.
TEST(RanksTableTest, RangesOfUnclearGroupsAreNotMatched) {
  GlooRun run;
  for (int64_t at_ns = 0; at_ns < 500; at_ns += 100) {
    for (int rank = 0; rank < 4; ++rank) {
      const int64_t start_ns = at_ns + (rank < 2 ? 0 : 30 * (rank - 1));
      run.Range(rank, "all_reduce", start_ns, start_ns + 20);
    }
  }
  run.Range(0, "send", 800, 810);
  const Table table = RunPass("ranks", run.Build());
  EXPECT_TRUE(table.rows.empty());
  EXPECT_THAT(table.notes, testing::ElementsAre(testing::HasSubstr("several groups"),
                                                testing::HasSubstr("sends and receives between two ranks")));
}

// Two threads of the backend reduce buckets at the same time: a wait is one, and the two may begin in another order.
TEST(RanksTableTest, OperationsAtTheSameTimeCountOnce) {
  for (const bool is_swapped : {false, true}) {
    GlooRun run;
    for (int64_t at_ns = 0; at_ns < 4000; at_ns += 100) {
      const int64_t late_ns = at_ns + 50;  // rank 3
      for (int rank = 0; rank < 4; ++rank) {
        const int64_t start_ns = rank == 3 ? late_ns : at_ns;
        // On rank 0, once, the second one begins first, and is over before rank 3 begins the one in that place.
        const bool is_early = is_swapped && at_ns == 2000 && rank == 0;
        run.Range(rank, "all_reduce", start_ns, late_ns + 20);
        run.Range(rank, "all_reduce", start_ns + (is_early ? -1 : 1), is_early ? late_ns - 1 : late_ns + 20, true);
      }
    }
    const Table table = RunPass("ranks", run.Build(4000));
    ASSERT_EQ(table.rows.size(), 4u);
    EXPECT_EQ(Integer(table, 3, "collectives"), is_swapped ? 79 : 80);
    EXPECT_NEAR(Integer(table, 1, "waiting"), 40 * 51, 2) << "of each pair";
    EXPECT_TRUE(table.notes[0].starts_with("The others wait for rank 3")) << table.notes[0];
    EXPECT_EQ(table.notes.back().find("began in another order") != std::string::npos, is_swapped);
  }
}

// A root may complete a broadcast before the others begin, so that only equal counts show that it is one group.
TEST(RanksTableTest, BroadcastsMatchWhereAllRanksMadeAsMany) {
  GlooRun run, uneven;
  for (int rank = 0; rank < 4; ++rank) {
    for (GlooRun* each : {&run, &uneven}) each->Range(rank, "broadcast", 100 * rank, 100 * rank + 10);
  }
  uneven.Range(3, "broadcast", 900, 910);
  EXPECT_EQ(RunPass("ranks", run.Build()).rows.size(), 4u);
  EXPECT_TRUE(RunPass("ranks", uneven.Build()).rows.empty());
}

TEST(RanksTableTest, OtherOperationsAreNotMatched) {
  GpuRun run(2);
  run.AllReduce(0, 0, 10, 5, " blocking: true");
  run.AllReduce(1, 1, 10, 5, " blocking: true");
  run.AllReduce(0, 0, 100, 5, " blocking: true");
  run.builder().Call(run.builder().AddOp(Definition("function: 'ncclBroadcast' family: 'nccl' time_source: CLOCK_TICKS "
                                                    "collective { kind: BROADCAST peer: 0 communicator: 1 ranks: 2 "
                                                    "rank: 1 }")),
                     100, 5, 1);
  const Table table = RunPass("ranks", run.Build());
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Integer(table, 0, "collectives"), 1);
  EXPECT_NE(table.notes.back().find("other collective calls"), std::string::npos);
}

}  // namespace devices_test
}  // namespace dlhook::analyzer
