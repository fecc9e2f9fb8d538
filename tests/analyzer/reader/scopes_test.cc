// Packets -> model: scopes, their nesting, the scope around a call.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/reader/scope_nesting.h"
#include "analyzer/reader/trace_builder.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace scopes_test {

std::string NamesText() {
  return R"pb(packet {
                interned {
                  string { iid: 1 value: "aten::conv2d" }
                  string { iid: 2 value: "aten::convolution" }
                  string { iid: 3 value: "ConvolutionBackward0" }
                  string { iid: 4 value: "model/dense/MatMul:MatMul" }
                }
              })pb";
}

std::string CallText(int op, int sequence, int end, int duration, int thread = 1) {
  return absl::StrCat("packet { call_batch { thread_id: ", thread, " base_sequence: ", sequence - 1, " op_iid: ", op,
                      " sequence_delta: 0 end_delta_ticks: ", end, " duration: ", duration,
                      " parent_distance: 0 } }\n");
}

struct ScopeFields {
  int name = 1;
  int end = 0;
  int duration = 0;
  int first_sequence = 0;
  int calls = 0;
  int link = -1;
  const char* kind = "FRAMEWORK_OP";
  int thread = 1;
};

std::string ScopeText(const ScopeFields& scope) {
  return absl::StrCat("packet { scope_batch { thread_id: ", scope.thread, " name_iid: ", scope.name,
                      " end_delta_ticks: ", scope.end, " duration_ticks: ", scope.duration, " kind: ", scope.kind,
                      " link_delta: ", scope.link, " first_sequence_delta: ", scope.first_sequence,
                      " call_count: ", scope.calls, " } }\n");
}

std::string Start() { return HeaderText() + OpsText() + NamesText(); }

TEST(Scopes, DecodesABatch) {
  const TraceModel model = LoadText(Start() + R"pb(
    packet {
      scope_batch {
        thread_id: 1
        name_iid: [ 2, 1, 3 ]
        base_end_ticks: 1000
        end_delta_ticks: [ 500, 100, 1000 ]
        duration_ticks: [ 300, 600, 700 ]
        kind: [ FRAMEWORK_OP, FRAMEWORK_OP, BACKWARD_NODE ]
        link_delta: [ 6, 0, -7 ]
        base_first_sequence: 12
        first_sequence_delta: [ 0, -2, 5 ]
        call_count: [ 2, 4, 0 ]
      }
    })pb");
  const ScopeColumns& scopes = model.scopes;
  ASSERT_EQ(scopes.size(), 3u);
  EXPECT_EQ(scopes.start_ns, (std::vector<int64_t>{1000, 1200, 1900}));
  EXPECT_EQ(scopes.duration_ns, (std::vector<int64_t>{600, 300, 700}));
  EXPECT_EQ(scopes.link, (std::vector<int64_t>{6, 6, -1}));
  EXPECT_EQ(scopes.parent, (std::vector<ScopeIndex>{kNone, 0, kNone}));
  EXPECT_EQ(scopes.thread.RangeOf(0), std::make_pair(0u, 3u));
  EXPECT_EQ(scopes.look[2].kind, ScopeKind::kBackwardNode);
  EXPECT_EQ(model.names[scopes.look[0].name], "aten::conv2d");
  EXPECT_EQ(model.names[scopes.look[1].name], "aten::convolution");
  EXPECT_EQ(scopes.look[0].stack, kNone);
  EXPECT_EQ(model.start_ns, 1000);
  EXPECT_EQ(model.end_ns, 2600);
  EXPECT_TRUE(model.oddities.empty());
}

TEST(Scopes, OfEqualTimesTheOneThatEndedFirstIsInside) {
  const TraceModel model = LoadText(Start() + ScopeText({.name = 2, .end = 500, .duration = 100}) +
                                    ScopeText({.name = 1, .end = 500, .duration = 100}));
  EXPECT_EQ(model.names[model.scopes.look[0].name], "aten::conv2d");
  EXPECT_EQ(model.scopes.parent, (std::vector<ScopeIndex>{kNone, 0}));
}

TEST(Scopes, NeighboursThatTouchDoNotNest) {
  const TraceModel model =
      LoadText(Start() + ScopeText({.end = 500, .duration = 100}) + ScopeText({.end = 600, .duration = 100}));
  EXPECT_EQ(model.scopes.parent, (std::vector<ScopeIndex>{kNone, kNone}));
}

