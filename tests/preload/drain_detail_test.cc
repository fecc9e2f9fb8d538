// What a bounded trace keeps: the time of every step, every call as such or in totals, and windows in which nothing is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "preload/drain/drain.h"
#include "tests/preload/session_fixture.h"

namespace dlhook {
namespace drain_detail_test {

constexpr uint64_t kRingBytes = 1 << 20;
constexpr uint64_t kLimit = 60000;
constexpr uint64_t kSteps = 9000;  // whose times alone take more than the limit
constexpr uint64_t kOpsOfStep = 10, kStepTicks = 1000;
constexpr char kStep[] = "Optimizer.step#SGD.step";
constexpr char kWindow[] = "[dlhook] scopes recorded";

struct Range {
  uint64_t start, end;
  bool operator<(const Range& other) const { return end < other.end; }
};

bool PutScope(RingProducer* ring, const std::string& name, ScopeKind kind, Range range, uint32_t python_stack = 0) {
  const auto words = static_cast<uint16_t>((sizeof(ScopeRecord) + name.size() + 7) / 8);
  RecordHeader* space = ring->Reserve(words);
  if (space == nullptr) space = ring->ReserveAfterLook(words);
  if (space == nullptr) return false;
  auto record = reinterpret_cast<ScopeRecord*>(space);
  *record = {};
  record->header = {words, RecordType::kScope, 0, 0, 0, 0};
  record->start_ticks = range.start;
  record->end_ticks = range.end;
  record->first_sequence = 1;
  record->link = -1;
  record->name_bytes = static_cast<uint16_t>(name.size());
  record->kind = kind;
  record->python_stack = python_stack;
  memcpy(record + 1, name.data(), name.size());
  ring->Commit(space);
  return true;
}

// A program whose threads all compute, and of which the first one ends the steps.
class Program {
 public:
  explicit Program(uint32_t threads, uint64_t limit) : session_(kRingBytes, threads) {
    session_.header()->trace_bytes_limit = limit;
    session_.header()->shim_loaded_ticks = 1;
    for (uint32_t i = 0; i < threads; ++i) {
      rings_.push_back(session_.Producer(i));
      PutThread(&rings_.back(), i + 1, "thread");
    }
  }

  TestSession& session() { return session_; }
  RingProducer& ring(size_t thread) { return rings_[thread]; }

  void RunStep() {
    for (size_t thread = rings_.size(); thread-- > 0;) {
      const uint64_t start = now_ + thread;
      for (uint64_t op = 0; op < kOpsOfStep; ++op) {
        const Range range = {start + op * 50, start + op * 50 + 40};
        PutGemm(&rings_[thread], {.sequence = ++sequence_, .start_ticks = range.start, .end_ticks = range.end - 10});
        PutScope(&rings_[thread], "aten::mm", ScopeKind::kFrameworkOp, range);
      }
    }
    now_ += kStepTicks;
    PutScope(&rings_[0], kStep, ScopeKind::kUserRange, {now_ - 200, now_ - 100});
  }

 private:
  TestSession session_;
  std::vector<RingProducer> rings_;
  uint64_t now_ = 10000, sequence_ = 0;
};

struct Kept {
  std::map<std::string, std::multiset<Range>> scopes;
  std::vector<Range> windows;
  size_t marks = 0;  // of their beginnings
  uint64_t single = 0, in_totals = 0;
  size_t bytes = 0;

  explicit Kept(const std::string& text) : bytes(text.size()) {
    std::map<uint32_t, std::string> strings;
    const trace::Trace trace = ParseTrace(text);
    for (const trace::Packet& packet : trace.packet()) {
      if (packet.has_reset()) strings.clear();
      for (const trace::InternedString& string : packet.interned().string()) strings[string.iid()] = string.value();
      const trace::ScopeBatch& batch = packet.scope_batch();
      uint64_t end = batch.base_end_ticks();
      for (int i = 0; i < batch.name_iid_size(); ++i) {
        end += static_cast<uint64_t>(batch.end_delta_ticks(i));
        const Range range = {end - batch.duration_ticks(i), end};
        scopes[strings.at(batch.name_iid(i))].insert(range);
      }
      in_totals += packet.call_aggregate().count();
    }
    single = DecodeCalls(trace).size();
    for (const Range& window : scopes[kWindow]) {
      if (window.start != window.end) {
        windows.push_back(window);
      } else {
        ++marks;
      }
    }
  }

