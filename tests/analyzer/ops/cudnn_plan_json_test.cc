// Plans from JSON: written by libcudnn 9.24 itself (testdata/README.md), and arbitrary ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "analyzer/ops/cudnn_problem.h"
#include "analyzer/ops/decode_op.h"
#include "analyzer/reader/trace_builder.h"
#include "tests/analyzer/ops/decode_text.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ReadFile(const std::string& name) {
  std::ifstream file(std::string(DLHOOK_TESTDATA) + "/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// As the shim records a plan built from this text.
trace::OpDefinition PlanOf(const std::string& json) {
  trace::OpDefinition definition = ParseDefinition(
      "function: 'cudnnBackendExecute' family: 'cudnn' cudnn { plan { engine: -1 "
      "heuristic_mode: -1 heuristic_rank: -1 chooser: CACHED number: 4 } "
      "workspace_bytes: 512 }");
  definition.mutable_cudnn()->mutable_plan()->set_json(json);
  return definition;
}

TEST(CudnnPlanJsonTest, Forward) {
  const Op op = DecodeOp(PlanOf(ReadFile("cudnn_plan_forward.json")));
  EXPECT_EQ(op.trouble, "");
  EXPECT_EQ(op.kind, "convolution");
  EXPECT_EQ(op.direction, Direction::kForward);
  EXPECT_EQ(op.problem, "mb8_ic64oc128_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1");
  EXPECT_EQ(op.types, "f16");
  EXPECT_EQ(op.compute_type, "f32");
  // TILE_SIZE 2, TILEK 13, IDX_MODE 18, WORKSPACE 25, TILE_CGA_M 27, TILE_CGA_N 28
  EXPECT_EQ(op.implementation, "cudnn engine 62 k2=1 k13=1 k18=0 k25=1 k27=1 k28=2");
  EXPECT_EQ(op.chooser, Chooser::kCached);
  EXPECT_EQ(op.heuristic, "");
  EXPECT_EQ(op.workspace_bytes, 512);
  EXPECT_FALSE(op.tensor_core);  // the text has no notes
  ASSERT_EQ(op.tensors.size(), 3u);
  for (const Tensor& tensor : op.tensors) EXPECT_EQ(tensor.format, "nchw") << tensor.role;
  // 2 * (8*128*32*32) * (64*3*3)
  EXPECT_EQ(op.flops, 2ll * 1048576 * 576);
  EXPECT_EQ(op.bytes, 2 * (8 * 64 * 1024 + 128 * 64 * 9 + 8 * 128 * 1024));
}

TEST(CudnnPlanJsonTest, Gradients) {
  const Op data = DecodeOp(PlanOf(ReadFile("cudnn_plan_backward_data.json")));
  EXPECT_EQ(data.direction, Direction::kBackwardData);
  EXPECT_EQ(data.problem, "mb8_ic64oc128_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1");
  for (const Tensor& tensor : data.tensors) EXPECT_EQ(tensor.format, "nhwc") << tensor.role;
  EXPECT_EQ(data.implementation, "cudnn engine 67 k2=5 k13=1 k18=0 k25=0 k27=4 k28=1");
  const Op filter = DecodeOp(PlanOf(ReadFile("cudnn_plan_backward_filter.json")));
  EXPECT_EQ(filter.direction, Direction::kBackwardWeights);
  EXPECT_EQ(filter.problem, data.problem);
  EXPECT_EQ(filter.flops, data.flops);
}

TEST(CudnnPlanJsonTest, FusedNodes) {
  const Op op = DecodeOp(PlanOf(ReadFile("cudnn_plan_fused.json")));
  EXPECT_EQ(op.kind, "convolution");
  EXPECT_THAT(op.post_ops, ElementsAre("bias", "relu"));
  EXPECT_EQ(op.types, "f16");
  EXPECT_EQ(op.tensors.size(), 4u);  // bias, result, filter, image
  EXPECT_EQ(op.bytes, 2 * (128 + 8 * 128 * 1024 + 128 * 64 * 9 + 8 * 64 * 1024));
}

TEST(CudnnPlanJsonTest, WhatIsRecordedBesideTheTextStays) {
  trace::OpDefinition definition = PlanOf(ReadFile("cudnn_plan_forward.json"));
  trace::CudnnPlan* plan = definition.mutable_cudnn()->mutable_plan();
  plan->set_engine(5);
  plan->add_knob()->set_type(2);
  plan->add_numerical_note(0);
  const Op op = DecodeOp(definition);
  EXPECT_EQ(op.implementation, "cudnn engine 5 k2=0");
  EXPECT_TRUE(op.tensor_core->is_told);
  EXPECT_EQ(op.plan()->number, 4u);
}

TEST(CudnnPlanJsonTest, NumbersInPlaceOfNames) {
  const absl::StatusOr<trace::Cudnn> plan = ParseCudnnPlanJson(
      R"({"operationGraph": {"tensors": {"7": {"dataType": 9, "dim": [2, 3], "stride": [3, 1]}},
          "nodes": [{"operation": "CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR",
                     "pointwiseMode": 101, "X": 7}]},
          "engine": {"engineId": 3, "knobChoices": {"44": 1, "NO_SUCH_KNOB": 2}}})");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->tensor(0).type(), trace::BF16);
  EXPECT_EQ(plan->plan().node(0).mode(), "pointwise:101");
  EXPECT_THAT(plan->plan().node(0).input_uid(), ElementsAre(7));
  ASSERT_EQ(plan->plan().knob_size(), 1);
  EXPECT_EQ(plan->plan().knob(0).type(), 44);
}

