// GPU work: from batches to columns, joined with the requesting calls, and impossible records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/model/trace_model.h"
#include "tests/analyzer/gpu_trace.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Activity = trace::GpuActivityBatch;

constexpr int64_t kNotKnown = GpuActivityColumns::kNotKnown;

std::string Start() { return HeaderText("pid: 7 shim_loaded_ticks: 1") + GpuClockText() + OpsText(); }

// Calls 1, 2, … of a thread, of op "outer", each [1000 i, 1000 i + 500).
std::string Calls(int thread, int count) {
  std::string text = absl::StrCat("packet { call_batch { thread_id: ", thread, " base_end_ticks: 500 ");
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "op_iid: 1 sequence_delta: 0 end_delta_ticks: 1000 duration: 500 parent_distance: 0 ");
  }
  return text + "} }\n";
}

std::string Footer(int64_t end, int calls = 0) {
  return absl::StrCat("packet { footer { end: EXITED end_ticks: ", end, " calls: ", calls, " } }\n");
}

TEST(GpuModelTest, WorkIsJoinedToTheCallThatAskedForIt) {
  const TraceModel model = LoadText(
      Start() + Calls(1, 3) + Calls(2, 1) + GpuKernelText(2, "_ZN2at6native4axpyIfEEvPT_S3_i") +
      GpuLinkText(1, {{100, 1, 1100}, {101, 1, 1200}, {102, 3, 3100}, {104, 0, 3300}}) +
      GpuLinkText(2, {{103, 1, 1050}}) +
      GpuActivityText({{.start_ns = 5000, .duration_ns = 40, .correlation = 102, .kernel_iid = 2, .stream = 8},
                       {.start_ns = 1300, .duration_ns = 90, .correlation = 100, .kernel_iid = 2},
                       {.kind = Activity::COPY,
                        .start_ns = 1400,
                        .duration_ns = 10,
                        .correlation = 101,
                        .bytes = 64,
                        .direction = trace::Copy::HOST_TO_DEVICE,
                        .host_memory = trace::Copy::PINNED},
                       {.start_ns = 1350, .duration_ns = 5, .correlation = 103, .device = 1},
                       {.kind = Activity::SET, .start_ns = 3400, .duration_ns = 7, .correlation = 104, .bytes = 32}}) +
      Footer(9000, 4));
  const GpuActivityColumns& gpu = model.gpu;
  EXPECT_THAT(gpu.start_ns, ElementsAre(1300, 1400, 3400, 5000, 1350)) << "by device, then time";
  EXPECT_THAT(gpu.end_ns, ElementsAre(1390, 1410, 3407, 5040, 1355));
  EXPECT_THAT(gpu.kind, ElementsAre(GpuActivityKind::kKernel, GpuActivityKind::kCopy, GpuActivityKind::kSet,
                                    GpuActivityKind::kKernel, GpuActivityKind::kKernel));
  EXPECT_THAT(gpu.launch_call, ElementsAre(0u, 0u, kNone, 2u, 3u));
  EXPECT_THAT(gpu.call, ElementsAre(0u, 0u, kNone, 2u, 3u));
  EXPECT_THAT(gpu.thread, ElementsAre(0u, 0u, 0u, 0u, 1u));
  EXPECT_THAT(gpu.requested_ns, ElementsAre(1100, 1200, 3300, 3100, 1050));
  EXPECT_THAT(gpu.stream, ElementsAre(7u, 7u, 7u, 8u, 7u));
  EXPECT_THAT(gpu.bytes, ElementsAre(0u, 64u, 32u, 0u, 0u));
  EXPECT_EQ(gpu.direction[1], CopyDirection::kHostToDevice);
  EXPECT_EQ(gpu.host_memory[1], HostMemory::kPinned);
  EXPECT_THAT(gpu.device, ElementsAre(0u, 0u, 0u, 0u, 1u));
  EXPECT_EQ(gpu.source[0], GpuTimeSource::kCupti);
  EXPECT_THAT(gpu.scope, IsEmpty()) << "there are none";
  ASSERT_THAT(model.gpu_kernels, SizeIs(1));
  EXPECT_EQ(gpu.kernel[0], 0u);
  EXPECT_EQ(gpu.kernel[1], kNone);
  EXPECT_EQ(model.names[model.gpu_kernels[0].name], "void at::native::axpy<float>(float*, float*, int)");
  EXPECT_EQ(model.names[model.gpu_kernels[0].short_name], "axpy<float>");
  EXPECT_EQ(model.gpu_kernels[0].block[0], 256u);
  ASSERT_THAT(model.gpu_devices, SizeIs(2)) << "also such of which only work tells";
  EXPECT_EQ(model.gpu_devices[1].ordinal, 1u);
  EXPECT_THAT(model.oddities, IsEmpty());
}

