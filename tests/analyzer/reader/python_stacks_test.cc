// Packets -> model: Python stacks and modules, and the stack of a call.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace python_stacks_test {

// Stacks 1 (object 7 in train.py:42) and 2 (only train.py:99).
std::string StacksText() {
  return R"pb(packet {
                interned {
                  string { iid: 1 value: "/home/u/train.py" }
                  string { iid: 2 value: "LeNet.forward" }
                  string { iid: 3 value: "<module>" }
                  string { iid: 4 value: "aten::conv2d" }
                  string { iid: 5 value: "CheckpointFunction" }
                  string { iid: 6 value: "user" }
                  python_stack {
                    iid: 1
                    frame { file_iid: 1 function_iid: 2 line: 42 object: 7 }
                    frame { file_iid: 1 function_iid: 3 line: 99 }
                  }
                  python_stack {
                    iid: 2
                    frame { file_iid: 1 function_iid: 3 line: 99 }
                    is_cut: true
                  }
                }
              })pb";
}

std::string CallText(int sequence, int end, int python_stack) {
  return absl::StrCat("packet { call_batch { thread_id: 1 base_sequence: ", sequence - 1,
                      " op_iid: 1 sequence_delta: 0 end_delta_ticks: ", end,
                      " duration: 10 parent_distance: 0 python_stack_iid: ", python_stack, " } }\n");
}

std::string ScopeText(int name, const char* kind, int start, int end, int first_sequence, int calls, int python_stack) {
  return absl::StrCat("packet { scope_batch { thread_id: 1 name_iid: ", name, " end_delta_ticks: ", end,
                      " duration_ticks: ", end - start, " kind: ", kind,
                      " link_delta: -1 first_sequence_delta: ", first_sequence, " call_count: ", calls,
                      " python_stack_iid: ", python_stack, " } }\n");
}

std::string Start() { return HeaderText() + OpsText() + StacksText(); }

TEST(PythonStacks, AreDecodedWithTheirModules) {
  const TraceModel model = LoadText(Start() + CallText(1, 100, 1) + R"pb(
    packet { python_module { object: 7 type: "mine.LeNet" root: 7 name: "" } })pb");
  ASSERT_EQ(model.python_stacks.size(), 2u);
  const PythonStack& stack = model.python_stacks[0];
  ASSERT_EQ(stack.frames.size(), 2u);
  EXPECT_EQ(model.names[stack.frames[0].file], "/home/u/train.py");
  EXPECT_EQ(model.names[stack.frames[0].function], "LeNet.forward");
  EXPECT_EQ(stack.frames[0].line, 42u);
  EXPECT_EQ(stack.frames[1].module, kNone);
  EXPECT_FALSE(stack.is_cut);
  EXPECT_TRUE(model.python_stacks[1].is_cut);
  ASSERT_EQ(stack.frames[0].module, 0u);
  EXPECT_EQ(model.modules[0].object, 7u);
  EXPECT_EQ(model.modules[0].type, "mine.LeNet");
  EXPECT_EQ(model.modules[0].root, 0u);
  EXPECT_EQ(model.modules[0].names, std::vector<std::string>{""});
  EXPECT_TRUE(model.oddities.empty());
}

TEST(PythonStacks, OfACallAreItsOwnOrThatOfTheScopesAroundIt) {
  const TraceModel model =
      LoadText(Start() + CallText(1, 100, 2) + CallText(2, 250, 0) + CallText(3, 350, 0) + CallText(4, 900, 0) +
               ScopeText(4, "FRAMEWORK_OP", 210, 260, 2, 1, 0) + ScopeText(6, "USER_RANGE", 200, 400, 2, 2, 1));
  EXPECT_EQ(model.call_stacks, (std::vector<std::pair<CallIndex, StackIndex>>{{0, 1}}));
  EXPECT_EQ(model.PythonStackOf(0), 1u);
  EXPECT_EQ(model.PythonStackOf(1), 0u);
  EXPECT_EQ(model.PythonStackOf(2), 0u);
  EXPECT_EQ(model.PythonStackOf(3), kNone);
}

// The writer does not read the Python stack inside an operator and repeats the previous one.
TEST(PythonStacks, OfCallsDirectlyInAnOperatorAreNotBelieved) {
  const TraceModel model =
      LoadText(Start() + CallText(1, 220, 2) + CallText(2, 320, 2) + ScopeText(4, "FRAMEWORK_OP", 200, 230, 1, 1, 1) +
               ScopeText(5, "FRAMEWORK_OP", 300, 330, 2, 1, 1));
  EXPECT_EQ(model.call_stacks, (std::vector<std::pair<CallIndex, StackIndex>>{{1, 1}}));
  EXPECT_EQ(model.PythonStackOf(0), 0u);
  EXPECT_EQ(model.PythonStackOf(1), 1u);
}