  // Of a name, those that end in a range.
  size_t Count(const std::string& name, Range range) const {
    const auto found = scopes.find(name);
    if (found == scopes.end()) return 0;
    return static_cast<size_t>(std::count_if(found->second.begin(), found->second.end(), [&](const Range& scope) {
      return scope.end > range.start && scope.end <= range.end;
    }));
  }
};

std::string Bytes(const MemorySink& sink) { return {sink.buffer().data(), sink.buffer().size()}; }

TEST(DrainDetailTest, AllStepsAndCallsAreThereAndWindowsAreWhole) {
  for (const uint32_t threads : {1u, 3u}) {
    Program program(threads, kLimit);
    MemorySink sink;
    Drain drain;
    ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &sink));
    for (uint64_t step = 0; step < kSteps; ++step) {
      program.RunStep();
      if (step % 7 == 0) drain.Step(true, false);
    }
    drain.Finish(ProcessEnd::kExited, false);
    const Kept kept(Bytes(sink));
    EXPECT_EQ(kept.Count(kStep, {0, UINT64_MAX}), kSteps);
    EXPECT_EQ(kept.single + kept.in_totals, kSteps * kOpsOfStep * threads);
    EXPECT_GT(kept.in_totals, kept.single);
    EXPECT_LT(kept.bytes, kLimit + 20 * kSteps);
    ASSERT_GE(kept.windows.size(), 3u);
    EXPECT_EQ(kept.windows.front().start, 1u);
    EXPECT_GT(kept.windows.back().end, 3 * kept.windows.front().end);
    EXPECT_GT(kept.windows.back().end, kSteps / 3 * kStepTicks) << "steps beyond the limit have windows, too";
    EXPECT_LE(kept.marks, kept.windows.size()) << "each mark has its window";
    size_t in_windows = 0;
    for (const Range& window : kept.windows) {
      const size_t steps = kept.Count(kStep, window), operators = kept.Count("aten::mm", window);
      in_windows += operators;
      EXPECT_GE(steps, 4u);
      if (threads == 1) {
        EXPECT_EQ(operators, steps * kOpsOfStep);
      }
      // Its first step may have begun before.
      EXPECT_GT(operators, (steps - 1) * kOpsOfStep * threads);
    }
    EXPECT_GE(in_windows + threads * kOpsOfStep * kept.windows.size(), kept.Count("aten::mm", {0, UINT64_MAX}));
  }
}

TEST(DrainDetailTest, WithoutALimitOrBelowTheDefaultAllIsKept) {
  for (const uint64_t limit : {uint64_t{0}, kTraceBytesOfDay}) {
    Program program(1, limit);
    for (int step = 0; step < 300; ++step) program.RunStep();
    const Kept kept(DrainAll(&program.session()));
    EXPECT_EQ(kept.single, 300 * kOpsOfStep);
    EXPECT_EQ(kept.Count("aten::mm", {0, UINT64_MAX}), 300 * kOpsOfStep);
    EXPECT_TRUE(kept.windows.empty());
  }
}

