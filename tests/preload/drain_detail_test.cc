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
constexpr uint64_t kAmple = 600000;
constexpr uint64_t kSteps = 9000;  // whose times alone take more than the smaller limit
constexpr uint64_t kOpsOfStep = 10, kStepTicks = 1000;
constexpr char kStep[] = "Optimizer.step#SGD.step";
constexpr char kWindow[] = "[dlhook] scopes recorded";
constexpr char kSlow[] = "[dlhook] scopes recorded of a slow step";

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

void PutPythonStack(RingProducer* ring) {
  constexpr uint16_t kWords = sizeof(PythonStackRecord) / 8;
  RecordHeader* space = ring->Reserve(kWords);
  if (space == nullptr) space = ring->ReserveAfterLook(kWords);
  ASSERT_NE(space, nullptr);
  *reinterpret_cast<PythonStackRecord*>(space) = {{kWords, RecordType::kPythonStack, 0, 0, 0, 0}, 0, 0};
  ring->Commit(space);
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
  uint64_t now() const { return now_; }

  void RunStep(uint64_t ticks = kStepTicks) {
    for (size_t thread = rings_.size(); thread-- > 0;) {
      const uint64_t start = now_ + thread;
      for (uint64_t op = 0; op < kOpsOfStep; ++op) {
        const Range range = {start + op * 50, start + op * 50 + 40};
        PutGemm(&rings_[thread], {.sequence = ++sequence_, .start_ticks = range.start, .end_ticks = range.end - 10});
        PutScope(&rings_[thread], "aten::mm", ScopeKind::kFrameworkOp, range);
      }
    }
    now_ += ticks;
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
    Program program(threads, kAmple);
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
    EXPECT_LE(kept.bytes, kAmple);
    ASSERT_GE(kept.windows.size(), 3u);
    EXPECT_EQ(kept.windows.front().start, 1u);
    EXPECT_GT(kept.windows.back().end, 3 * kept.windows.front().end);
    EXPECT_GT(kept.windows.back().end, kSteps / 3 * kStepTicks);
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

// A step that takes longer than 99 of the 100 before it keeps its operations, those of all threads, wherever it is.
TEST(DrainDetailTest, SlowStepsKeepTheirOperations) {
  constexpr uint64_t kForSlow = 900000;  // so that the ends of steps leave room
  for (const uint32_t threads : {1u, 3u}) {
    Program program(threads, kForSlow);
    MemorySink sink;
    Drain drain;
    ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &sink));
    std::set<uint64_t> slow_ends, longest;
    uint64_t now = 10000;
    for (uint64_t step = 0; step < kSteps; ++step) {
      const bool is_slow = step % 150 == 149;
      const uint64_t ticks = step == 8000 ? 9 * kStepTicks : is_slow ? 3 * kStepTicks : kStepTicks + step % 7;
      program.RunStep(ticks);
      now += ticks;
      if (is_slow || step == 8000) slow_ends.insert(now - 100);
      if (step == 8000) longest.insert(now - 100);
      if (step % 7 == 0) drain.Step(true, false);
    }
    drain.Finish(ProcessEnd::kExited, false);
    const Kept kept(Bytes(sink));
    EXPECT_LE(kept.bytes, kForSlow);
    EXPECT_EQ(kept.Count(kStep, {0, UINT64_MAX}), kSteps);
    EXPECT_EQ(kept.single + kept.in_totals, kSteps * kOpsOfStep * threads);
    const auto found = kept.scopes.find(kSlow);
    ASSERT_NE(found, kept.scopes.end());
    EXPECT_GE(found->second.size(), 10u);
    for (const Range& window : found->second) {
      EXPECT_EQ(kept.Count(kStep, window), 1u);
      EXPECT_EQ(kept.Count("aten::mm", window), kOpsOfStep * threads) << window.start;
      EXPECT_TRUE(slow_ends.contains(window.end)) << window.end;
      longest.erase(window.end);
    }
    EXPECT_TRUE(longest.empty()) << "the longest of all is kept whatever others took";
  }
}

// What has so many records that they can't wait is not kept, and nothing is lost.
TEST(DrainDetailTest, AStepWithTooManyRecordsIsNotKept) {
  Program program(1, kAmple);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &sink));
  uint64_t calls = 0;
  for (uint64_t step = 0; step < 3000; ++step) {
    for (uint64_t i = 0; step == 2000 && i < 80000; ++i, ++calls) {
      PutGemm(&program.ring(0),
              {.sequence = 1000000 + i, .start_ticks = program.now(), .end_ticks = program.now() + 1});
      if (i % 1000 == 0) drain.Step(true, false);
    }
    program.RunStep(step == 2000 ? 5 * kStepTicks : kStepTicks);
    calls += kOpsOfStep;
    drain.Step(true, false);
  }
  drain.Finish(ProcessEnd::kExited, false);
  const Kept kept(Bytes(sink));
  EXPECT_EQ(kept.single + kept.in_totals, calls);
  EXPECT_FALSE(kept.scopes.contains(kSlow));
  EXPECT_EQ(kept.Count(kStep, {0, UINT64_MAX}), 3000u);
}

// The times of steps are the one thing that is kept beyond the limit.
TEST(DrainDetailTest, StepsThatAloneTakeMoreThanTheLimit) {
  Program program(1, kLimit);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &sink));
  uint64_t bytes_before = 0;
  for (uint64_t step = 0; step < kSteps; ++step) {
    program.RunStep();
    if (step % 7 == 0) drain.Step(true, true);
    if (step == kSteps / 2) bytes_before = sink.buffer().size();
  }
  const uint64_t second_half = sink.buffer().size() - bytes_before;
  drain.Finish(ProcessEnd::kExited, false);
  const Kept kept(Bytes(sink));
  EXPECT_EQ(kept.Count(kStep, {0, UINT64_MAX}), kSteps);
  EXPECT_EQ(kept.single + kept.in_totals, kSteps * kOpsOfStep);
  EXPECT_LT(second_half, 20 * kSteps / 2);
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