// Threads of one process and processes of one run: only the first has scopes.
TEST(PythonStacks, OfAThreadWithoutScopesAfterOneWithScopes) {
  const std::string without_scopes = R"pb(packet {
                                            call_batch {
                                              thread_id: 2
                                              op_iid: 1
                                              sequence_delta: 0
                                              end_delta_ticks: 900
                                              duration: 10
                                              parent_distance: 0
                                              python_stack_iid: 1
                                            }
                                          })pb";
  const TraceModel model =
      LoadText(Start() + CallText(1, 220, 2) + ScopeText(4, "FRAMEWORK_OP", 200, 230, 1, 1, 1) + without_scopes);
  EXPECT_EQ(model.calls.scope, (std::vector<ScopeIndex>{0, kNone}));
  EXPECT_EQ(model.call_stacks, (std::vector<std::pair<CallIndex, StackIndex>>{{1, 0}}));
}

TEST(PythonStacks, ThatAreCutAreOthersThanWholeOnes) {
  const TraceModel model = LoadText(Start() + CallText(1, 100, 2) + CallText(2, 200, 3) + R"pb(
                                      packet {
                                        interned {
                                          python_stack {
                                            iid: 3
                                            frame { file_iid: 1 function_iid: 3 line: 99 }
                                          }
                                        }
                                      })pb" +
                                    CallText(3, 300, 3));
  ASSERT_EQ(model.python_stacks.size(), 3u);
  EXPECT_EQ(model.call_stacks, (std::vector<std::pair<CallIndex, StackIndex>>{{0, 1}, {2, 2}}));
}

TEST(PythonStacks, EndAtAResetAndAreFoundAgain) {
  const TraceModel model = LoadText(Start() + CallText(1, 100, 1) + "packet { reset {} }" + CallText(2, 200, 1) +
                                    StacksText() + CallText(3, 300, 1));
  EXPECT_EQ(OddityCount(model, "a Python stack that the trace does not define"), 1);
  EXPECT_EQ(model.python_stacks.size(), 2u);
  EXPECT_EQ(model.call_stacks, (std::vector<std::pair<CallIndex, StackIndex>>{{0, 0}, {2, 0}}));
}

TEST(PythonModules, TheLatestDefinitionHoldsAlsoAfterAReset) {
  const TraceModel model = LoadText(Start() + R"pb(
    packet { python_module { object: 7 type: "A" root: 7 } }
    packet { reset {} }
    packet { python_module { object: 9 type: "B" root: 7 name: "b" parent: 7 } }
    packet { python_module { object: 7 type: "A" root: 7 name: "" name: "again" } })pb");
  ASSERT_EQ(model.modules.size(), 2u);
  EXPECT_EQ(model.modules[0].names, (std::vector<std::string>{"", "again"}));
  EXPECT_EQ(model.modules[1].type, "B");
  EXPECT_EQ(model.modules[1].parent, 0u);
  EXPECT_EQ(model.modules[1].root, 0u);
}

// Records of one module come from several threads: the one without names may come last.
TEST(PythonModules, ABareRecordReplacesNothing) {
  const TraceModel model = LoadText(Start() + R"pb(
    packet { python_module { object: 7 type: "torch.nn.Conv2d" root: 7 name: "features.0" } }
    packet { python_module { object: 7 type: "Conv2d" root: 7 } })pb");
  EXPECT_EQ(model.modules[0].type, "torch.nn.Conv2d");
  EXPECT_EQ(model.modules[0].names, std::vector<std::string>{"features.0"});
}

TEST(PythonModules, NumbersAreOfOneProcess) {
  const std::string text = Start() + "packet { python_module { object: 7 type: 'A' root: 7 } }" + CallText(1, 100, 1);
  const TraceModel model = LoadTexts({{"a", text}, {"b", text}});
  ASSERT_EQ(model.modules.size(), 2u);
  EXPECT_EQ(model.modules[0].process, 0u);
  EXPECT_EQ(model.modules[1].process, 1u);
  EXPECT_EQ(model.modules[1].root, 1u);
  ASSERT_EQ(model.call_stacks.size(), 2u);
  EXPECT_EQ(model.python_stacks[model.PythonStackOf(0)].frames[0].module, 0u);
  EXPECT_EQ(model.python_stacks[model.PythonStackOf(1)].frames[0].module, 1u);
}

TEST(PythonModules, ACircleIsCut) {
  const TraceModel model = LoadText(Start() + R"pb(
    packet { python_module { object: 7 type: "A" root: 7 parent: 9 } }
    packet { python_module { object: 9 type: "B" root: 7 parent: 7 } }
    packet { python_module { object: 0 type: "C" } })pb");
  EXPECT_EQ(OddityCount(model, "inside itself"), 1);
  EXPECT_EQ(OddityCount(model, "impossible number"), 1);
  EXPECT_EQ(model.modules[0].parent, kNone);
  EXPECT_EQ(model.modules[1].parent, 0u);
}

}  // namespace python_stacks_test
}  // namespace dlhook::analyzer