// The tap's first call seems to begin before the scope, and its second one to end after it: the sequence numbers are
// right.
TEST(Scopes, CallsBelongToScopesBySequenceNumber) {
  const TraceModel model =
      LoadText(Start() + CallText(3, 7, 1500, 900) + CallText(1, 8, 1650, 50) + CallText(1, 9, 1800, 100) +
               ScopeText({.name = 2, .end = 1600, .duration = 400, .first_sequence = 7, .calls = 1}) +
               ScopeText({.name = 1, .end = 1640, .duration = 640, .first_sequence = 7, .calls = 2}));
  ASSERT_EQ(model.calls.sequence, (std::vector<uint64_t>{7, 8, 9}));
  EXPECT_EQ(model.calls.scope, (std::vector<ScopeIndex>{1, 0, kNone}));
}

TEST(Scopes, TheInnermostOfScopesWithTheSameCallsHoldsThem) {
  const TraceModel model =
      LoadText(Start() + CallText(1, 5, 1400, 100) +
               ScopeText({.name = 2, .end = 1500, .duration = 300, .first_sequence = 5, .calls = 1}) +
               ScopeText({.name = 3, .end = 1550, .duration = 10, .first_sequence = 6, .calls = 0}) +
               ScopeText({.name = 1, .end = 1600, .duration = 600, .first_sequence = 5, .calls = 1}));
  EXPECT_EQ(model.calls.scope, (std::vector<ScopeIndex>{1}));
}

TEST(Scopes, CallsBelongToScopesToldAfterwardsByTheirEnd) {
  const TraceModel model =
      LoadText(Start() + CallText(3, 1, 1200, 500) + CallText(3, 2, 1500, 100) + CallText(3, 3, 1501, 1) +
               ScopeText({.name = 4, .end = 1500, .duration = 400, .kind = "GRAPH_NODE"}));
  EXPECT_EQ(model.calls.scope, (std::vector<ScopeIndex>{0, 0, kNone}));
}

TEST(Scopes, TheInnerOfAScopeByTimeAndOneByNumberHoldsTheCall) {
  const std::string calls = Start() + CallText(1, 1, 1400, 100);
  const std::string outer_number =
      ScopeText({.name = 1, .end = 1900, .duration = 900, .first_sequence = 1, .calls = 1});
  const std::string inner_time = ScopeText({.name = 4, .end = 1500, .duration = 300});
  TraceModel model = LoadText(calls + inner_time + outer_number);
  EXPECT_EQ(model.calls.scope, (std::vector<ScopeIndex>{1}));

  const std::string outer_time = ScopeText({.name = 4, .end = 1900, .duration = 900});
  const std::string inner_number =
      ScopeText({.name = 1, .end = 1500, .duration = 300, .first_sequence = 1, .calls = 1});
  model = LoadText(calls + inner_number + outer_time);
  EXPECT_EQ(model.calls.scope, (std::vector<ScopeIndex>{1}));
}

TEST(Scopes, OverlappingOnesAreShortened) {
  // A tap that reports scopes when they are over: the inner one seems to begin 500 ns before the outer one.
  TraceModel model = LoadText(Start() + ScopeText({.name = 2, .end = 10'000, .duration = 8'500}) +
                              ScopeText({.name = 1, .end = 12'000, .duration = 10'000}));
  EXPECT_EQ(model.scopes.parent, (std::vector<ScopeIndex>{kNone, 0}));
  EXPECT_EQ(model.scopes.start_ns, (std::vector<int64_t>{2'000, 2'000}));
  EXPECT_TRUE(model.oddities.empty());

  // Two that really overlap: the one that ended first is mostly before the other.
  model = LoadText(Start() + ScopeText({.name = 2, .end = 10'000, .duration = 9'000}) +
                   ScopeText({.name = 1, .end = 20'000, .duration = 13'000}));
  EXPECT_EQ(model.scopes.parent, (std::vector<ScopeIndex>{kNone, kNone}));
  EXPECT_EQ(model.scopes.duration_ns, (std::vector<int64_t>{6'000, 13'000}));
  EXPECT_EQ(OddityCount(model, "overlapped another one"), 1);
}

