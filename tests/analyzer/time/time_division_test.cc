// Time divided among activities: the rules one by one, and random runs against the definition.
#include "analyzer/time/time_division.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace time_division_test {

using Scope = ScopeKind;
using Key = std::pair<ActivityKind, uint32_t>;

std::vector<TimePiece> Pieces(const TraceModel& model, ProcessIndex process = kNone,
                              const std::vector<int64_t>& boundaries = {}) {
  std::vector<TimePiece> pieces;
  DivideTime(model, process, boundaries, [&](const TimePiece& piece) { pieces.push_back(piece); });
  return pieces;
}

std::map<Key, int64_t> Shares(const TraceModel& model, ProcessIndex process = kNone) {
  std::map<Key, int64_t> shares;
  for (const TimePiece& piece : Pieces(model, process)) shares[{piece.kind, piece.index}] += piece.share_ns;
  return shares;
}

constexpr auto kCall = ActivityKind::kCall;
constexpr auto kScope = ActivityKind::kScope;
constexpr auto kNotSeen = ActivityKind::kNotSeen;
constexpr auto kDataLoading = ActivityKind::kDataLoading;
constexpr auto kWaiting = ActivityKind::kWaiting;
constexpr auto kUnattributed = ActivityKind::kUnattributed;

class TimeDivision : public testing::Test {
 protected:
  OpIndex Gemm() { return builder_.AddOp(GemmDefinition(8, 8, 8, "NN")); }
  OpIndex Synchronize() {
    return builder_.AddOp(Definition("function: 'cudaStreamSynchronize' family: 'cuda_sync' time_source: CLOCK_TICKS"));
  }
  StackIndex Stack() { return builder_.AddStack({{"train.py", "<module>", 7}}); }
  void AddScope(const std::string& name, Scope kind, int64_t start_ns, int64_t end_ns, StackIndex stack = kNone,
                ThreadIndex thread = 0) {
    builder_.Scope(name, kind, start_ns, end_ns - start_ns, thread, -1, stack);
  }
  ModelBuilder builder_;
};

TEST_F(TimeDivision, TheInnermostCallCountsElseTheInnermostScope) {
  AddScope("aten::conv2d", Scope::kFrameworkOp, 100, 500);
  AddScope("aten::convolution", Scope::kFrameworkOp, 200, 450);
  builder_.Call(Gemm(), 250, 100);
  builder_.Call(Gemm(), 270, 30);
  const std::map<Key, int64_t> expected = {
      {{kUnattributed, kNone}, 100 + 500}, {{kScope, 0}, 150}, {{kScope, 1}, 150}, {{kCall, 0}, 70}, {{kCall, 1}, 30}};
  EXPECT_EQ(Shares(builder_.Build(1000)), expected);
}

TEST_F(TimeDivision, ThreadsThatWorkShareEquallyAndTheOthersGetNothing) {
  const ThreadIndex second = builder_.AddThread(), third = builder_.AddThread();
  const StackIndex stack = Stack();
  builder_.Call(Gemm(), 0, 90);
  AddScope("aten::relu", Scope::kFrameworkOp, 0, 29, kNone, second);
  AddScope("aten::a", Scope::kFrameworkOp, 0, 9, stack, third);
  AddScope("aten::b", Scope::kFrameworkOp, 100, 110, stack, third);  // Python from 9 to 100
  const std::map<Key, int64_t> expected = {
      {{kCall, 0}, 3 + 10 + 61}, {{kScope, 0}, 3 + 10}, {{kScope, 1}, 3}, {{kNotSeen, third}, 10}, {{kScope, 2}, 10}};
  EXPECT_EQ(Shares(builder_.Build()), expected);
}

TEST_F(TimeDivision, WhatCompilesBesideOperationsRunsAhead) {
  const ThreadIndex second = builder_.AddThread();
  AddScope("XLA compiles jit(f)", Scope::kXlaCompilation, 0, 100);
  AddScope("dot.1", Scope::kXlaOp, 20, 50, kNone, second);
  const std::map<Key, int64_t> expected = {{{kScope, 0}, 20 + 50}, {{kScope, 1}, 30}};
  EXPECT_EQ(Shares(builder_.Build()), expected);
}

