// Programs and profiles of XLA, decoded: which layer an operation belongs to, and when it ran.
#include "analyzer/xla/xla_profiles.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>
#include <map>
#include <string>
#include <thread>

#include "proto/xla.pb.h"

namespace dlhook::analyzer {
namespace {

template <typename Message>
std::string Bytes(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message.SerializeAsString();
}

// Calls of train.py: <module>:30 > step:20 > loss:10 > net:5 > block:1, and net:6 > block:1. Frame 11 is frame 6, inlined
// into it.
constexpr char kFrames[] = R"(
  stack_frame_index {
    file_names: "/home/me/train.py" file_names: "/usr/lib/python3/dist-packages/optax/_src/update.py"
    function_names: "<module>" function_names: "step" function_names: "loss" function_names: "net"
    function_names: "block" function_names: "apply_updates"
    file_locations { file_name_id: 1 function_name_id: 1 line: 30 }
    file_locations { file_name_id: 1 function_name_id: 2 line: 20 }
    file_locations { file_name_id: 1 function_name_id: 3 line: 10 }
    file_locations { file_name_id: 1 function_name_id: 4 line: 5 }
    file_locations { file_name_id: 1 function_name_id: 4 line: 6 }
    file_locations { file_name_id: 1 function_name_id: 5 line: 1 }
    file_locations { file_name_id: 2 function_name_id: 6 line: 40 }
    stack_frames { file_location_id: 1 }
    stack_frames { file_location_id: 2 parent_frame_id: 1 }
    stack_frames { file_location_id: 3 parent_frame_id: 2 }
    stack_frames { file_location_id: 4 parent_frame_id: 3 }
    stack_frames { file_location_id: 5 parent_frame_id: 3 }
    stack_frames { file_location_id: 6 parent_frame_id: 4 }
    stack_frames { file_location_id: 6 parent_frame_id: 5 }
    stack_frames { file_location_id: 7 parent_frame_id: 2 }
    stack_frames { file_location_id: 3 parent_frame_id: 6 }
    stack_frames { file_location_id: 4 parent_frame_id: 9 }
    stack_frames { file_location_id: 6 parent_frame_id: 10 }
  })";

std::map<std::string, XlaOp> OpsOf(const std::string& instructions, const std::string& more = "") {
  std::string name;
  int64_t id = 0;
  bool is_whole = false;
  const std::string bytes = Bytes<dlhook::xla::HloModule>(
      "name: 'jit_step' id: 4 entry_computation_id: 1 computations { id: 1 " + instructions + "}" + more + kFrames);
  std::map<std::string, XlaOp> ops;
  for (XlaOp& op : OpsOfProgram(bytes, &name, &id, &is_whole)) ops[op.instruction] = op;
  EXPECT_TRUE(is_whole);
  return ops;
}

TEST(XlaProfilesTest, CallsNameLayersWhereScopesDoNot) {
  const auto ops = OpsOf(R"(
    instructions { id: 1 name: "x" opcode: "parameter" }
    instructions { id: 2 name: "dot.1" opcode: "dot" operand_ids: 1 metadata { op_name: "jit(step)/jvp()/dot_general" stack_frame_id: 6 } }
    instructions { id: 3 name: "dot.2" opcode: "dot" operand_ids: 2 metadata { op_name: "jit(step)/jvp()/dot_general" stack_frame_id: 7 } }
    instructions { id: 4 name: "dot.3" opcode: "dot" operand_ids: 3 metadata { op_name: "jit(step)/transpose(jvp())/dot_general" stack_frame_id: 7 } }
    instructions { id: 5 name: "exp" opcode: "exponential" operand_ids: 3 metadata { op_name: "jit(step)/jvp()/exp" stack_frame_id: 3 } }
    instructions { id: 6 name: "dot.4" opcode: "dot" operand_ids: 1 metadata { op_name: "jit(step)/jvp()/dot_general" stack_frame_id: 11 } })");
  EXPECT_EQ(ops.at("dot.1").layer, "net:5>block:1");
  EXPECT_EQ(ops.at("dot.4").layer, "net:5>block:1");
  EXPECT_EQ(ops.at("dot.2").layer, "net:6>block:1");
  EXPECT_EQ(ops.at("dot.3").layer, "net:6>block:1");
  EXPECT_EQ(ops.at("exp").layer, "loss:10");
  EXPECT_EQ(ops.at("dot.3").pass, CompiledPass::kBackward);
  EXPECT_EQ(ops.at("dot.1").line, "train.py:1");
  EXPECT_FALSE(ops.at("dot.1").has_scopes);
}

TEST(XlaProfilesTest, ScopesOfSeveralLinesAreSeveralLayers) {
  const auto ops = OpsOf(R"(
    instructions { id: 1 name: "a" opcode: "dot" metadata { op_name: "jit(step)/jvp(Net)/Linear/dot_general" stack_frame_id: 4 } }
    instructions { id: 2 name: "b" opcode: "dot" metadata { op_name: "jit(step)/jvp(Net)/Linear/dot_general" stack_frame_id: 5 } }
    instructions { id: 3 name: "c" opcode: "dot" metadata { op_name: "jit(step)/jvp(Net)/head/dot_general" stack_frame_id: 5 } })");
  EXPECT_EQ(ops.at("a").layer, "Net/Linear:5");
  EXPECT_EQ(ops.at("b").layer, "Net/Linear:6");
  EXPECT_EQ(ops.at("c").layer, "Net/head");
}

TEST(XlaProfilesTest, LinesOfABackwardPassMakeNoLayers) {
  const auto ops = OpsOf(R"(
    instructions { id: 1 name: "a" opcode: "dot" metadata { op_name: "jit(step)/jvp(l1)/dot_general" stack_frame_id: 4 } }
    instructions { id: 2 name: "b" opcode: "dot" operand_ids: 1 metadata { op_name: "jit(step)/transpose(jvp(l1))/transpose" stack_frame_id: 5 } })");
  EXPECT_EQ(ops.at("a").layer, "l1");
  EXPECT_EQ(ops.at("b").layer, "l1");
  EXPECT_EQ(ops.at("b").primitive, "dot_general");
}

TEST(XlaProfilesTest, ProgramsHaveArguments) {
  XlaProfiles profiles;
  EXPECT_TRUE(profiles.AddProgram(Bytes<dlhook::xla::HloModule>(R"(
    name: "jit_step" id: 4 entry_computation_id: 1 computations { id: 1
      instructions { id: 1 name: "x.1" opcode: "parameter" shape { element_type: 11 dimensions: 24 dimensions: 40 } metadata { op_name: "x" } }
      instructions { id: 2 name: "n.1" opcode: "parameter" shape { element_type: 4 } }
      instructions { id: 3 name: "dot" opcode: "dot" operand_ids: 1 } })")));
  ASSERT_EQ(profiles.programs().size(), 1u);
  EXPECT_EQ(profiles.programs()[0].arguments, std::vector<std::string>({"x f32[24,40]", "n.1 s32[]"}));
}

TEST(XlaProfilesTest, ProgramsAreInTheOrderOfTheirCompilation) {
  XlaProfiles profiles;
  for (const int id : {7, 3, 5}) {
    EXPECT_TRUE(profiles.AddProgram(Bytes<dlhook::xla::HloModule>("name: 'jit_step' id: " + std::to_string(id) +
                                                                  " entry_computation_id: 1 computations { id: 1 }")));
  }
  profiles.Finish();
  ASSERT_EQ(profiles.programs().size(), 3u);
  EXPECT_EQ(profiles.programs()[0].id, 3);
  EXPECT_EQ(profiles.programs()[2].id, 7);
}

TEST(XlaProfilesTest, AFusionIsItsProduct) {
  const auto ops = OpsOf(R"(
    instructions { id: 1 name: "fusion.1" opcode: "fusion" called_computation_ids: 2 metadata { op_name: "jit(step)/sub" } }
    instructions { id: 2 name: "fusion.2" opcode: "fusion" called_computation_ids: 3 }
    instructions { id: 3 name: "fusion.3" opcode: "fusion" called_computation_ids: 2 metadata { op_name: "jit(step)/jvp(l3)/reduce" } }
    instructions { id: 4 name: "fusion.4" opcode: "fusion" called_computation_ids: 4 })",
                         R"(
    computations { id: 4 instructions { id: 7 name: "w" opcode: "parameter" shape { element_type: 11 dimensions: [5, 7] } }
                         instructions { id: 8 name: "x" opcode: "parameter" shape { element_type: 11 dimensions: [7, 9] } }
                         instructions { id: 9 name: "d" opcode: "dot" operand_ids: 7 operand_ids: 8 shape { element_type: 11 dimensions: [5, 9] }
                                        dot_dimension_numbers { lhs_contracting_dimensions: 1 rhs_contracting_dimensions: 0 }
                                        metadata { op_name: "jit(step)/jvp(l1)/transpose" } } }
    computations { id: 2 instructions { id: 9 name: "d" opcode: "dot" metadata { op_name: "jit(step)/transpose(jvp(l1))/dot_general" } } }
    computations { id: 3 instructions { id: 9 name: "m" opcode: "multiply" metadata { op_name: "jit(step)/jvp(l2)/mul" } } })");
  EXPECT_EQ(ops.at("fusion.1").layer, "l1");
  EXPECT_EQ(ops.at("fusion.1").pass, CompiledPass::kBackward);
  EXPECT_EQ(ops.at("fusion.2").layer, "l2");
  EXPECT_EQ(ops.at("fusion.3").layer, "l1");
  EXPECT_EQ(ops.at("fusion.4").primitive, "dot_general") << "not the transpose around it (vmap)";
}

// What XLA made itself: the transposed convolution of l1's weights has no name and feeds only the update of w.
TEST(XlaProfilesTest, UntaggedOperationsInherit) {
  const auto ops = OpsOf(R"(
    instructions { id: 1 name: "w" opcode: "parameter" }
    instructions { id: 2 name: "x" opcode: "parameter" }
    instructions { id: 3 name: "fwd" opcode: "convolution" operand_ids: 2 operand_ids: 1 metadata { op_name: "jit(step)/jvp(l1)/conv_general_dilated" } }
    instructions { id: 4 name: "pad" opcode: "pad" operand_ids: 3 }
    instructions { id: 5 name: "relu" opcode: "maximum" operand_ids: 4 metadata { op_name: "jit(step)/jvp(l2)/max" } }
    instructions { id: 6 name: "drelu" opcode: "select" operand_ids: 5 metadata { op_name: "jit(step)/transpose(jvp(l2))/select_n" } }
    instructions { id: 7 name: "dw" opcode: "custom-call" operand_ids: 6 operand_ids: 2 }
    instructions { id: 8 name: "sub" opcode: "subtract" operand_ids: 1 operand_ids: 7 metadata { op_name: "jit(step)/sub" stack_frame_id: 2 } })");
  EXPECT_EQ(ops.at("sub").layer, "update (train.py:20)");
  EXPECT_EQ(ops.at("pad").layer, "l2");
  EXPECT_EQ(ops.at("pad").pass, CompiledPass::kForward);
  EXPECT_EQ(ops.at("dw").layer, "l1");
  EXPECT_EQ(ops.at("dw").pass, CompiledPass::kBackward);
  EXPECT_EQ(ops.at("dw").primitive, "custom-call");
  EXPECT_EQ(ops.at("sub").pass, CompiledPass::kUpdate);
}

// On GPUs XLA transposes weights for cuDNN, and names that after the argument.
TEST(XlaProfilesTest, CopiesOfArgumentsInherit) {
  const auto ops = OpsOf(R"(
    instructions { id: 1 name: "w" opcode: "parameter" metadata { op_name: "p['w']" } }
    instructions { id: 2 name: "wrapped_transpose" opcode: "fusion" operand_ids: 1 metadata { op_name: "p['w']" } }
    instructions { id: 3 name: "cudnn-conv.1" opcode: "custom-call" operand_ids: 2
                   metadata { op_name: "jit(step)/jvp(conv1)/conv_general_dilated" } })");
  EXPECT_EQ(ops.at("wrapped_transpose").layer, "conv1");
  EXPECT_EQ(ops.at("wrapped_transpose").pass, CompiledPass::kForward);
  EXPECT_EQ(ops.at("wrapped_transpose").primitive, "fusion");
  EXPECT_EQ(ops.at("cudnn-conv.1").primitive, "conv_general_dilated");
}

TEST(XlaProfilesTest, Optimizer) {
  const auto ops = OpsOf(R"(
    instructions { id: 1 name: "add" opcode: "add" metadata { op_name: "jit(step)/add" stack_frame_id: 8 } }
    instructions { id: 2 name: "scale" opcode: "multiply" metadata { op_name: "jit(step)/mul" stack_frame_id: 2 } })");
  EXPECT_EQ(ops.at("add").layer, "optimizer (optax)");
  EXPECT_EQ(ops.at("add").pass, CompiledPass::kUpdate);
  EXPECT_EQ(ops.at("scale").pass, CompiledPass::kForward);  // uses no gradient
}

TEST(XlaProfilesTest, OperationsOfLoops) {
  const auto ops = OpsOf(R"(
    instructions { id: 1 name: "loop" opcode: "while" called_computation_ids: 2 metadata { op_name: "jit(step)/jvp(stack)/while" } })",
                         R"(
    computations { id: 2 instructions { id: 9 name: "copy.1" opcode: "copy" }
      instructions { id: 10 name: "tanh.1" opcode: "tanh" metadata { op_name: "jit(step)/jvp(stack)/while/body/l1/tanh" } } })");
  EXPECT_EQ(ops.at("tanh.1").layer, "stack/l1");
  EXPECT_EQ(ops.at("copy.1").layer, "stack");
}

// A computation that calls itself, ids that do not exist, and damaged bytes.
TEST(XlaProfilesTest, DamagedPrograms) {
  OpsOf(
      R"(instructions { id: 1 name: "a" opcode: "call" called_computation_ids: 1 called_computation_ids: 77 operand_ids: 99
             metadata { op_name: "f" stack_frame_id: 9999 } }
           instructions { id: 1 name: "a" opcode: "call" operand_ids: 1 metadata { stack_frame_id: -5 } })");
  XlaProfiles profiles;
  EXPECT_FALSE(profiles.AddProgram("\xff\xff"));
  EXPECT_FALSE(profiles.AddSpace("\xff\xff"));
  profiles.Finish();
  EXPECT_TRUE(profiles.events().empty());
}