TEST(GpuModelTest, WhatNobodyAskedForIsOddWhereCuptiMeasured) {
  const std::string work = GpuActivityText({{.start_ns = 300, .correlation = 9}, {.start_ns = 800, .correlation = 9}});
  const std::string end = Footer(1000);
  EXPECT_EQ(OddityCount(LoadText(Start() + work + end), "without a call in the trace that launched it"), 2);
  const TraceModel model = LoadText(Start() + work + GpuWindowText(500, trace::GPU_TIME_CUPTI) +
                                    GpuWindowText(700, trace::GPU_TIME_NONE, "torch.profiler") + end);
  EXPECT_EQ(OddityCount(model, "without a call in the trace that launched it"), 0);
  EXPECT_EQ(model.gpu.launch_call[0], kNone);
  EXPECT_EQ(model.gpu.requested_ns[0], kNotKnown);
  ASSERT_THAT(model.gpu_windows, SizeIs(2));
  EXPECT_EQ(model.gpu_windows[0].start_ns, 500);
  EXPECT_EQ(model.gpu_windows[0].end_ns, 700);
  EXPECT_EQ(model.gpu_windows[1].end_ns, 1000);
  EXPECT_EQ(model.gpu_windows[1].reason, "torch.profiler");
}

TEST(GpuModelTest, WorkThatLastsBeyondTheNextButOneOfItsStreamIsDamaged) {
  const int64_t kMs = 1'000'000;
  const auto durations = [&](uint32_t stream, uint32_t graph) {
    return LoadText(Start() +
                    GpuActivityText({{.start_ns = 1, .duration_ns = 3 * kMs, .stream = 7},
                                     {.start_ns = kMs, .duration_ns = 900 * kMs, .stream = stream, .graph = graph},
                                     {.start_ns = 4 * kMs, .duration_ns = 5, .stream = 7},
                                     {.start_ns = 5 * kMs, .duration_ns = 5, .stream = 7}}) +
                    Footer(9 * kMs));
  };
  EXPECT_EQ(durations(7, 0).gpu.DurationNs(1), 0);
  EXPECT_EQ(durations(7, 0).gpu.DurationNs(0), 3 * kMs) << "it overlaps by less than the slack: a programmatic launch";
  EXPECT_EQ(OddityCount(durations(7, 0), "next but one"), 1);
  EXPECT_EQ(durations(8, 0).gpu.DurationNs(1), 900 * kMs);
  EXPECT_EQ(durations(7, 3).gpu.DurationNs(1), 900 * kMs);
}

// CUPTI still had what a killed process did last.
TEST(GpuModelTest, OfAKilledProcessTimesAreKnownUntilItsLastWork) {
  const std::string text = Start() + Calls(1, 8) + GpuWindowText(1, trace::GPU_TIME_CUPTI) +
                           GpuActivityText({{.start_ns = 1200, .duration_ns = 50, .correlation = 1}});
  const TraceModel killed = LoadText(text);
  ASSERT_THAT(killed.gpu_windows, SizeIs(2));
  EXPECT_EQ(killed.gpu_windows[0].end_ns, 1250);
  EXPECT_EQ(killed.gpu_windows[1].source, GpuTimeSource::kNone);
  EXPECT_EQ(killed.gpu_windows[1].end_ns, killed.end_ns);
  EXPECT_THAT(LoadText(text + Footer(9000, 8)).gpu_windows, SizeIs(1));
}