// From its call to the end of the wait for it, a message of torch.distributed lies across what the thread does meanwhile.
TEST(Scopes, MessagesAreWaitedForWhenAllElseIsDone) {
  const TraceModel model = LoadText(
      Start() + "packet { interned { string { iid: 5 value: \"gloo:recv\" } } }\n" + CallText(1, 1, 40'000, 1'000) +
      ScopeText({.name = 1, .end = 50'000, .duration = 40'000, .first_sequence = 1, .calls = 1}) +
      ScopeText({.name = 5, .end = 70'000, .duration = 65'000, .first_sequence = 1, .calls = 1, .kind = "USER_RANGE"}) +
      ScopeText({.name = 5, .end = 80'000, .duration = 70'000, .first_sequence = 1, .calls = 1, .kind = "USER_RANGE"}) +
      ScopeText({.name = 2, .end = 90'000, .duration = 15'000, .first_sequence = 2}));
  EXPECT_EQ(model.scopes.start_ns, (std::vector<int64_t>{10'000, 50'000, 75'000, 75'000}));
  EXPECT_EQ(model.scopes.duration_ns, (std::vector<int64_t>{40'000, 20'000, 15'000, 5'000}));
  EXPECT_EQ(model.scopes.parent, (std::vector<ScopeIndex>{kNone, kNone, kNone, 2}));
  EXPECT_EQ(model.calls.scope, (std::vector<ScopeIndex>{0}));
  EXPECT_TRUE(model.oddities.empty());
}

TEST(Scopes, ThreadsAndProcessesHaveTheirOwn) {
  const std::string with_scopes =
      Start() + CallText(1, 1, 400, 100, 2) + CallText(1, 1, 400, 100, 1) +
      ScopeText({.end = 500, .duration = 300, .first_sequence = 1, .calls = 1, .thread = 2}) +
      ScopeText({.end = 900, .duration = 100, .first_sequence = 2, .thread = 1});
  const std::string without = HeaderText() + OpsText() + CallText(1, 1, 400, 100);
  const TraceModel model = LoadTexts({{"a", without}, {"b", with_scopes}, {"c", without}});
  EXPECT_EQ(model.scopes.thread[0], 1u);
  EXPECT_EQ(model.scopes.thread[1], 2u);
  EXPECT_EQ(model.calls.scope, (std::vector<ScopeIndex>{kNone, kNone, 1, kNone}));
  EXPECT_TRUE(LoadTexts({{"a", without}}).calls.scope.empty());
}

TEST(Scopes, NamesEndAtAReset) {
  const TraceModel model =
      LoadText(Start() + ScopeText({.end = 100, .duration = 10}) + "packet { reset {} }" +
               ScopeText({.end = 200, .duration = 10}) + NamesText() + ScopeText({.end = 300, .duration = 10}));
  EXPECT_EQ(OddityCount(model, "a name that the trace does not define"), 1);
  ASSERT_EQ(model.scopes.size(), 3u);
  EXPECT_EQ(model.names[model.scopes.look[1].name], "[unknown name]");
  EXPECT_EQ(model.scopes.look[0].name, model.scopes.look[2].name);
}

TEST(Scopes, ThoseThatLackFieldsAreLeftOutAndCounted) {
  const TraceModel model = LoadText(Start() + R"pb(
    packet {
      scope_batch {
        thread_id: 1
        name_iid: [ 1, 2 ]
        end_delta_ticks: [ 100, 100 ]
        duration_ticks: [ 10, 10 ]
        kind: [ USER_RANGE, USER_RANGE ]
        link_delta: [ -1, 0 ]
        first_sequence_delta: [ 0, 0 ]
        call_count: [ 0, 0 ]
        python_stack_iid: [ 7 ]
      }
    }
    packet {
      scope_batch {
        thread_id: 2
        name_iid: [ 1 ]
        end_delta_ticks: [ 100 ]
        duration_ticks: [ 10 ]
        kind: [ USER_RANGE ]
        link_delta: [ -1 ]
        first_sequence_delta: [ 0 ]
        call_count: [ 0 ]
        python_stack_iid: [ 0, 0, 0 ]
      }
    }
    packet {
      interned {
        string { iid: 0 value: "x" }
        string { iid: 4000000000 value: "x" }
      }
    })pb");
  EXPECT_EQ(model.scopes.size(), 2u);
  EXPECT_EQ(OddityCount(model, "a scope that lacks"), 1 + 2);
  EXPECT_EQ(OddityCount(model, "a Python stack that the trace does not define"), 1);
  EXPECT_EQ(OddityCount(model, "impossible id"), 2);
}