TEST_F(TimeDivision, GapsArePythonsWhereBothNeighboursAre) {
  const StackIndex stack = Stack();
  AddScope("aten::a", Scope::kFrameworkOp, 100, 200, stack);
  AddScope("aten::b", Scope::kFrameworkOp, 300, 400, stack);  // Python before
  AddScope("aten::c", Scope::kFrameworkOp, 550, 600);         // not of Python
  builder_.Call(Gemm(), 700, 50);
  builder_.StackOfLastCall(stack);
  builder_.Call(Gemm(), 800, 50);
  builder_.StackOfLastCall(stack);  // Python before
  const std::map<Key, int64_t> expected = {{{kUnattributed, kNone}, 100 + 150 + 100 + 50},
                                           {{kScope, 0}, 100},
                                           {{kScope, 1}, 100},
                                           {{kScope, 2}, 50},
                                           {{kCall, 0}, 50},
                                           {{kCall, 1}, 50},
                                           {{kNotSeen, 0}, 100 + 50}};
  EXPECT_EQ(Shares(builder_.Build(900)), expected);
}

TEST_F(TimeDivision, RangesOfTheUserAreBrackets) {
  const StackIndex stack = Stack();
  AddScope("Optimizer.step#SGD.step", Scope::kUserRange, 100, 500, stack);
  AddScope("aten::add_", Scope::kFrameworkOp, 200, 300, stack);
  AddScope("range without Python", Scope::kNvtxRange, 600, 700);
  const std::map<Key, int64_t> expected = {
      {{kUnattributed, kNone}, 200}, {{kNotSeen, 0}, 100 + 200}, {{kScope, 1}, 100}, {{kScope, 2}, 100}};
  EXPECT_EQ(Shares(builder_.Build(700)), expected);
}

TEST_F(TimeDivision, InputScopesAreDataLoadingWhereNothingInnerRuns) {
  const StackIndex stack = Stack();
  AddScope("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", Scope::kUserRange, 100, 500, stack);
  AddScope("user's own", Scope::kUserRange, 150, 300, stack);
  AddScope("aten::stack", Scope::kFrameworkOp, 200, 250, stack);
  AddScope("Iterator::Root::Prefetch", Scope::kTraceMe, 600, 700);
  AddScope("while/IteratorGetNext:IteratorGetNext", Scope::kGraphNode, 700, 800);
  const std::map<Key, int64_t> expected = {{{kUnattributed, kNone}, 200},
                                           {{kDataLoading, 0}, 350},
                                           {{kScope, 2}, 50},
                                           {{kDataLoading, 3}, 100},
                                           {{kDataLoading, 4}, 100}};
  EXPECT_EQ(Shares(builder_.Build(800)), expected);
}

TEST_F(TimeDivision, WaitingForTheGpuTakesOnlyWhatNobodyElseWorks) {
  const ThreadIndex second = builder_.AddThread();
  builder_.Call(Synchronize(), 0, 100);
  builder_.Call(Gemm(), 20, 30, second);
  const std::map<Key, int64_t> expected = {{{kWaiting, 0}, 70}, {{kCall, 1}, 30}};
  EXPECT_EQ(Shares(builder_.Build()), expected);
}

// The thread that called a function stays in KernelAndDeviceFunc::Run until the executor's threads have run its nodes.
TEST_F(TimeDivision, EventsOfTensorFlowBesideItsNodesTakeOnlyWhatNobodyElseWorks) {
  const ThreadIndex second = builder_.AddThread();
  AddScope("KernelAndDeviceFunc::Run", Scope::kTraceMe, 0, 100);
  AddScope("model/dense/MatMul:MatMul", Scope::kGraphNode, 20, 50, kNone, second);
  const std::map<Key, int64_t> expected = {{{kScope, 0}, 70}, {{kScope, 1}, 30}};
  EXPECT_EQ(Shares(builder_.Build()), expected);
}