TEST(GpuModelTest, WorkWithoutWindowsHasOne) {
  const TraceModel model =
      LoadText(Start() + GpuActivityText({{.start_ns = 300}}, trace::GPU_TIME_EVENTS) + Footer(1000));
  ASSERT_THAT(model.gpu_windows, SizeIs(1));
  EXPECT_EQ(model.gpu_windows[0].start_ns, 1);
  EXPECT_EQ(model.gpu_windows[0].end_ns, 1000);
  EXPECT_EQ(model.gpu_windows[0].source, GpuTimeSource::kEvents);
}

// CUPTI was handed to the application meanwhile and starts at 1 again.
TEST(GpuModelTest, OfSeveralLinksTheLastOneBeforeTheWorkCounts) {
  const int64_t kMs = 1'000'000;
  const TraceModel model =
      LoadText(Start() + Calls(1, 3) + GpuLinkText(1, {{1, 1, 10 * kMs}, {1, 2, 30 * kMs}, {1, 3, 90 * kMs}}) +
               GpuActivityText({{.start_ns = 20 * kMs, .correlation = 1},
                                {.start_ns = 30 * kMs - 900, .correlation = 1},  // the clocks' error
                                {.start_ns = 80 * kMs, .correlation = 1}}));
  EXPECT_THAT(model.gpu.launch_call, ElementsAre(0u, 1u, 1u));
  EXPECT_THAT(model.oddities, IsEmpty());
}

// If the application holds CUPTI's callbacks, a link identifies the requesting call, but not its time.
TEST(GpuModelTest, ALinkWithoutATimeIsFromWhenItsCallBegan) {
  const TraceModel model = LoadText(
      Start() + Calls(1, 3) + GpuLinkText(1, {{1, 2, 0}, {2, 70, 0}}) +
      GpuActivityText({{.start_ns = 2300, .correlation = 1}, {.start_ns = 2400, .correlation = 2}}) + Footer(9000, 3));
  EXPECT_THAT(model.gpu.launch_call, ElementsAre(1u, kNone));
  EXPECT_THAT(model.gpu.requested_ns, ElementsAre(2000, kNotKnown));
  EXPECT_THAT(model.gpu.thread, ElementsAre(0u, 0u));
  EXPECT_THAT(model.oddities, IsEmpty());
}

TEST(GpuModelTest, WorkBeforeItsCallIsJoinedAndOdd) {
  const int64_t kMs = 1'000'000;
  const TraceModel model = LoadText(Start() + Calls(1, 1) + GpuLinkText(1, {{1, 1, 10 * kMs}}) +
                                    GpuActivityText({{.start_ns = 5 * kMs, .correlation = 1}}));
  EXPECT_THAT(model.gpu.launch_call, ElementsAre(0u));
  EXPECT_EQ(OddityCount(model, "began before the call"), 1);
}

// Calls 1 to 3 of thread 1 launch, copy to pageable memory and wait for the device; the GPU's clock is ahead by so much.
// The kernel begins 20 us after its launch began, the copy ends 5 us before its call returns, a second kernel 3 us before
// the wait does.
TraceModel WithClockAhead(int64_t ahead_ns, bool copies, bool waits, const std::string& wait = "cudaDeviceSynchronize",
                          uint32_t other_stream = 7) {
  const int64_t kUs = 1000;
  std::string calls =
      "packet { interned { op { iid: 7 function: 'cudaLaunchKernel' family: 'cuda_launch' time_source: CLOCK_TICKS } "
      "op { iid: 8 function: 'cudaMemcpyAsync' family: 'cuda_copy' time_source: CLOCK_TICKS copy { direction: "
      "DEVICE_TO_HOST bytes: 64 asynchronous: true host_memory: PAGEABLE } } op { iid: 9 function: '" +
      wait + "' family: 'cuda_sync' time_source: CLOCK_TICKS } } }\n";
  const auto call = [&](int op, int64_t start_ns, int64_t end_ns, int sequence) {
    absl::StrAppend(&calls, "packet { call_batch { thread_id: 1 base_sequence: ", sequence - 1,
                    " base_end_ticks: ", end_ns, " op_iid: ", op,
                    " sequence_delta: 0 end_delta_ticks: 0 duration: ", end_ns - start_ns, " parent_distance: 0 } }\n");
  };
  call(7, 1000 * kUs, 1005 * kUs, 1);
  call(copies ? 8 : 7, 1100 * kUs, 1200 * kUs, 2);
  call(7, 1300 * kUs, 1305 * kUs, 3);
  call(waits ? 9 : 7, 1400 * kUs, 1500 * kUs, 4);
  return LoadText(Start() + calls + GpuLinkText(1, {{1, 1, 1000 * kUs}, {2, 2, 1100 * kUs}, {3, 3, 1300 * kUs}}) +
                  GpuActivityText({{.start_ns = 1020 * kUs + ahead_ns, .duration_ns = 10 * kUs, .correlation = 1},
                                   {.kind = Activity::COPY,
                                    .start_ns = 1185 * kUs + ahead_ns,
                                    .duration_ns = 10 * kUs,
                                    .correlation = 2,
                                    .stream = other_stream,
                                    .direction = trace::Copy::DEVICE_TO_HOST},
                                   {.start_ns = 1330 * kUs + ahead_ns, .duration_ns = 167 * kUs, .correlation = 3}}) +
                  Footer(2000 * kUs, 4));
}

