// Packets -> model: native stacks, and those of calls.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace native_stacks_test {

// Stacks 5 (0x100), 6 (0x200 inside 5) and 7 (0x300, interrupted by a signal, inside 5), addresses 1 to 3.
std::string StacksText() {
  return R"pb(packet {
                interned {
                  first_address_iid: 1
                  address: 0x100
                  address: 0x200
                  address: 0x300
                  stack { iid: 5 address_iid: 1 cut: TOO_DEEP }
                  stack { iid: 6 address_iid: 2 parent_iid: 5 }
                  stack { iid: 7 address_iid: 3 parent_iid: 5 is_signal_frame: true }
                }
              })pb";
}

std::string CallText(int thread, int sequence, int end, const std::string& stack_iid) {
  return absl::StrCat("packet { call_batch { thread_id: ", thread, " base_sequence: ", sequence - 1,
                      " op_iid: 1 sequence_delta: 0 end_delta_ticks: ", end, " duration: 10 parent_distance: 0 ",
                      stack_iid, " } }\n");
}

std::string Start() { return HeaderText() + OpsText() + StacksText(); }

using Cut = StackCut;

TEST(NativeStacks, AreAForestWithTheCallsAddresses) {
  const TraceModel model =
      LoadText(Start() + CallText(1, 1, 100, "stack_iid: 6") + CallText(1, 2, 200, "stack_iid: 7") +
               CallText(1, 3, 300, "stack_iid: 0") + CallText(1, 4, 400, ""));
  const NativeFrameColumns& frames = model.native_frames;
  EXPECT_EQ(frames.address, (std::vector<uint64_t>{0xff, 0x1ff, 0x300}));
  EXPECT_EQ(frames.parent, (std::vector<FrameIndex>{kNone, 0, 0}));
  EXPECT_EQ(frames.process, (std::vector<ProcessIndex>{0, 0, 0}));
  EXPECT_EQ(frames.cut, (std::vector<Cut>{Cut::kTooDeep, Cut::kWhole, Cut::kWhole}));
  EXPECT_EQ(model.calls.native_stack, (std::vector<FrameIndex>{1, 2, kNone, kNone}));
  EXPECT_TRUE(model.oddities.empty());
}

TEST(NativeStacks, CostNothingWhereThereAreNone) {
  const TraceModel model = LoadText(HeaderText() + OpsText() + CallText(1, 1, 100, ""));
  EXPECT_TRUE(model.calls.native_stack.empty());
  EXPECT_EQ(model.calls.NativeStackOf(0), kNone);
}

// Threads are consecutive: the column extends from the first to the last thread with stacks.
TEST(NativeStacks, OfThreadsBetweenOthersWithout) {
  const TraceModel model =
      LoadText(Start() + CallText(1, 1, 100, "") + CallText(2, 1, 100, "stack_iid: 5") + CallText(3, 1, 100, ""));
  EXPECT_EQ(model.calls.native_stack, (std::vector<FrameIndex>{kNone, 0, kNone}));
}

// Inner calls end first, but keep their stacks.
TEST(NativeStacks, FollowTheirCallsWhenTheseAreNested) {
  const TraceModel model = LoadText(Start() + R"pb(packet {
                                                     call_batch {
                                                       thread_id: 1
                                                       op_iid: [ 2, 1 ]
                                                       sequence_delta: [ 1, -2 ]
                                                       end_delta_ticks: [ 100, 10 ]
                                                       duration: [ 10, 100 ]
                                                       parent_distance: [ 1, 0 ]
                                                       stack_iid: [ 7, 6 ]
                                                     }
                                                   })pb");
  EXPECT_EQ(model.calls.sequence, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(model.calls.native_stack, (std::vector<FrameIndex>{1, 2}));
}