TEST_F(TimeDivision, BetweenBackwardNodesTheEngineWorks) {
  const StackIndex stack = Stack();
  AddScope("autograd::engine::evaluate_function: AddmmBackward0", Scope::kFrameworkOp, 0, 100, stack);
  AddScope("ReluBackward0", Scope::kBackwardNode, 110, 200, stack);
  AddScope("aten::add_", Scope::kFrameworkOp, 250, 300, stack);
  const std::map<Key, int64_t> expected = {
      {{kScope, 0}, 110}, {{kScope, 1}, 90}, {{kNotSeen, 0}, 50}, {{kScope, 2}, 50}};
  EXPECT_EQ(Shares(builder_.Build()), expected);
}

TEST_F(TimeDivision, OutsideTheWindowsOfALightTapGapsAreNotPythons) {
  const StackIndex stack = Stack();
  for (int i = 0; i < 4; ++i) AddScope("aten::a", Scope::kFrameworkOp, 100 * i, 100 * i + 50, stack);
  builder_.model().scope_windows = {{0, 0, 130}, {0, 240, 400}};
  EXPECT_EQ(Shares(builder_.Build())[Key(kNotSeen, 0)], 50 + 50);
  EXPECT_EQ(Shares(builder_.model())[Key(kUnattributed, kNone)], 50);
}

TEST_F(TimeDivision, PiecesEndAtBoundaries) {
  builder_.Call(Gemm(), 10, 80);
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (const TimePiece& piece : Pieces(builder_.Build(100), kNone, {-5, 0, 30, 30, 95, 100, 400})) {
    pieces.emplace_back(piece.start_ns, piece.end_ns);
  }
  const std::vector<std::pair<int64_t, int64_t>> expected = {{0, 10}, {10, 30}, {30, 90}, {90, 95}, {95, 100}};
  EXPECT_EQ(pieces, expected);
}

TEST_F(TimeDivision, OfOneProcessOthersTakeNoPart) {
  const ProcessIndex other = builder_.AddProcess();
  const ThreadIndex thread = builder_.AddThread(other);
  builder_.Call(Gemm(), 0, 100);
  builder_.Call(Gemm(), 50, 100, thread);
  const TraceModel model = builder_.Build();
  EXPECT_EQ(Shares(model, 0), (std::map<Key, int64_t>{{{kCall, 0}, 100}, {{kUnattributed, kNone}, 50}}));
  EXPECT_EQ(Shares(model, other), (std::map<Key, int64_t>{{{kCall, 1}, 100}, {{kUnattributed, kNone}, 50}}));
}

TEST_F(TimeDivision, WhatDoesNotDivideGoesInTurn) {
  const ThreadIndex second = builder_.AddThread();
  builder_.Call(Gemm(), 0, 1000);
  AddScope("aten::a", Scope::kFrameworkOp, 0, 1000, kNone, second);
  std::vector<int64_t> boundaries;
  for (int64_t time = 1; time < 1000; ++time) boundaries.push_back(time);
  std::map<ThreadIndex, int64_t> shares;
  for (const TimePiece& piece : Pieces(builder_.Build(), kNone, boundaries)) shares[piece.thread] += piece.share_ns;
  EXPECT_EQ(shares[0], 500);
  EXPECT_EQ(shares[1], 500);
}

TEST_F(TimeDivision, ARunWithoutCallsIsUnattributed) {
  EXPECT_EQ(Shares(builder_.Build(100)), (std::map<Key, int64_t>{{{kUnattributed, kNone}, 100}}));
  EXPECT_TRUE(Pieces(TraceModel()).empty());
}