constexpr char kPlane[] = R"(
  planes {
    name: "/host:CPU"
    event_metadata { key: 1 value { name: "dot.1" } } event_metadata { key: 2 value { name: "end: dot.1" } }
    stat_metadata { key: 1 value { name: "hlo_op" } } stat_metadata { key: 2 value { name: "hlo_module" } }
    stat_metadata { key: 3 value { name: "program_id" } } stat_metadata { key: 4 value { name: "run_id" } }
    stat_metadata { key: 5 value { name: "_p" } } stat_metadata { key: 6 value { name: "_c" } }
    stat_metadata { key: 7 value { name: "dot.1" } } stat_metadata { key: 8 value { name: "jit_step" } }
    lines { id: 11 name: "python" timestamp_ns: 1000
      events { metadata_id: 1 offset_ps: 5000000 duration_ps: 2000000 stats { metadata_id: 1 ref_value: 7 }
        stats { metadata_id: 2 ref_value: 8 } stats { metadata_id: 3 int64_value: 57 } stats { metadata_id: 4 int64_value: -3 }
        stats { metadata_id: 5 uint64_value: 99 } } }
    lines { id: 12 name: "tf_XLAEigen/12" timestamp_ns: 1000
      events { metadata_id: 2 offset_ps: 9000000 stats { metadata_id: 6 uint64_value: 99 } } }
    lines { id: 13 name: "idle" }
  }
  planes { name: "Task Environment" stat_metadata { key: 1 value { name: "profile_start_time" } }
    stats { metadata_id: 1 uint64_value: 1795516343734066292 } })";