TEST(GpuModelTest, WorkBeginsAfterItsRequestAndEndsBeforeAWaitForItReturns) {
  const int64_t kUs = 1000;
  const auto moved_ns = [&](const TraceModel& model, int64_t ahead_ns) {
    return model.gpu.start_ns.front() - 1020 * kUs - ahead_ns;
  };
  for (const auto& [copies, waits, slack_ns] :
       {std::tuple(true, true, 3 * kUs), std::tuple(true, false, 5 * kUs), std::tuple(false, true, 3 * kUs)}) {
    const TraceModel model = WithClockAhead(100 * kUs, copies, waits);
    EXPECT_EQ(moved_ns(model, 100 * kUs), slack_ns - 100 * kUs) << "the least that both bounds allow";
    EXPECT_THAT(model.gpu_clock_error_ns, ElementsAre(20 * kUs + slack_ns));
    EXPECT_EQ(OddityCount(model, "clock is ahead of the host's by 9"), 1);
  }
  const auto of_stream = [&](uint32_t other_stream) {
    return moved_ns(WithClockAhead(100 * kUs, false, true, "cudaStreamSynchronize", other_stream), 100 * kUs);
  };
  EXPECT_EQ(of_stream(7), 3 * kUs - 100 * kUs);
  EXPECT_EQ(of_stream(8), 0) << "of which of two is not known";
  const TraceModel unbounded = WithClockAhead(100 * kUs, false, false);
  EXPECT_EQ(moved_ns(unbounded, 100 * kUs), 0);
  EXPECT_THAT(unbounded.gpu_clock_error_ns, ElementsAre(120 * kUs)) << "nothing waited: it may all be the clocks";
  const TraceModel late = WithClockAhead(100'000 * kUs, false, false);
  EXPECT_EQ(moved_ns(late, 100'000 * kUs), -100'020 * kUs) << "the first begins at once";
  EXPECT_EQ(OddityCount(late, "more than 100 ms after it was requested"), 1);
  const TraceModel waited = WithClockAhead(100'000 * kUs, false, true);
  EXPECT_EQ(OddityCount(waited, "after it was requested"), 0) << "what waited for it tells";
  const TraceModel behind = WithClockAhead(-100 * kUs, true, true);
  EXPECT_EQ(moved_ns(behind, -100 * kUs), 80 * kUs);
  EXPECT_EQ(OddityCount(behind, "clock is behind the host's by 80 us"), 1);
  EXPECT_EQ(moved_ns(WithClockAhead(-5000 * kUs, true, true), -5000 * kUs), 4980 * kUs);
  const TraceModel right = WithClockAhead(0, true, true);
  EXPECT_EQ(moved_ns(right, 0), 0);
  EXPECT_THAT(right.oddities, IsEmpty());
}

TEST(GpuModelTest, PairsOfEventsNameTheirCall) {
  const TraceModel model = LoadText(
      Start() + Calls(4, 2) +
      "packet { interned { op { iid: 9 function: 'cudaMemcpyAsync' family: 'cudart' time_source: CLOCK_TICKS copy { "
      "direction: DEVICE_TO_HOST bytes: 4096 host_memory: PAGEABLE } } } }\n"
      "packet { call_batch { thread_id: 4 base_sequence: 2 base_end_ticks: 5000 op_iid: 9 sequence_delta: 0 "
      "end_delta_ticks: 0 "
      "duration: 100 parent_distance: 0 } }\n" +
      GpuActivityText({{.kind = Activity::OP, .start_ns = 2600, .duration_ns = 50, .thread_id = 4, .sequence = 2},
                       {.kind = Activity::COPY, .start_ns = 5100, .duration_ns = 50, .thread_id = 4, .sequence = 3},
                       {.kind = Activity::OP, .start_ns = 6000, .thread_id = 4, .sequence = 70},
                       {.kind = Activity::OP, .start_ns = 7000, .thread_id = 5, .sequence = 1}},
                      trace::GPU_TIME_EVENTS));
  EXPECT_THAT(model.gpu.launch_call, ElementsAre(1u, 2u, kNone, kNone));
  EXPECT_THAT(model.gpu.thread, ElementsAre(0u, 0u, 0u, kNone));
  EXPECT_THAT(model.gpu.requested_ns, ElementsAre(2000, 4900, kNotKnown, kNotKnown));
  EXPECT_EQ(model.gpu.bytes[1], 4096u) << "as its call says";
  EXPECT_EQ(model.gpu.direction[1], CopyDirection::kDeviceToHost);
  EXPECT_EQ(model.gpu.host_memory[1], HostMemory::kPageable);
}

// Captured under call 1, cloned twice; replayed by call 3.
TEST(GpuModelTest, ReplayedNodesWereComputedForTheCapturedCall) {
  constexpr uint64_t kNode = uint64_t{5} << 32, kClone = uint64_t{6} << 32, kExecutable = uint64_t{7} << 32;
  const TraceModel model =
      LoadText(Start() + Calls(1, 3) +
               GpuGraphNodeText(1, {{kNode, 0, 1, 1100},
                                    {kNode + 1, 0, 0, 1200},
                                    {kClone, kNode, 2, 2100},
                                    {kExecutable, kClone, 2, 2150},
                                    {kExecutable + 1, kNode + 1, 2, 2200},
                                    {kExecutable + 2, kExecutable + 3, 2, 2200},
                                    {kExecutable + 3, kExecutable + 2, 2, 2200}}) +
               GpuLinkText(1, {{50, 3, 3100}}) +
               GpuActivityText({{.start_ns = 3200, .correlation = 50, .graph_node = kExecutable, .graph = 7},
                                {.start_ns = 3300, .correlation = 50, .graph_node = kExecutable + 1, .graph = 7},
                                {.start_ns = 3400, .correlation = 50, .graph_node = kExecutable + 2, .graph = 7},
                                {.start_ns = 3500, .correlation = 50, .graph_node = 99, .graph = 7}}) +
               Footer(9000));
  EXPECT_THAT(model.gpu.launch_call, ElementsAre(2u, 2u, 2u, 2u));
  EXPECT_THAT(model.gpu.call, ElementsAre(0u, kNone, 2u, 2u)) << "made by no call; in a circle; not told";
  EXPECT_THAT(model.gpu.graph, ElementsAre(7u, 7u, 7u, 7u));
  EXPECT_EQ(OddityCount(model, "construction was not seen"), 2);
}

TEST(GpuModelTest, ScopesAreThoseAroundTheCallOrTheMomentOfAsking) {
  const std::string scopes =
      "packet { interned { string { iid: 1 value: 'step' } string { iid: 2 value: 'aten::conv2d' } } }\n"
      "packet { scope_batch { thread_id: 1 name_iid: 2 name_iid: 1 base_end_ticks: 1900 end_delta_ticks: 0 "
      "end_delta_ticks: 3000 "
      "duration_ticks: 1000 duration_ticks: 4400 kind: FRAMEWORK_OP kind: USER_RANGE link_delta: -1 link_delta: 0 "
      "base_first_sequence: 1 "
      "first_sequence_delta: 0 first_sequence_delta: 0 call_count: 1 call_count: 3 } }\n";
  const TraceModel model =
      LoadText(Start() + Calls(1, 3) + scopes +
               GpuLinkText(1, {{1, 1, 1100}, {2, 2, 2100}, {3, 0, 1700}, {4, 0, 2700}, {5, 0, 8000}}) +
               GpuActivityText({{.start_ns = 9001, .correlation = 1},
                                {.start_ns = 9002, .correlation = 2},
                                {.start_ns = 9003, .correlation = 3},
                                {.start_ns = 9004, .correlation = 4},
                                {.start_ns = 9005, .correlation = 5}}));
  std::vector<std::string> names;
  for (ScopeIndex scope : model.gpu.scope)
    names.push_back(scope == kNone ? "" : model.names[model.scopes.look[scope].name]);
  EXPECT_THAT(names, ElementsAre("aten::conv2d", "step", "aten::conv2d", "step", ""));
}

TEST(GpuModelTest, OverheadIsNoWork) {
  const TraceModel model =
      LoadText(Start() + GpuActivityText({{.start_ns = 500, .duration_ns = 5},
                                          {.start_ns = 600, .duration_ns = 5},
                                          {.kind = Activity::OVERHEAD, .start_ns = 100, .duration_ns = 50}}));
  EXPECT_THAT(model.gpu.start_ns, ElementsAre(500, 600));
}

TEST(GpuModelTest, ProcessesStandOneAfterAnother) {
  const std::string one = Start() + Calls(1, 2) + GpuLinkText(1, {{1, 2, 2100}}) +
                          "packet { gpu_device { ordinal: 3 name: 'NVIDIA H200' uuid: '0123456789abcdef' } }\n" +
                          GpuKernelText(4, "_Z4axpyv") +
                          GpuActivityText({{.start_ns = 2200, .correlation = 1, .kernel_iid = 4}});
  const std::string scope =
      "packet { interned { string { iid: 1 value: 'step' } } }\n"
      "packet { scope_batch { thread_id: 1 name_iid: 1 base_end_ticks: 5000 end_delta_ticks: 0 duration_ticks: 4990 "
      "kind: USER_RANGE "
      "link_delta: -1 base_first_sequence: 1 first_sequence_delta: 0 call_count: 9 } }\n";
  const std::string two = Start() + Calls(1, 1) + scope + GpuLinkText(1, {{1, 1, 1100}}) +
                          GpuKernelText(9, "_Z4axpyv") +
                          GpuActivityText({{.start_ns = 1200, .correlation = 1, .kernel_iid = 9}});
  const TraceModel model = LoadTexts({{"1.dlh", one}, {"2.dlh", two}, {"3.dlh", one}});
  EXPECT_THAT(model.gpu.start_ns, ElementsAre(2200, 1200, 2200));
  EXPECT_THAT(model.gpu.launch_call, ElementsAre(1u, 2u, 4u));
  EXPECT_THAT(model.gpu.kernel, ElementsAre(0u, 0u, 0u)) << "distinct over the run";
  EXPECT_THAT(model.gpu.device, ElementsAre(0u, 2u, 3u));
  EXPECT_THAT(model.gpu.scope, ElementsAre(kNone, 0u, kNone));
  ASSERT_THAT(model.gpu_devices, SizeIs(5));
  EXPECT_EQ(model.gpu_devices[0].process, 0u);
  EXPECT_EQ(model.gpu_devices[1].name, "NVIDIA H200");
  EXPECT_EQ(model.gpu_devices[1].uuid, "GPU-30313233-3435-3637-3839-616263646566");
}

// A process that was killed waited for work that ended after its last call.
TEST(GpuModelTest, WorkOfAKilledProcessEndsIt) {
  const std::string trace = Start() + Calls(1, 1) + GpuLinkText(1, {{1, 1, 1100}}) +
                            GpuActivityText({{.start_ns = 1200, .duration_ns = 5000, .correlation = 1}});
  EXPECT_EQ(LoadText(trace).end_ns, 6200);
  EXPECT_EQ(LoadText(trace + Footer(2000)).end_ns, 2000);
}

TEST(GpuModelTest, AfterAResetIdsMeanNothing) {
  const TraceModel model =
      LoadText(Start() + GpuKernelText(1, "_Z4axpyv") + "packet { reset { reason: TABLES_FULL } }\n" +
               GpuActivityText({{.start_ns = 500, .kernel_iid = 1}}));
  EXPECT_THAT(model.gpu.kernel, ElementsAre(kNone));
  EXPECT_EQ(OddityCount(model, "does not define"), 1);
}

TEST(GpuModelTest, WhatCanNotBeTrueIsLeftOut) {
  const TraceModel model = LoadText(Start() +
                                    GpuActivityText({{.start_ns = -kTestRealtimeOffsetNs},
                                                     {.start_ns = 5, .duration_ns = INT64_MIN},
                                                     {.start_ns = 5, .device = 5000},
                                                     {.start_ns = 5, .duration_ns = 1}}) +
                                    "packet { gpu_activity { kind: KERNEL start_delta_ns: 5 } }\n"
                                    "packet { gpu_link { thread_id: 1 tick_delta: 1 } }\n"
                                    "packet { gpu_graph_node { thread_id: 1 tick_delta: 1 } }\n"
                                    "packet { gpu_device { ordinal: 4000000000 } }\n"
                                    "packet { interned { gpu_kernel { iid: 4000000000 } } }\n");
  EXPECT_THAT(model.gpu.start_ns, ElementsAre(5));
  EXPECT_EQ(OddityCount(model, "can't be true"), 3);
  EXPECT_EQ(OddityCount(model, "do not fit together"), 3);
  EXPECT_EQ(OddityCount(model, "impossible"), 2);
}

TEST(GpuModelTest, WithoutAClockSampleItIsNotKnownWhen) {
  const TraceModel model = LoadText(HeaderText("pid: 7") + GpuActivityText({{.start_ns = 500}}));
  EXPECT_TRUE(model.gpu.empty());
  EXPECT_EQ(OddityCount(model, "without a clock sample"), 1);
}

// The clock is set back by a second while stream 7 is working: between the samples at 10 s and 11 s.
TEST(GpuModelTest, WhereTheClockWasSetTheCallsTellWhen) {
  constexpr int64_t kS = 1'000'000'000;
  const auto sample = [](int64_t monotonic_ns, int64_t offset_ns) {
    return absl::StrCat("packet { clock_sample { ticks: ", monotonic_ns, " monotonic_ns: ", monotonic_ns,
                        " realtime_ns: ", monotonic_ns + kTestRealtimeOffsetNs + offset_ns, " } }\n");
  };
  // A time of 10.2 s means 10.2 s or 11.2 s.
  const TraceModel model = LoadText(
      HeaderText("pid: 7") + sample(9 * kS, 0) + sample(10 * kS, 0) + sample(11 * kS, -kS) + sample(12 * kS, -kS) +
      OpsText() + Calls(1, 6) +
      GpuLinkText(
          1, {{1, 1, 10 * kS}, {2, 2, 11 * kS}, {3, 3, 11 * kS + 1000}, {4, 4, 95 * kS / 10}, {6, 6, 10 * kS + 5000}}) +
      GpuActivityText(
          {{.start_ns = 10 * kS + 200'000'000, .duration_ns = 5, .correlation = 1},  // requested in time
           {.start_ns = 10 * kS + 210'000'000, .duration_ns = 5, .correlation = 2},  // requested at 11 s
           {.start_ns = 10 * kS + 220'000'000, .duration_ns = 5, .correlation = 4, .stream = 8},
           {.start_ns = 10 * kS + 100'000'000, .duration_ns = 5, .correlation = 6},  // the stream was busy until 11.2 s
           {.start_ns = 95 * kS / 10, .duration_ns = 5, .correlation = 5, .stream = 9}}));
  EXPECT_THAT(model.gpu.start_ns, ElementsAre(95 * kS / 10, 10 * kS + 200'000'000, 10 * kS + 220'000'000,
                                              11 * kS + 100'000'000, 11 * kS + 210'000'000));
}

}  // namespace
}  // namespace dlhook::analyzer