TEST(NativeStacks, EndAtAResetAndAreFoundAgain) {
  const TraceModel model = LoadText(Start() + CallText(1, 1, 100, "stack_iid: 6") + "packet { reset {} }" +
                                    CallText(1, 2, 200, "stack_iid: 6") + R"pb(
                                      packet {
                                        interned {
                                          first_address_iid: 1
                                          address: 0x200
                                          address: 0x100
                                          stack { iid: 1 address_iid: 2 cut: TOO_DEEP }
                                          stack { iid: 2 address_iid: 1 parent_iid: 1 }
                                        }
                                      })pb" +
                                    CallText(1, 3, 300, "stack_iid: 2"));
  EXPECT_EQ(OddityCount(model, "a native stack that the trace does not define"), 1);
  EXPECT_EQ(model.native_frames.size(), 3u);
  EXPECT_EQ(model.calls.native_stack, (std::vector<FrameIndex>{1, kNone, 1}));
}

TEST(NativeStacks, OfTwoProcessesAreTwo) {
  const TraceModel model =
      LoadTexts({{"a.dlh", HeaderText("pid: 1") + OpsText() + StacksText() + CallText(1, 1, 100, "stack_iid: 5")},
                 {"b.dlh", HeaderText("pid: 2") + OpsText() + StacksText() + CallText(1, 1, 100, "stack_iid: 5")}});
  EXPECT_EQ(model.native_frames.size(), 6u);
  EXPECT_EQ(model.native_frames.process, (std::vector<ProcessIndex>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(model.calls.native_stack, (std::vector<FrameIndex>{0, 3}));
}

TEST(NativeStacks, ThatCannotBeAreOddities) {
  const TraceModel model = LoadText(Start() + R"pb(
                                      packet {
                                        interned {
                                          stack { iid: 0 address_iid: 1 }
                                          stack { iid: 99999999 address_iid: 1 }
                                          stack { iid: 8 address_iid: 77 }
                                          stack { iid: 9 address_iid: 1 parent_iid: 9 }
                                          stack { iid: 10 address_iid: 2 parent_iid: 40 }
                                        }
                                      })pb" +
                                    CallText(1, 1, 100, "stack_iid: 8") + CallText(1, 2, 200, "stack_iid: 9") +
                                    CallText(1, 3, 300, "stack_iid: 10"));
  EXPECT_EQ(OddityCount(model, "a definition of a native stack with an impossible id, or without an address"), 3);
  EXPECT_EQ(OddityCount(model, "a native stack that the trace does not define"), 3);
  EXPECT_EQ(model.calls.native_stack, (std::vector<FrameIndex>{kNone, 3, 4}));
  EXPECT_EQ(model.native_frames.cut[3], Cut::kUnreadable);
  EXPECT_EQ(model.native_frames.cut[4], Cut::kUnreadable);
  for (FrameIndex frame = 0; frame < model.native_frames.size(); ++frame) {
    const FrameIndex parent = model.native_frames.parent[frame];
    EXPECT_TRUE(parent == kNone || parent < frame);
  }
}

// The same lines, run by different calls of the interpreter's loop, are different Python stacks.
TEST(NativeStacks, PythonStacksKnowWhereTheLoopBegins) {
  const std::string python = R"pb(packet {
                                    interned {
                                      string { iid: 1 value: "f" }
                                      python_stack {
                                        iid: 1
                                        frame { file_iid: 1 function_iid: 1 line: 1 is_entry: true }
                                        frame { file_iid: 1 function_iid: 1 line: 2 is_entry: true }
                                      }
                                      python_stack {
                                        iid: 2
                                        frame { file_iid: 1 function_iid: 1 line: 1 }
                                        frame { file_iid: 1 function_iid: 1 line: 2 is_entry: true }
                                      }
                                    }
                                  })pb";
  const TraceModel model = LoadText(Start() + python);
  ASSERT_EQ(model.python_stacks.size(), 2u);
  EXPECT_TRUE(model.python_stacks[0].frames[0].is_entry);
  EXPECT_FALSE(model.python_stacks[1].frames[0].is_entry);
  EXPECT_TRUE(model.python_stacks[1].frames[1].is_entry);
}

}  // namespace native_stacks_test
}  // namespace dlhook::analyzer