// A thread that feeds a queue and the one that trains, both between two calls.
TEST_F(TimeDivision, AThreadWithoutModulesWaitsBesideOneThatRunsThem) {
  for (const bool has_modules : {false, true}) {
    builder_ = ModelBuilder();
    const ThreadIndex feeder = builder_.AddThread();
    const ModuleIndex module = has_modules ? builder_.AddModule("Linear", {"fc"}) : kNone;
    const StackIndex main = builder_.AddStack({{"net.py", "forward", 3, module}, {"train.py", "<module>", 8}});
    for (const int64_t start_ns : {0, 110})
      AddScope("aten::linear", Scope::kFrameworkOp, start_ns, start_ns + 10, main);
    for (const int64_t start_ns : {20, 60, 80})
      AddScope("aten::randn", Scope::kFrameworkOp, start_ns, start_ns + 10, Stack(), feeder);
    const std::map<Key, int64_t> shares = Shares(builder_.Build(120));
    EXPECT_EQ(shares.at({kNotSeen, 0}), has_modules ? 70 : 50);
    EXPECT_EQ(shares.count({kNotSeen, feeder}), has_modules ? 0u : 1u);
  }
}

// --- Random runs ---

class RandomRun {
 public:
  // Without `has_ties`, no two edges of a thread are at one time, so that the neighbours of a gap are unambiguous.
  explicit RandomRun(uint32_t seed, bool has_ties = false) : random_(seed), has_ties_(has_ties) {
    gemm_ = builder_.AddOp(GemmDefinition(8, 8, 8, "NN"));
    synchronize_ = builder_.AddOp(Definition("function: 'cudaStreamSynchronize' family: 'cuda_sync'"));
    stack_ = builder_.AddStack({{"train.py", "<module>", 7}});
    const int threads = 1 + static_cast<int>(seed % 5);
    int64_t end_ns = 0;
    for (int i = 0; i < threads; ++i) {
      const ThreadIndex thread = i == 0 ? 0 : builder_.AddThread();
      now_ns_ = 0;
      for (int step = 0; step < 8; ++step) Fill(thread, 0, /*in_call=*/false);
      end_ns = std::max(end_ns, now_ns_);
    }
    model = builder_.Build(end_ns + 10);
  }

  std::vector<int64_t> Boundaries() {
    std::set<int64_t> boundaries;
    for (int i = 0; i < 10; ++i) boundaries.insert(static_cast<int64_t>(random_() % (model.end_ns + 1)));
    return {boundaries.begin(), boundaries.end()};
  }

  TraceModel model;

 private:
  int64_t Tick() { return now_ns_ += static_cast<int64_t>(has_ties_ ? random_() % 3 : 1 + random_() % 40); }

  void Fill(ThreadIndex thread, int depth, bool in_call) {
    const int64_t start_ns = Tick();
    const bool is_call = in_call || random_() % 3 == 0;
    if (depth < 4 && random_() % 3 != 0) {
      for (int i = 0, children = static_cast<int>(random_() % 4); i < children; ++i) Fill(thread, depth + 1, is_call);
    }
    const int64_t duration_ns = Tick() - start_ns;
    const StackIndex stack = random_() % 2 == 0 ? stack_ : kNone;
    if (is_call) {
      builder_.Call(random_() % 2 == 0 ? gemm_ : synchronize_, start_ns, duration_ns, thread);
      builder_.StackOfLastCall(stack);
      return;
    }
    static const std::pair<const char*, Scope> kScopes[] = {{"aten::conv2d", Scope::kFrameworkOp},
                                                            {"ReluBackward0", Scope::kBackwardNode},
                                                            {"AddmmBackward0", Scope::kBackwardNode},
                                                            {"user", Scope::kUserRange},
                                                            {"user", Scope::kNvtxRange},
                                                            {"enumerate(DataLoader)#x", Scope::kUserRange},
                                                            {"Iterator::Map", Scope::kTraceMe},
                                                            {"KernelAndDeviceFunc::Run", Scope::kTraceMe}};
    const auto& [name, kind] = kScopes[random_() % std::size(kScopes)];
    builder_.Scope(name, kind, start_ns, duration_ns, thread, -1, stack);
  }

  std::mt19937 random_;
  const bool has_ties_;
  ModelBuilder builder_;
  OpIndex gemm_ = 0, synchronize_ = 0;
  StackIndex stack_ = 0;
  int64_t now_ns_ = 0;
};

