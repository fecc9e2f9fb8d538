// Why a GPU does not compute: the rules one by one; random runs, whose causes must add up to the time.
#include "analyzer/gpu/gpu_idle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "preload/format/thread_states.h"
#include "tests/analyzer/builders/gpu_program.h"

namespace dlhook::analyzer {
namespace {

using ::testing::HasSubstr;
using What = IdlePiece::What;
using Times = std::map<IdleCause, int64_t>;

constexpr auto kLaunch = IdleCause::kLaunch;
constexpr auto kSynchronization = IdleCause::kSynchronization;
constexpr auto kCopies = IdleCause::kCopies;
constexpr auto kInput = IdleCause::kInput;
constexpr auto kCommunication = IdleCause::kCommunication;
constexpr auto kUnknown = IdleCause::kUnknown;

constexpr char kSynchronize[] = "function: 'cudaStreamSynchronize' family: 'cuda_sync'";
constexpr char kBlockingCopy[] =
    "function: 'cudaMemcpy' family: 'cuda_copy' copy { direction: DEVICE_TO_HOST bytes: 4 host_memory: PAGEABLE }";
constexpr char kAllReduce[] =
    "function: 'MPI_Allreduce' family: 'mpi' collective { kind: ALL_REDUCE bytes: 8 blocking: true }";

std::vector<IdlePiece> PiecesOf(const TraceModel& model, const Interval& time, GpuDeviceIndex device = 0) {
  std::vector<IdlePiece> pieces;
  const HostRules rules(model);
  const std::vector<GpuTimeline> timelines = GpuTimelines(model);
  DivideIdleTime(model, rules, timelines, device, time, [&](const IdlePiece& piece) { pieces.push_back(piece); });
  return pieces;
}

// In [0, wall).
Times TimesOf(GpuProgram& program, int64_t wall_ns) {
  Times times;
  for (const IdlePiece& piece : PiecesOf(program.Build(wall_ns), {0, wall_ns}))
    times[piece.cause] += piece.end_ns - piece.start_ns;
  return times;
}

// A kernel launched by thread 0, the call 4 ns long.
GpuWorkSpec Kernel(int64_t requested_ns, int64_t start_ns, int64_t end_ns, ThreadIndex thread = 0) {
  return {.start_ns = start_ns, .end_ns = end_ns, .requested_ns = requested_ns, .call_ns = 4, .thread = thread};
}

TEST(GpuIdleTest, AHostThatIsBusyWithSomethingElseIsSlow) {
  GpuProgram program;
  program.Work(Kernel(100, 110, 200));
  program.Scope("aten::conv2d", 150, 320);
  program.Work(Kernel(300, 310, 400));
  // Nothing is known of the host until the first launch call at 99; after the last one returned, nothing either.
  EXPECT_EQ(TimesOf(program, 400), (Times{{kUnknown, 99}, {kLaunch, 11 + 110}}));
}

TEST(GpuIdleTest, WhatWasAskedForAndDoesNotBeginWaitsForSomethingElse) {
  GpuProgram program;
  program.Work(Kernel(1, 10, 20));
  program.Work(Kernel(15, 100'000, 100'100));
  EXPECT_EQ(TimesOf(program, 100'100),
            (Times{{kLaunch, 10 + kLaunchLatencyNs}, {kUnknown, 100'000 - 20 - kLaunchLatencyNs}}));
}

TEST(GpuIdleTest, LessThanTheErrorOfTheClockIsNoWaiting) {
  GpuProgram program;
  program.builder().model().gpu_clock_error_ns = {70'000};
  program.Work(Kernel(1, 10, 20));
  program.Work(Kernel(15, 100'000, 100'100));
  EXPECT_EQ(TimesOf(program, 100'100),
            (Times{{kLaunch, 10 + kLaunchLatencyNs + 70'000}, {kUnknown, 100'000 - 20 - kLaunchLatencyNs - 70'000}}));
}

// Half of the time in which looks saw it ready or running.
TEST(GpuIdleTest, AHostWithoutAProcessorIsNotSlow) {
  GpuProgram program;
  program.Work(Kernel(100, 110, 200));
  program.Scope("aten::conv2d", 200, 300);
  program.Work(Kernel(300, 310, 400));
  CounterSeries series = {.thread = 0, .tid = 7, .kind = CounterKind::kStates};
  for (const char* name : kThreadStateNames) series.names.push_back(program.builder().AddName(name));
  for (const uint64_t at_ns : {0, 400}) {
    series.time_ns.push_back(static_cast<int64_t>(at_ns));
    for (size_t state = 0; state < kThreadStates; ++state) series.value.push_back(state < 2 ? at_ns / 4 : 0);
  }
  program.builder().model().states.push_back(std::move(series));
  const Times times = TimesOf(program, 400);
  EXPECT_EQ(times.at(kUnknown), 99);
  EXPECT_NEAR(times.at(IdleCause::kNoProcessor), 50, 5);
  EXPECT_EQ(times.at(IdleCause::kNoProcessor) + times.at(kLaunch), 11 + 110);
}

TEST(GpuIdleTest, AProfilerThatHoldsUpTheAskingThreadIsTheCause) {
  constexpr char kProfiler[] = "function: 'Buffer Flush' family: 'profiler'";
  GpuProgram program;
  program.Work(Kernel(100, 110, 200));
  program.HostCall(kProfiler, 150, 250);
  program.Work({.start_ns = 360, .end_ns = 400, .requested_ns = 300, .call_ns = 50, .thread = 0});
  program.HostCall(kProfiler, 310, 330);
  const Times times = {{kUnknown, 99 + 49}, {kLaunch, 11 + 41}, {IdleCause::kProfiler, 50 + 20}};
  EXPECT_EQ(TimesOf(program, 400), times);
  // What held up another thread did not keep this one from asking.
  GpuProgram other;
  const ThreadIndex thread = other.builder().AddThread();
  other.Work(Kernel(100, 110, 200));
  other.Scope("aten::conv2d", 150, 300);
  other.HostCall(kProfiler, 210, 250, thread);
  other.Work(Kernel(300, 310, 400));
  EXPECT_EQ(TimesOf(other, 400), (Times{{kUnknown, 99}, {kLaunch, 11 + 110}}));
}

TEST(GpuIdleTest, AHostThatWaitsOrHasWaitedAsksLate) {
  GpuProgram program;
  program.Work(Kernel(1, 0, 500));
  program.HostCall(kSynchronize, 400, 520);  // 20 while nothing runs
  program.Scope("aten::relu", 520, 800);     // 100 of these would have been over without the wait
  program.Work(Kernel(790, 790, 900));
  EXPECT_EQ(TimesOf(program, 900), (Times{{kSynchronization, 20 + 100}, {kLaunch, 270 - 100}}));
}

// As much as it waited, over all gaps, but no more; and only until it waits again for new work.
TEST(GpuIdleTest, WaitingIsUsedUpOnce) {
  GpuProgram program;
  program.Work(Kernel(1, 0, 100));
  program.HostCall(kSynchronize, 40, 100);  // 60
  program.Scope("aten::a", 100, 1000);
  program.Work(Kernel(150, 150, 200));  // a gap of 50
  program.Work(Kernel(300, 300, 400));  // of 100: the last 10 of waiting
  program.Work(Kernel(900, 900, 1000));
  EXPECT_EQ(TimesOf(program, 1000), (Times{{kSynchronization, 60}, {kLaunch, 90 + 500}}));
}

// .item(): a copy that waits, then a wait with nothing left to wait for.
TEST(GpuIdleTest, WaitsBetweenWhichNothingIsAskedForAreOne) {
  GpuProgram program;
  program.Work(Kernel(1, 0, 200));
  program.HostCall(kBlockingCopy, 100, 210);
  program.Work({.start_ns = 200,
                .end_ns = 205,
                .kind = GpuActivityKind::kCopy,
                .direction = CopyDirection::kDeviceToHost,
                .bytes = 4,
                .requested_ns = 101,
                .thread = 0});
  program.HostCall(kSynchronize, 220, 222);
  program.Scope("aten::a", 230, 400);
  program.Work(Kernel(390, 390, 400));
  // In the gap from 200: 5 for the copy, 5 more in its call, which waited 105 before; 2 in the second one; then 10 + 8
  // + 160 of which nothing is known or which the op takes.
  const TraceModel& model = program.Build(400);
  Times times;
  for (const IdlePiece& piece : PiecesOf(model, {0, 400})) {
    times[piece.cause] += piece.end_ns - piece.start_ns;
    if (piece.cause == kSynchronization && piece.start_ns >= 230) {
      EXPECT_EQ(model.ops[model.calls.op[piece.index]].function, "cudaMemcpy") << "the one that took long";
    }
  }
  EXPECT_EQ(times, (Times{{kCopies, 10}, {kSynchronization, 107}, {kLaunch, 180 - 107}}));
}

TEST(GpuIdleTest, TheInputPipelineCountsAtAnyDepth) {
  GpuProgram program;
  program.Work(Kernel(1, 0, 100));
  program.HostCall(kSynchronize, 50, 100);
  program.Scope("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 120, 300);
  program.Scope("aten::stack", 150, 200);
  program.Scope("aten::a", 300, 350);
  program.Work(Kernel(340, 340, 400));
  // Before and after it, the wait: 50.
  EXPECT_EQ(TimesOf(program, 400), (Times{{kInput, 180}, {kSynchronization, 50}, {kLaunch, 10}}));
}

TEST(GpuIdleTest, WhatTheDeviceDoesTellsMost) {
  GpuProgram program;
  program.Work(Kernel(1, 0, 100));
  program.Work({.start_ns = 90, .end_ns = 200, .kernel = "ncclDevKernel_AllReduce", .requested_ns = 50, .thread = 0});
  program.Copy(CopyDirection::kHostToDevice, 150, 260);  // 60 with communication gone
  program.Copy(CopyDirection::kDeviceToHost, 250, 270);
  program.Work({.start_ns = 265, .end_ns = 280, .kind = GpuActivityKind::kSet, .direction = CopyDirection::kSet});
  program.HostCall(kAllReduce, 285, 298);
  program.Work(Kernel(300, 300, 400));
  std::map<std::pair<IdleCause, What>, int64_t> times;
  for (const IdlePiece& piece : PiecesOf(program.Build(400), {0, 400}))
    times[{piece.cause, piece.what}] += piece.end_ns - piece.start_ns;
  const std::map<std::pair<IdleCause, What>, int64_t> expected = {{{kCommunication, What::kNothing}, 100},
                                                                  {{kCopies, What::kToDevice}, 60},
                                                                  {{kCopies, What::kFromDevice}, 10},
                                                                  {{kCopies, What::kOtherCopy}, 10},
                                                                  {{kCommunication, What::kCall}, 13},
                                                                  {{kUnknown, What::kNothing}, 6},
                                                                  {{kLaunch, What::kCall}, 1}};
  EXPECT_EQ(times, expected);
}

TEST(GpuIdleTest, BeforeABackwardThreadAsksTheOtherOneIsAtWork) {
  GpuProgram program;
  const ThreadIndex backward = program.builder().AddThread();
  program.Work(Kernel(1, 0, 100));
  program.Scope("aten::nll_loss", 50, 180);
  program.Work(Kernel(200, 200, 300, backward));
  EXPECT_EQ(TimesOf(program, 300), (Times{{kLaunch, 80 + 1}, {kUnknown, 19}}));
}

TEST(GpuIdleTest, ADeviceThatWorksForAnotherProcessIsNotIdle) {
  GpuProgram program;
  program.builder().AddThread(program.builder().AddProcess());
  program.builder().model().gpu_devices[0].uuid = "GPU-1";
  program.AddDevice(1, "GPU-1");
  program.Work({.start_ns = 0, .end_ns = 100});
  program.Work({.start_ns = 50, .end_ns = 300, .device = 1});
  EXPECT_EQ(TimesOf(program, 400), (Times{{kUnknown, 100}}));
  EXPECT_THAT(program.Run("gpu_idle").notes[0],
              HasSubstr("nothing at all in 100 ns: not known 100 ns; for 200 ns more"));
}

class RandomGpuIdleTest : public testing::TestWithParam<uint32_t> {
 protected:
  int64_t Random(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }

  void AddHost(GpuProgram& program) {
    for (ThreadIndex thread = 0; thread < 2; ++thread) {
      for (int64_t at_ns = Random(100); at_ns < 4000; at_ns += Random(300) + 60) {
        const int64_t end_ns = at_ns + Random(60);
        switch (Random(5)) {
          case 0:
            program.HostCall(kSynchronize, at_ns, end_ns, thread);
            break;
          case 1:
            program.HostCall(kBlockingCopy, at_ns, end_ns, thread);
            break;
          case 2:
            program.HostCall(kAllReduce, at_ns, end_ns, thread);
            break;
          case 3:
            program.Scope("enumerate(DataLoader)#next", at_ns, end_ns, thread);
            break;
          default:
            program.Scope("aten::a", at_ns, end_ns, thread);
        }
      }
    }
  }

  void AddWork(GpuProgram& program) {
    for (int64_t i = Random(30); i > 0; --i) {
      GpuWorkSpec work;
      work.start_ns = Random(3800);
      work.end_ns = work.start_ns + Random(200);
      work.device = static_cast<GpuDeviceIndex>(Random(2));
      if (Random(4) == 0) work.kind = Random(2) == 0 ? GpuActivityKind::kCopy : GpuActivityKind::kSet;
      if (Random(4) == 0) work.kernel = "ncclKernel";
      work.direction = Random(2) == 0 ? CopyDirection::kHostToDevice : CopyDirection::kDeviceToHost;
      if (Random(5) > 0) {
        work.thread = static_cast<ThreadIndex>(Random(2));
        work.requested_ns = work.start_ns - Random(300) + 30;
      }
      program.Work(work);
    }
  }

  std::mt19937 random_{GetParam()};
};

// Whatever is requested: pieces ascend, are disjoint, and cover exactly the time without compute.
TEST_P(RandomGpuIdleTest, CausesAddUpToTheTimeWithoutCompute) {
  GpuProgram program;
  program.AddDevice();
  program.builder().AddThread();
  AddHost(program);
  AddWork(program);
  const TraceModel& model = program.Build(4400);
  const std::vector<GpuTimeline> timelines = GpuTimelines(model);
  for (GpuDeviceIndex device = 0; device < 2; ++device) {
    std::vector<Interval> covered;
    int64_t at_ns = 10, sum_ns = 0;
    for (const IdlePiece& piece : PiecesOf(model, {10, 4300}, device)) {
      EXPECT_GE(piece.start_ns, at_ns);
      EXPECT_GT(piece.end_ns, piece.start_ns);
      at_ns = piece.end_ns;
      sum_ns += piece.end_ns - piece.start_ns;
      covered.push_back({piece.start_ns, piece.end_ns});
    }
    const IntervalSet without_compute = IntervalSet({{10, 4300}}).Difference(timelines[device].compute);
    EXPECT_EQ(sum_ns, without_compute.total_ns());
    EXPECT_EQ(IntervalSet(covered).intervals(), without_compute.intervals());
  }
}

INSTANTIATE_TEST_SUITE_P(Random, RandomGpuIdleTest, testing::Range(0u, 100u));

TEST(GpuIdleTableTest, RowsAddUpInStepsAndInTheRun) {
  GpuProgram program;
  program.Steps({1000, 2000, 3000, 3500});
  for (int64_t at_ns = 0; at_ns < 4000; at_ns += 1000) {  // two steady steps, and the time around them
    program.Work(Kernel(at_ns + 190, at_ns + 200, at_ns + 700));
    program.HostCall(kSynchronize, at_ns + 300, at_ns + 710);
    program.Scope("enumerate(DataLoader)#next", at_ns + 720, at_ns + 920);
    program.Scope("aten::conv2d", at_ns + 940, at_ns + 1180);
  }
  program.Build(4000);
  const Table table = program.Run("gpu_idle");
  EXPECT_EQ(Sum(table, "steady_time"), 2 * 500);
  EXPECT_EQ(Sum(table, "run_time"), 4 * 500);
  EXPECT_EQ(Sum(table, "time"), 500);
  const size_t input = RowWhere(table, {{"cause", "input pipeline"}});
  EXPECT_EQ(Text(table, input, "during"), "enumerate(DataLoader)#next");
  EXPECT_EQ(Integer(table, input, "time"), 200);
  EXPECT_DOUBLE_EQ(Real(table, input, "percent"), 20);
  EXPECT_DOUBLE_EQ(Real(table, input, "idle_percent"), 40);
  EXPECT_EQ(Integer(table, input, "gaps"), 2);
  EXPECT_EQ(Integer(table, input, "longest"), 200);
  EXPECT_EQ(Text(table, input, "then"), "cudaLaunchKernel");
  EXPECT_EQ(Integer(table, RowWhere(table, {{"cause", "synchronization"}}), "steady_time"), 2 * 290);
  EXPECT_THAT(table.notes[0],
              HasSubstr("On device 0 no kernel of the network runs in 500 ns of a mean step of 1.00 us (50.0 %)"));
}

TEST(GpuIdleTableTest, WhatWasNotMeasuredIsLeftOut) {
  GpuProgram program;
  program.Steps({0, 1000});
  program.Work({.start_ns = 0, .end_ns = 100});
  program.builder().model().gpu_windows = {{0, 0, 600, GpuTimeSource::kCupti, ""},
                                           {0, 600, 1000, GpuTimeSource::kNone, "taken"}};
  program.Build(1000);
  const Table table = program.Run("gpu_idle");
  EXPECT_EQ(Sum(table, "steady_time"), 500);
  EXPECT_EQ(Sum(table, "run_time"), 500);
  EXPECT_THAT(table.notes.back(), HasSubstr("400 ns of it are left out: GPUs were not measured then"));
}

// A mean that includes partly measured steps would be too small.
TEST(GpuIdleTableTest, StepsThatWereMeasuredInPartAreLeftOut) {
  GpuProgram program;
  program.Steps({0, 1000, 2000, 3000, 4000});
  for (int64_t at_ns : {0, 1000, 2000}) program.Work({.start_ns = at_ns, .end_ns = at_ns + 100});
  program.builder().model().gpu_windows = {{0, 0, 1500, GpuTimeSource::kCupti, ""},
                                           {0, 1500, 1600, GpuTimeSource::kNone, "taken"},
                                           {0, 1600, 3000, GpuTimeSource::kCupti, ""}};
  program.Build(3000);
  const Table table = program.Run("gpu_idle");
  EXPECT_EQ(Sum(table, "time"), 900);
  EXPECT_EQ(Sum(table, "steady_time"), 2 * 900);
  EXPECT_EQ(Sum(table, "run_time"), 3 * 900 - 100);
  EXPECT_THAT(table.notes.back(),
              HasSubstr("2 steady training steps, 2.00 us. Left out: the last one. Without 1 more in which"));
  const Table devices = program.Run("devices");
  EXPECT_EQ(Integer(devices, 0, "steps"), 2);
  EXPECT_EQ(Integer(devices, 0, "time"), 2000);
  EXPECT_EQ(Integer(devices, 0, "kernels"), 2);
  EXPECT_DOUBLE_EQ(Real(program.Run("kernels"), 0, "per_step"), 1);
}

// The host is steps ahead of its GPU: what was requested before a window runs in it, and is not told.
TEST(GpuIdleTableTest, AWindowBehindWhichOlderWorkRunsIsKnownFromItsFirstWork) {
  constexpr int64_t kUs = 1000;
  for (const int64_t waits_ns : {0 * kUs, 150 * kUs}) {
    GpuProgram program;
    program.Steps({0, 100 * kUs, 200 * kUs, 300 * kUs, 400 * kUs});
    for (int64_t at_ns = 0; at_ns < 400 * kUs; at_ns += 100 * kUs) {
      if (at_ns == 100 * kUs) continue;
      const int64_t start_ns = at_ns + 10 * kUs + (at_ns > 0 ? waits_ns : 0);
      program.Work(Kernel(at_ns + 5 * kUs, start_ns, start_ns + 80 * kUs));
    }
    program.builder().model().gpu_windows = {{0, 0, 100 * kUs, GpuTimeSource::kCupti, ""},
                                             {0, 100 * kUs, 200 * kUs, GpuTimeSource::kNone, "between"},
                                             {0, 200 * kUs, 400 * kUs, GpuTimeSource::kCupti, ""}};
    program.Build(600 * kUs);
    const Table devices = program.Run("devices");
    EXPECT_EQ(Integer(devices, 0, "steps"), waits_ns == 0 ? 2 : 1);
    EXPECT_EQ(Integer(devices, 0, "compute"), (waits_ns == 0 ? 160 : 80) * kUs);
    EXPECT_EQ(Integer(devices, 0, "idle"), (waits_ns == 0 ? 40 : 20) * kUs);
  }
}

TEST(GpuIdleTableTest, RunsWithoutTimesOfGpusSayNothing) {
  GpuProgram program;
  program.Build(1000);
  for (const char* pass : {"overlap", "overlap_over_time", "guided", "gpu_idle"}) {
    const Table table = program.Run(pass);
    EXPECT_TRUE(table.rows.empty() && table.notes.empty()) << pass;
    for (const Column& column : table.columns) EXPECT_EQ(column.explanation.back(), '.') << pass << " " << column.name;
  }
}

}  // namespace
}  // namespace dlhook::analyzer