TEST(Scopes, SortsThoseThatComeLate) {
  const TraceModel model = LoadText(Start() + ScopeText({.name = 1, .end = 900, .duration = 800}) +
                                    ScopeText({.name = 2, .end = 500, .duration = 100}));
  EXPECT_EQ(model.scopes.parent, (std::vector<ScopeIndex>{kNone, 0}));
  EXPECT_EQ(model.scopes.duration_ns, (std::vector<int64_t>{800, 100}));
}

TEST(Scopes, WindowsOfALightTapStandApartAndCutNothing) {
  const TraceModel model =
      LoadText(Start() + R"pb(packet { interned { string { iid: 9 value: "[dlhook] scopes recorded" } } })pb" +
               ScopeText({.name = 1, .end = 1'500, .duration = 1'000}) +
               ScopeText({.name = 9, .end = 90'000, .duration = 89'000, .kind = "USER_RANGE"}) +
               ScopeText({.name = 1, .end = 95'000, .duration = 10'000}));
  EXPECT_EQ(model.scopes.duration_ns, (std::vector<int64_t>{1'000, 10'000}));
  ASSERT_EQ(model.scope_windows.size(), 1u);
  EXPECT_EQ(model.scope_windows[0].start_ns, 1'000);
  EXPECT_EQ(model.scope_windows[0].end_ns, 90'000);
  EXPECT_TRUE(model.oddities.empty());
}

TEST(Scopes, WindowsOfSlowStepsSaySo) {
  const TraceModel model =
      LoadText(Start() +
               R"pb(packet { interned { string { iid: 8 value: "[dlhook] scopes recorded of a slow step" } } })pb"
               R"pb(packet { interned { string { iid: 9 value: "[dlhook] scopes recorded" } } })pb" +
               ScopeText({.name = 9, .end = 3'000, .duration = 1'000, .kind = "USER_RANGE"}) +
               ScopeText({.name = 8, .end = 5'000, .duration = 1'000, .kind = "USER_RANGE"}));
  ASSERT_EQ(model.scope_windows.size(), 2u);
  EXPECT_FALSE(model.scope_windows[0].is_slow_step);
  EXPECT_TRUE(model.scope_windows[1].is_slow_step);
  EXPECT_EQ(model.scope_windows[1].start_ns, 4'000);
  EXPECT_EQ(model.scopes.size(), 0u);
}

TEST(Scopes, AMarkWithoutItsWindowLastsUntilRecordingEnds) {
  const std::string text =
      Start() + R"pb(packet { interned { string { iid: 9 value: "[dlhook] scopes recorded" } } })pb" +
      ScopeText({.name = 9, .end = 1'010, .kind = "USER_RANGE"}) +
      ScopeText({.name = 9, .end = 2'000, .duration = 1'000, .kind = "USER_RANGE"}) +
      ScopeText({.name = 9, .end = 5'000, .kind = "USER_RANGE", .thread = 2}) +
      "packet { capture_state { recording: false ticks: 6000 } } packet { footer { end_ticks: 9000 } }";
  const auto windows_of = [](const TraceModel& model) {
    std::vector<std::pair<int64_t, int64_t>> windows;
    for (const ScopeWindow& window : model.scope_windows) windows.emplace_back(window.start_ns, window.end_ns);
    return windows;
  };
  using Windows = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(windows_of(LoadText(text)), (Windows{{1'000, 2'000}, {5'000, 6'000}}));
  const std::string another = ScopeText({.name = 9, .end = 7'000, .kind = "USER_RANGE", .thread = 2});
  EXPECT_EQ(windows_of(LoadText(text + another)), (Windows{{1'000, 2'000}, {5'000, 6'000}, {7'000, 9'000}}));
  const std::string before = ScopeText({.name = 9, .end = 5'500, .kind = "USER_RANGE"});
  EXPECT_EQ(windows_of(LoadText(text + before)), (Windows{{1'000, 2'000}, {5'000, 5'500}, {5'500, 6'000}}));
}

// --- Properties ---

void ExpectNested(const ScopeColumns& scopes, const std::string& round) {
  std::vector<int64_t> self_ns;
  for (const int64_t duration_ns : scopes.duration_ns) self_ns.push_back(duration_ns);
  for (size_t i = 0; i < scopes.size(); ++i) {
    ASSERT_GE(scopes.duration_ns[i], 0) << round;
    const ScopeIndex parent = scopes.parent[i];
    if (parent != kNone) {
      ASSERT_LT(parent, i) << round;
      ASSERT_EQ(scopes.thread[parent], scopes.thread[i]) << round;
      ASSERT_GE(scopes.start_ns[i], scopes.start_ns[parent]) << round;
      ASSERT_LE(scopes.start_ns[i] + scopes.duration_ns[i], scopes.start_ns[parent] + scopes.duration_ns[parent])
          << round;
      self_ns[parent] -= scopes.duration_ns[i];
    }
    if (i > 0 && scopes.thread[i] == scopes.thread[i - 1]) {
      ASSERT_GE(scopes.start_ns[i], scopes.start_ns[i - 1]) << round;
    }
  }
  for (int64_t ns : self_ns) ASSERT_GE(ns, 0) << round;  // siblings do not overlap
}

// Scopes and calls as made by a program, and the expected model.
class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) { Run(0, -1); }

  std::string text;
  std::vector<int> parent_of_scope;  // by name - 1: the name of the parent - 1, -1: none
  std::vector<int> scope_of_call;    // by sequence - 1

 private:
  void Run(int depth, int scope) {
    for (int i = 0, steps = static_cast<int>(random_() % 5); i < steps; ++i) {
      now_ += 1 + static_cast<int>(random_() % 10);
      if (depth < 5 && random_() % 2 == 0) {
        RunScope(depth, scope);
      } else {
        const int duration = static_cast<int>(random_() % 10);
        now_ += duration;
        scope_of_call.push_back(scope);
        text += CallText(1, static_cast<int>(scope_of_call.size()), now_, duration);
      }
    }
  }

  void RunScope(int depth, int scope) {
    const int self = static_cast<int>(parent_of_scope.size());
    parent_of_scope.push_back(scope);
    const int start = now_;
    const int first = static_cast<int>(scope_of_call.size()) + 1;
    if (random_() % 3 == 0) ++now_;  // else its first child begins with it
    Run(depth + 1, self);
    if (random_() % 3 == 0) ++now_;  // else it ends with its last child
    text += absl::StrCat("packet { interned { string { iid: ", self + 1, " value: 's", self, "' } } }");
    const bool knows_calls = random_() % 2 == 0;
    const int calls = static_cast<int>(scope_of_call.size()) + 1 - first;
    text += ScopeText({.name = self + 1,
                       .end = now_,
                       .duration = now_ - start,
                       .first_sequence = knows_calls ? first : 0,
                       .calls = knows_calls ? calls : 0});
  }

  std::mt19937 random_;
  int now_ = 1000;
};

TEST(Scopes, RandomProgramsAreFoundAgain) {
  size_t scopes = 0, calls = 0;
  for (uint32_t round = 0; round < 400; ++round) {
    const RandomProgram program(round);
    const TraceModel model = LoadText(HeaderText() + OpsText() + program.text);
    ASSERT_EQ(model.scopes.size(), program.parent_of_scope.size());
    const auto number = [&](ScopeIndex scope) {
      return scope == kNone ? -1 : std::atoi(model.names[model.scopes.look[scope].name].c_str() + 1);
    };
    ExpectNested(model.scopes, absl::StrCat("round ", round));
    for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
      if (model.scopes.duration_ns[scope] == 0) continue;  // without length: it has no position among its neighbours
      ASSERT_EQ(number(model.scopes.parent[scope]), program.parent_of_scope[number(scope)]) << "round " << round;
      ++scopes;
    }
    for (CallIndex call = 0; call < model.calls.size(); ++call) {
      ASSERT_EQ(number(model.calls.ScopeOf(call)), program.scope_of_call[model.calls.sequence[call] - 1])
          << "round " << round << ", call " << model.calls.sequence[call];
      ++calls;
    }
    ASSERT_TRUE(model.oddities.empty());
  }
  EXPECT_GT(scopes, 1000u);
  EXPECT_GT(calls, 1000u);
}

TEST(Scopes, AnyNumbersNest) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string text = Start() + CallText(1, 1, 50, 10) + CallText(1, 2, 90, 30);
    for (int i = 0; i < 12; ++i) {
      text += ScopeText({.end = static_cast<int>(random() % 100),
                         .duration = static_cast<int>(random() % 120),
                         .first_sequence = static_cast<int>(random() % 4),
                         .calls = static_cast<int>(random() % 4)});
    }
    const TraceModel model = LoadText(text);
    ExpectNested(model.scopes, absl::StrCat("round ", round));
    for (ScopeIndex scope : model.calls.scope) ASSERT_TRUE(scope == kNone || scope < model.scopes.size());
  }
}

std::string SmallTrace() {
  return TraceBytesOf(Start() + R"pb(
                        packet {
                          interned {
                            string { iid: 5 value: "a.py" }
                            string { iid: 6 value: "A.forward" }
                            python_stack {
                              iid: 1
                              frame { file_iid: 5 function_iid: 6 line: 3 object: 1 }
                              frame { file_iid: 5 function_iid: 6 }
                            }
                          }
                        }
                        packet { python_module { object: 1 type: "A" root: 1 name: "" } }
                        packet {
                          scope_batch {
                            thread_id: 1
                            name_iid: [ 2, 1 ]
                            end_delta_ticks: [ 500, 100 ]
                            duration_ticks: [ 300, 600 ]
                            kind: [ FRAMEWORK_OP, FRAMEWORK_OP ]
                            link_delta: [ 6, 0 ]
                            first_sequence_delta: [ 1, 0 ]
                            call_count: [ 1, 1 ]
                            python_stack_iid: [ 0, 1 ]
                          }
                        })pb" +
                      CallText(1, 1, 400, 100));
}

TEST(Scopes, EveryPrefixOfATraceCanBeRead) {
  const std::string bytes = SmallTrace();
  for (size_t size = 0; size < bytes.size(); ++size) {
    TraceBuilder builder("run");
    builder.AddTrace("x", {absl::string_view(bytes).substr(0, size)}).IgnoreError();
    ExpectNested(std::move(builder).Build().scopes, absl::StrCat("prefix of ", size));
  }
}

TEST(Scopes, TracesWithChangedBytesAreSurvived) {
  const std::string bytes = SmallTrace();
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = bytes;
    for (int i = 0; i < 2; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    TraceBuilder builder("run");
    builder.AddTrace("x", {damaged}).IgnoreError();
    const TraceModel model = std::move(builder).Build();
    ExpectNested(model.scopes, absl::StrCat("round ", round));
    for (CallIndex call = 0; call < model.calls.size(); ++call) {
      const StackIndex stack = model.PythonStackOf(call);
      ASSERT_TRUE(stack == kNone || stack < model.python_stacks.size());
    }
    for (const ScopeLook& look : model.scopes.look) ASSERT_LT(look.name, model.names.size());
    for (const PythonStack& stack : model.python_stacks) {
      for (const PythonFrame& frame : stack.frames)
        ASSERT_TRUE(frame.module == kNone || frame.module < model.modules.size());
    }
  }
}

// --- The innermost of intervals ---

TEST(InnermostIndex, AnswersPointsInAnyOrder) {
  InnermostIndex index;
  index.Open(10, 100, 0);
  index.Open(20, 40, 1);
  index.Open(25, 30, 2);
  index.Open(40, 50, 3);
  index.Open(200, 210, 4);
  index.Seal();
  const auto by_definition = [](int64_t point) -> ScopeIndex {
    if (point >= 25 && point < 30) return 2;
    if (point >= 20 && point < 40) return 1;
    if (point >= 40 && point < 50) return 3;
    if (point >= 10 && point < 100) return 0;
    return point >= 200 && point < 210 ? 4 : kNone;
  };
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const auto point = static_cast<int64_t>(random() % 230);
    ASSERT_EQ(index.At(point), by_definition(point)) << point;
  }
}

TEST(InnermostIndex, CutsWhatGoesBeyondTheOneAroundIt) {
  InnermostIndex index;
  index.Open(10, 20, 0);
  index.Open(15, 30, 1);
  index.Seal();
  EXPECT_EQ(index.At(19), 1u);
  EXPECT_EQ(index.At(25), kNone);
}

TEST(InnermostIndex, IsEmptyAtFirst) {
  InnermostIndex index;
  index.Seal();
  EXPECT_TRUE(index.empty());
  EXPECT_EQ(index.At(5), kNone);
}

}  // namespace scopes_test
}  // namespace dlhook::analyzer