TEST(XlaProfilesTest, EventsAndTheirContinuations) {
  constexpr int64_t kBegan = 1795516343734066292;
  XlaProfiles profiles;
  // From the persistent compilation cache: the program has another id.
  EXPECT_TRUE(profiles.AddProgram(Bytes<dlhook::xla::HloModule>(R"(name: "jit_step" id: 59 entry_computation_id: 1
    computations { id: 1 instructions { id: 1 name: "dot.1" opcode: "dot" metadata { op_name: "jit(step)/jvp(l1)/dot_general" } } })")));
  EXPECT_TRUE(profiles.AddSpace(Bytes<dlhook::xla::XSpace>(kPlane)));
  profiles.Finish();
  ASSERT_EQ(profiles.events().size(), 2u);
  const XlaEvent& event = profiles.events()[0];
  EXPECT_EQ(event.thread, 11);
  EXPECT_EQ(event.start_ns, kBegan + 6000);
  EXPECT_EQ(event.end_ns, kBegan + 8000);
  EXPECT_EQ(profiles.ops()[event.op].layer, "l1");
  const XlaEvent& rest = profiles.events()[1];  // it returned before its work was done
  EXPECT_EQ(rest.thread, 12);
  EXPECT_EQ(rest.start_ns, kBegan + 6000);  // another thread may have helped from its call on
  EXPECT_EQ(rest.end_ns, kBegan + 10000);
  ASSERT_EQ(profiles.threads().size(), 2u);
  EXPECT_EQ(profiles.threads()[1].name, "tf_XLAEigen");
}

TEST(XlaProfilesTest, ThreadsAreHashesOfTheirHandles) {
  EXPECT_EQ(XlaProfiles::ThreadId(pthread_self()),
            static_cast<int64_t>(std::hash<std::thread::id>()(std::this_thread::get_id())));
}

}  // namespace
}  // namespace dlhook::analyzer
