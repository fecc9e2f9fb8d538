// The newest part of a growing trace: what a model of it holds is what a model of the whole trace holds there.
#include "analyzer/reader/trace_tail.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/reader/load_run.h"
#include "analyzer/reader/trace_builder.h"
#include "tests/analyzer/test_trace.h"
#include "tests/analyzer/training_trace.h"

namespace dlhook::analyzer {
namespace {

constexpr int kTailSteps = 2000;
constexpr uint64_t kKept = 40'000;  // bytes: an eighth

const std::vector<std::string>& Packets() {
  static const auto& kPackets = *new std::vector<std::string>([] {
    std::vector<std::string> packets;
    WriteTrainingTrace(kTailSteps, [&](const std::string& packet) { packets.push_back(packet); });
    return packets;
  }());
  return kPackets;
}

void Append(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::app) << bytes;
}

// (end, duration, name of the op) of calls that overlap the time from `start_ns` on.
std::vector<std::tuple<int64_t, int64_t, std::string>> CallsSince(const TraceModel& model, int64_t start_ns) {
  std::vector<std::tuple<int64_t, int64_t, std::string>> calls;
  for (CallIndex i = 0; i < model.calls.size(); ++i) {
    const int64_t end_ns = model.calls.start_ns[i] + model.calls.duration_ns[i];
    if (end_ns >= start_ns)
      calls.emplace_back(end_ns, model.calls.duration_ns[i], model.ops[model.calls.op[i]].function);
  }
  std::sort(calls.begin(), calls.end());
  return calls;
}

TEST(TraceTailTest, ThePartIsThatOfTheWholeTrace) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("1.dlh", "");
  TraceTail tail(path, kKept);
  RecentRun recent(path, kKept);
  std::string all;
  size_t reads = 0;
  for (const std::string& packet : Packets()) {
    // In two pieces: between them the packet is half written.
    Append(path, packet.substr(0, packet.size() / 2));
    if (++reads % 50 == 0) {
      ASSERT_TRUE(tail.Read().ok());
    }
    Append(path, packet.substr(packet.size() / 2));
    all += packet;
  }
  ASSERT_TRUE(tail.Read().ok());
  EXPECT_EQ(tail.calls(), uint64_t{kTailSteps} * kTrainingStepCalls + kTailSteps / 100);
  EXPECT_EQ(tail.ended(), ProcessEnd::kExited);

  ASSERT_TRUE(recent.Read().ok());
  const TraceModel part = recent.Last(1'000'000, kKept);
  const absl::StatusOr<LoadedRun> whole = LoadRun(path);
  ASSERT_TRUE(whole.ok());
  ASSERT_EQ(part.read_spans.size(), 2u);  // an empty one: the run's beginning is not in it
  const int64_t start_ns = part.read_spans.back().start_ns;
  EXPECT_LT(part.calls.size(), whole->model.calls.size() / 2);
  EXPECT_GT(part.calls.size(), 100u);
  EXPECT_EQ(CallsSince(part, start_ns), CallsSince(whole->model, start_ns));
  EXPECT_EQ(part.processes.front().calls, whole->model.processes.front().calls);
}

TEST(TraceTailTest, AShortTraceIsWhole) {
  const TemporaryFolder folder;
  std::string bytes;
  for (const std::string& packet : Packets()) bytes += packet;
  const std::string path = folder.Write("1.dlh", bytes);
  RecentRun recent(path, 16 << 20);
  ASSERT_TRUE(recent.Read().ok());
  const TraceModel model = recent.Last(1'000'000, 16 << 20);
  EXPECT_TRUE(model.read_spans.empty());
  EXPECT_EQ(model.calls.size(), LoadRun(path)->model.calls.size());
}

TEST(TraceTailTest, ATraceThatBecomesShorterOrIsReplacedIsReadAgain) {
  const TemporaryFolder folder;
  std::string half;
  for (size_t i = 0; i < Packets().size() / 2; ++i) half += Packets()[i];
  const std::string path = folder.Write("1.dlh", half);
  TraceTail tail(path, kKept);
  ASSERT_TRUE(tail.Read().ok());
  const uint64_t calls = tail.calls();
  EXPECT_GT(calls, 0u);
  folder.Write("1.dlh", Packets()[0] + Packets()[1]);
  ASSERT_TRUE(tail.Read().ok());
  EXPECT_EQ(tail.calls(), 0u);
  folder.Write("1.dlh", half);
  ASSERT_TRUE(tail.Read().ok());
  EXPECT_EQ(tail.calls(), calls);
}

TEST(TraceTailTest, SaysWhereATraceIsDamaged) {
  const TemporaryFolder folder;
  std::string bytes;
  for (size_t i = 0; i < 100; ++i) bytes += Packets()[i];
  const std::string path = folder.Write("1.dlh", bytes + "garbage");
  TraceTail tail(path, kKept);
  const absl::Status status = tail.Read();
  EXPECT_NE(status.message().find("byte " + std::to_string(bytes.size())), std::string::npos) << status;
  EXPECT_GT(tail.calls(), 0u) << "what is whole is known";
}

}  // namespace
}  // namespace dlhook::analyzer