// The activity of one thread at one time, searched in all its calls and scopes.
class ThreadByDefinition {
 public:
  ThreadByDefinition(const TraceModel& model, ThreadIndex thread) : model_(model), thread_(thread) {
    for (CallIndex i = 0; i < model.calls.size(); ++i) {
      if (model.calls.thread[i] == thread) calls_.push_back(i);
    }
    for (ScopeIndex i = 0; i < model.scopes.size(); ++i) {
      if (model.scopes.thread[i] == thread) scopes_.push_back(i);
    }
    for (CallIndex i : calls_) {
      edges_[model.calls.start_ns[i]] = edges_[model.calls.start_ns[i] + model.calls.duration_ns[i]] = {true, i};
    }
    for (ScopeIndex i : scopes_) {
      edges_[model.scopes.start_ns[i]] = edges_[model.scopes.start_ns[i] + model.scopes.duration_ns[i]] = {false, i};
    }
  }

  Key At(int64_t time_ns) const {
    uint32_t call = kNone, scope = kNone, input = kNone;
    for (CallIndex i : calls_) {
      if (IsIn(model_.calls, i, time_ns)) call = i;  // the last one that contains the time is the innermost
    }
    if (call != kNone) return {model_.ops[model_.calls.op[call]].family == "cuda_sync" ? kWaiting : kCall, call};
    for (ScopeIndex i : scopes_) {
      if (!IsIn(model_.scopes, i, time_ns)) continue;
      scope = i;
      if (IsInput(i)) input = i;
    }
    if (scope == kNone) return Gap(time_ns, {kUnattributed, kNone});
    const bool is_bracket =
        model_.scopes.look[scope].kind == Scope::kUserRange || model_.scopes.look[scope].kind == Scope::kNvtxRange;
    if (input == scope || (is_bracket && input != kNone)) return {kDataLoading, input};
    return is_bracket ? Gap(time_ns, {kScope, scope}) : Key(kScope, scope);
  }

 private:
  template <typename Columns>
  static bool IsIn(const Columns& columns, uint32_t i, int64_t time_ns) {
    return columns.start_ns[i] <= time_ns && time_ns < columns.start_ns[i] + columns.duration_ns[i];
  }
  bool IsInput(ScopeIndex scope) const {
    const std::string& name = model_.names[model_.scopes.look[scope].name];
    return name == "enumerate(DataLoader)#x" || name == "Iterator::Map";
  }

  Key Gap(int64_t time_ns, Key otherwise) const {
    const auto next = edges_.upper_bound(time_ns);
    if (next == edges_.end() || next == edges_.begin()) return otherwise;
    const auto last = std::prev(next);
    if (!IsOfPython(last->second) || !IsOfPython(next->second)) return otherwise;
    if (IsBackward(last->second) && IsBackward(next->second)) return {kScope, last->second.second};
    return {kNotSeen, thread_};
  }
  bool IsOfPython(const std::pair<bool, uint32_t>& edge) const {
    return (edge.first ? model_.PythonStackOf(edge.second) : model_.scopes.look[edge.second].stack) != kNone;
  }
  bool IsBackward(const std::pair<bool, uint32_t>& edge) const {
    return !edge.first && model_.scopes.look[edge.second].kind == Scope::kBackwardNode;
  }

  const TraceModel& model_;
  const ThreadIndex thread_;
  std::vector<CallIndex> calls_;
  std::vector<ScopeIndex> scopes_;
  std::map<int64_t, std::pair<bool, uint32_t>> edges_;  // what begins or ends: is it a call, and which
};

// All parts of one piece.
struct Whole {
  int64_t start_ns, end_ns;
  std::multiset<Key> keys;
  std::vector<int64_t> shares;
};

std::vector<Whole> Wholes(const std::vector<TimePiece>& pieces) {
  std::vector<Whole> wholes;
  for (const TimePiece& piece : pieces) {
    if (wholes.empty() || wholes.back().start_ns != piece.start_ns)
      wholes.push_back({piece.start_ns, piece.end_ns, {}, {}});
    EXPECT_EQ(wholes.back().end_ns, piece.end_ns);
    wholes.back().keys.insert({piece.kind, piece.index});
    wholes.back().shares.push_back(piece.share_ns);
  }
  return wholes;
}