// Each call has a shape of its own, and each step is drained alone: counts stay exact, shapes end, and the limit holds.
TEST(DrainDetailTest, TheLimitHoldsWhereShapesVary) {
  constexpr uint64_t kVaried = 3000, kSmall = 200000;
  Program program(1, kSmall);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &sink));
  for (uint64_t step = 0; step < kVaried; ++step) {
    const uint64_t start = 10000 + step * kStepTicks;
    for (uint64_t op = 0; op < kOpsOfStep; ++op) {
      const uint64_t at = start + op * 50, sequence = step * kOpsOfStep + op + 1;
      const auto length = static_cast<int64_t>(sequence);
      PutGemm(&program.ring(0), {.sequence = sequence, .start_ticks = at, .end_ticks = at + 30, .m = length});
      PutTapLine(
          &program.ring(0), kVaried * kOpsOfStep + sequence, at + 35,
          "onednn_verbose,v1,primitive,exec,cpu,matmul,ref,undef,d,,," + std::to_string(length) + "x8:8x8,0.01\n");
    }
    PutScope(&program.ring(0), kStep, ScopeKind::kUserRange, {start + 700, start + 800});
    if (step % 7 == 0) drain.Step(true, true);
  }
  drain.Finish(ProcessEnd::kExited, false);
  const std::string bytes = Bytes(sink);
  const Kept kept(bytes);
  EXPECT_LE(kept.bytes, kSmall);
  EXPECT_EQ(kept.Count(kStep, {0, UINT64_MAX}), kVaried);
  EXPECT_EQ(kept.single + kept.in_totals, 2 * kVaried * kOpsOfStep);
  uint64_t without_shape = 0;
  const trace::Trace trace = ParseTrace(bytes);
  for (const trace::Packet& packet : trace.packet())
    without_shape += packet.loss().reason() == trace::Loss::SHAPES_DROPPED ? packet.loss().calls() : 0;
  EXPECT_GT(without_shape, kVaried);
  EXPECT_LE(without_shape, kept.in_totals);
}

// Where operations run and no step ends, windows go by time.
TEST(DrainDetailTest, WithoutStepsWindowsGoByTime) {
  constexpr uint64_t kMs = 1000000, kMinutes = 3;
  Program program(1, kAmple);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &sink));
  uint64_t calls = 0;
  for (uint64_t ms = 1; ms < kMinutes * 60000; ++ms) {
    PutGemm(&program.ring(0), {.sequence = ++calls, .start_ticks = ms * kMs, .end_ticks = ms * kMs + 100});
    PutScope(&program.ring(0), "aten::mm", ScopeKind::kFrameworkOp, {ms * kMs, ms * kMs + 200});
    if (ms % 50 == 0) drain.Step(true, false);
  }
  drain.Finish(ProcessEnd::kExited, false);
  const Kept kept(Bytes(sink));
  EXPECT_LE(kept.bytes, kAmple);
  EXPECT_EQ(kept.single + kept.in_totals, calls);
  ASSERT_GE(kept.windows.size(), 4u);
  EXPECT_EQ(kept.windows.front().start, 1u);
  EXPECT_GT(kept.windows.back().end, kMinutes * 40000 * kMs);
  size_t inside = 0;
  for (const Range& window : kept.windows) {
    const uint64_t ms = (window.end - window.start) / kMs;
    EXPECT_GE(ms, 500u);
    EXPECT_NEAR(static_cast<double>(kept.Count("aten::mm", window)), static_cast<double>(ms), 51);
    inside += kept.Count("aten::mm", window);
  }
  EXPECT_EQ(inside, kept.Count("aten::mm", {0, UINT64_MAX}));
}

// The beginning ends while another thread's ring still holds what ended before, behind a record without a time: it says no more than
// what was kept of all.
TEST(DrainDetailTest, WithoutStepsTheBeginningIsWholeOfAllThreads) {
  constexpr uint64_t kMs = 1000000;
  Program program(2, kAmple);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &sink));
  for (uint64_t ms = 1; ms < 30000; ++ms) {
    for (size_t thread : {0, 1}) {
      if (thread == 1) PutPythonStack(&program.ring(thread));
      PutScope(&program.ring(thread), "aten::mm", ScopeKind::kFrameworkOp,
               {ms * kMs + thread, ms * kMs + 200 + thread});
    }
    if (ms % 500 == 0) drain.Step(true, false);
  }
  drain.Finish(ProcessEnd::kExited, false);
  const Kept kept(Bytes(sink));
  ASSERT_FALSE(kept.windows.empty());
  const Range beginning = kept.windows.front();
  EXPECT_GT(beginning.end, 5000 * kMs);
  EXPECT_NEAR(static_cast<double>(kept.Count("aten::mm", beginning)), 2.0 * static_cast<double>(beginning.end / kMs),
              2);
}

// Where no operation is seen, and no step ends, there are no windows, and no more than the limit.
TEST(DrainDetailTest, WithoutStepsTotalsFollow) {
  Program program(1, kLimit);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(program.session().header(), program.session().bytes(), &sink));
  const uint64_t calls = 20000;
  for (uint64_t i = 1; i <= calls; ++i) {
    PutGemm(&program.ring(0), {.sequence = i, .start_ticks = i * 10, .end_ticks = i * 10 + 5});
    PutScope(&program.ring(0), "range", ScopeKind::kUserRange, {i * 10, i * 10 + 6});
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