TEST(CudnnPlanJsonTest, TextThatIsNoPlanIsToldOnce) {
  const Op op = DecodeOp(PlanOf("{\"operationGraph\":"));
  EXPECT_EQ(op.trouble, "a cuDNN plan whose JSON could not be read: not JSON");
  EXPECT_EQ(op.kind, "cudnn");
  EXPECT_EQ(op.chooser, Chooser::kCached);
  EXPECT_THAT(op.tensors, IsEmpty());
  trace::OpDefinition cut = PlanOf("{\"operationGraph\":");
  cut.mutable_cudnn()->mutable_plan()->set_json_cut(true);
  EXPECT_THAT(DecodeOp(cut).trouble, HasSubstr("it was cut"));
  for (const char* text : {"{}", "[]", "null", "1", "\"x\"", "{\"operationGraph\": []}",
                           "{\"operationGraph\": {\"nodes\": {}}}", "{\"operationGraph\": {\"nodes\": []}}"}) {
    EXPECT_THAT(DecodeOp(PlanOf(text)).trouble, HasSubstr("no operation graph")) << text;
  }

  trace::Trace trace = ParseTrace(HeaderText());
  *trace.add_packet()->mutable_interned()->add_op() = PlanOf("{");
  trace.mutable_packet(1)->mutable_interned()->mutable_op(0)->set_iid(1);
  TraceBuilder builder("run");
  ASSERT_TRUE(builder.AddTrace("1.dlh", {trace.SerializeAsString()}).ok());
  EXPECT_EQ(std::move(builder).Build().oddities.at("a cuDNN plan whose JSON could not be read: not JSON"), 1);
}

TEST(CudnnPlanJsonTest, FieldsOfAnotherTypeAreLeftOut) {
  const absl::StatusOr<trace::Cudnn> plan = ParseCudnnPlanJson(
      R"({"operationGraph": {"tensors": [5, null, {"name": {}, "dim": "x", "dataType": [],
            "stride": [1, "2", {}, 1e99], "isVirtual": "yes"}],
          "nodes": [5, {"operation": 7, "pad": {}, "X": [], "mode": null}, []]},
          "engine": {"engineId": 1e30, "knobChoices": [1, 2]}})");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->plan().engine(), -1);
  EXPECT_EQ(plan->plan().node_size(), 3);
  EXPECT_THAT(plan->tensor(2).stride(), ElementsAre(1, 2, 0, 0));
}

TEST(CudnnPlanJsonTest, HostileTexts) {
  EXPECT_THAT(std::string(ParseCudnnPlanJson(std::string(1 << 20, '[')).status().message()),
              HasSubstr("nested too deeply"));
  std::string wide = "{\"operationGraph\": {\"nodes\": [";
  for (int i = 0; i < 10000; ++i) wide += "{},";
  wide += "{}]}}";
  const absl::StatusOr<trace::Cudnn> plan = ParseCudnnPlanJson(wide);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->plan().node_size(), 4096);
}

TEST(CudnnPlanJsonTest, SurvivesTextsWithChangedBytes) {
  std::mt19937 random(1);
  for (const char* name : {"cudnn_plan_fused.json", "cudnn_plan_backward_filter.json"}) {
    const std::string text = ReadFile(name);
    for (int round = 0; round < 2000; ++round) {
      std::string damaged = text;
      for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
      EXPECT_EQ(DecodeOp(PlanOf(damaged)).workspace_bytes, 512);
    }
  }
}

}  // namespace
}  // namespace dlhook::analyzer