bool IsWork(const TraceModel& model, const Key& key) {
  return key.first == kCall || (key.first == kScope && model.scopes.look[key.second].kind != Scope::kTraceMe);
}

std::multiset<Key> KeysAt(const TraceModel& model, const std::vector<ThreadByDefinition>& threads, int64_t time_ns) {
  std::multiset<Key> working, idling;
  for (const ThreadByDefinition& thread : threads) {
    const Key key = thread.At(time_ns);
    if (key.first == kUnattributed) continue;
    (IsWork(model, key) ? working : idling).insert(key);
  }
  if (!working.empty()) return working;
  return idling.empty() ? std::multiset<Key>{{kUnattributed, kNone}} : idling;
}

auto AllOf(const TimePiece& piece) {
  return std::make_tuple(piece.start_ns, piece.end_ns, piece.share_ns, piece.kind, piece.index, piece.thread,
                         piece.gap.before, piece.gap.after, piece.gap.around);
}

TEST(TimeDivisionOfRandomRuns, PartsAreThoseOfTheWhole) {
  for (uint32_t round = 0; round < 500; ++round) {
    RandomRun run(round, /*has_ties=*/true);
    const std::vector<int64_t> boundaries = run.Boundaries();
    std::vector<Interval> only;
    for (size_t i = 1; i < boundaries.size(); i += 2) only.push_back({boundaries[i - 1], boundaries[i]});
    std::vector<decltype(AllOf({}))> expected, parts;
    const IntervalSet times(only);
    for (const TimePiece& piece : Pieces(run.model, kNone, boundaries)) {
      if (times.CoveredNs(piece.start_ns, piece.end_ns) > 0) expected.push_back(AllOf(piece));
    }
    DivideTime(
        run.model, kNone, boundaries, [&](const TimePiece& piece) { parts.push_back(AllOf(piece)); }, only);
    ASSERT_EQ(parts, expected) << "round " << round;
  }
}

TEST(TimeDivisionOfRandomRuns, IsTheDefinition) {
  std::map<ActivityKind, int64_t> met;
  for (uint32_t round = 0; round < 150; ++round) {
    RandomRun run(round);
    const std::vector<int64_t> boundaries = run.Boundaries();
    std::vector<ThreadByDefinition> threads;
    for (ThreadIndex thread = 0; thread < run.model.threads.size(); ++thread) threads.emplace_back(run.model, thread);
    int64_t now_ns = run.model.start_ns;
    for (const Whole& whole : Wholes(Pieces(run.model, kNone, boundaries))) {
      ASSERT_EQ(whole.start_ns, now_ns) << "round " << round;
      now_ns = whole.end_ns;
      ASSERT_EQ(std::upper_bound(boundaries.begin(), boundaries.end(), whole.start_ns),
                std::lower_bound(boundaries.begin(), boundaries.end(), whole.end_ns))
          << "round " << round;
      const int64_t length_ns = whole.end_ns - whole.start_ns, count = static_cast<int64_t>(whole.shares.size());
      int64_t sum_ns = 0;
      for (int64_t share_ns : whole.shares) {
        ASSERT_TRUE(share_ns == length_ns / count || share_ns == (length_ns + count - 1) / count) << "round " << round;
        sum_ns += share_ns;
      }
      ASSERT_EQ(sum_ns, length_ns) << "round " << round;
      for (int64_t time_ns = whole.start_ns; time_ns < whole.end_ns; ++time_ns) {
        ASSERT_EQ(whole.keys, KeysAt(run.model, threads, time_ns)) << "round " << round << " at " << time_ns;
      }
      for (const Key& key : whole.keys) ++met[key.first];
    }
    ASSERT_EQ(now_ns, run.model.end_ns) << "round " << round;
  }
  for (ActivityKind kind : {kUnattributed, kCall, kScope, kNotSeen, kDataLoading, kWaiting}) EXPECT_GT(met[kind], 50);
}

}  // namespace time_division_test
}  // namespace dlhook::analyzer