// The first drain ends within a window or between two.
TEST(DrainDetailTest, AnotherDrainContinues) {
  for (const uint64_t steps_before : {300, 1000, 1001, 1003, 2000}) {
    Program program(1, kLimit);
    MemorySink first, second;
    {
      Drain drain;
      ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &first));
      for (uint64_t step = 0; step < steps_before; ++step) {
        program.RunStep();
        if (step % 7 == 0) drain.Step(true, false);
      }
      drain.Suspend();
    }
    Drain drain;
    ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &second));
    for (uint64_t step = steps_before; step < kSteps; ++step) {
      program.RunStep();
      if (step % 7 == 0) drain.Step(true, false);
    }
    drain.Finish(ProcessEnd::kExited, false);
    const Kept kept(Bytes(first) + Bytes(second));
    EXPECT_EQ(kept.Count(kStep, {0, UINT64_MAX}), kSteps);
    EXPECT_EQ(kept.single + kept.in_totals, kSteps * kOpsOfStep);
    for (const Range& window : kept.windows)
      EXPECT_EQ(kept.Count("aten::mm", window), kept.Count(kStep, window) * kOpsOfStep);
  }
}

// Two steps of one optimizer, then one of another: windows hold whole turns.
TEST(DrainDetailTest, WindowsHoldWholeTurns) {
  Program program(1, kLimit);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &sink));
  const auto end_of = [](uint64_t step) { return 10000 + (step + 1) * kStepTicks; };
  for (uint64_t step = 0; step < kSteps; ++step) {
    for (uint64_t op = 0; op < kOpsOfStep; ++op) {
      const uint64_t start = end_of(step) - 900 + op * 50;
      PutScope(&program.ring(0), "aten::mm", ScopeKind::kFrameworkOp, {start, start + 40});
    }
    PutScope(&program.ring(0), kStep, ScopeKind::kUserRange, {end_of(step) - 200, end_of(step)}, step % 3 == 2 ? 7 : 5);
    if (step % 5 == 0) drain.Step(true, false);
  }
  drain.Finish(ProcessEnd::kExited, false);
  const Kept kept(Bytes(sink));
  ASSERT_GE(kept.windows.size(), 3u);
  for (const Range& window : kept.windows) {
    EXPECT_EQ((window.end - 10000) / kStepTicks % 3, 0u);
    EXPECT_EQ(kept.Count(kStep, window) % 3, 0u);
    EXPECT_EQ(kept.Count("aten::mm", window), kept.Count(kStep, window) * kOpsOfStep);
  }
}

// Operations are recorded in its windows only: the one that is open when details end is cut there.
TEST(DrainDetailTest, ATapsOwnWindowsStay) {
  Program program(1, kLimit);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &sink));
  PutScope(&program.ring(0), kWindow, ScopeKind::kUserRange, {9000, 9000});
  for (uint64_t step = 0; step < kSteps; ++step) {
    program.RunStep();
    drain.Step(true, false);
  }
  PutScope(&program.ring(0), kWindow, ScopeKind::kUserRange, {9000, 10000 + kSteps * kStepTicks});
  drain.Finish(ProcessEnd::kExited, false);
  const Kept kept(Bytes(sink));
  ASSERT_EQ(kept.windows.size(), 1u);
  EXPECT_EQ(kept.windows[0].start, 9000u);
  EXPECT_EQ(kept.Count("aten::mm", kept.windows[0]), kept.Count("aten::mm", {0, UINT64_MAX}));
  EXPECT_EQ(kept.Count(kStep, {0, UINT64_MAX}), kSteps);
}

// Where no step ends, there are no windows, and no more than the limit.
TEST(DrainDetailTest, WithoutStepsTotalsFollow) {
  Program program(1, kLimit);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &sink));
  const uint64_t calls = 20000;
  for (uint64_t i = 1; i <= calls; ++i) {
    PutGemm(&program.ring(0), {.sequence = i, .start_ticks = i * 10, .end_ticks = i * 10 + 5});
    PutScope(&program.ring(0), "aten::mm", ScopeKind::kFrameworkOp, {i * 10, i * 10 + 6});
    if (i % 100 == 0) drain.Step(true, false);
  }
  drain.Finish(ProcessEnd::kExited, false);
  const Kept kept(Bytes(sink));
  EXPECT_EQ(kept.single + kept.in_totals, calls);
  EXPECT_LT(kept.bytes, kLimit);
  EXPECT_TRUE(kept.windows.empty());
}

}  // namespace drain_detail_test
}  // namespace dlhook
