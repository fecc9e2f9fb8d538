// Decoded cuDNN calls: legacy, graph plans, searches. Definitions are as the shim writes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/ops/decode_text.h"

namespace dlhook::analyzer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kForward[] = R"pb(
  function: "cudnnConvolutionForward"
  family: "cudnn"
  cudnn {
    operation: "convolution_forward"
    tensor { role: X type: F32 dim: 8 dim: 4 dim: 32 dim: 30 stride: 3840 stride: 960 stride: 30 stride: 1 }
    tensor { role: W type: F32 dim: 16 dim: 2 dim: 3 dim: 5 stride: 30 stride: 15 stride: 5 stride: 1 }
    tensor { role: Y type: F32 dim: 8 dim: 16 dim: 16 dim: 26 stride: 6656 stride: 416 stride: 26 stride: 1 }
    pad: 1
    pad: 2
    stride: 2
    stride: 1
    dilation: 1
    dilation: 2
    groups: 2
    convolution_mode: 1
    compute_type: F32
    workspace_bytes: 65536
    algorithm: 1
    math_type: 0
    mode: -1
  })pb";

TEST(CudnnOpTest, ReadsEveryFieldOfALegacyConvolution) {
  const Op op = DecodeText(kForward);
  EXPECT_EQ(op.kind, "convolution");
  EXPECT_EQ(op.direction, Direction::kForward);
  // As in oneDNN: dilation counts from 0.
  EXPECT_EQ(op.problem, "g2mb8_ic4oc16_ih32oh16kh3sh2dh0ph1_iw30ow26kw5sw1dw1pw2");
  EXPECT_EQ(op.algorithm, "implicit_precomp_gemm");
  EXPECT_EQ(op.implementation, "");
  EXPECT_EQ(op.types, "f32");
  EXPECT_EQ(op.compute_type, "f32");
  EXPECT_EQ(op.math_mode, "default");
  EXPECT_EQ(op.workspace_bytes, 65536);
  EXPECT_EQ(op.chooser, Chooser::kUnknown);
  EXPECT_THAT(op.post_ops, IsEmpty());
  ASSERT_EQ(op.tensors.size(), 3u);
  EXPECT_EQ(op.tensors[0].role, "src");
  EXPECT_EQ(op.tensors[0].format, "nchw");
  EXPECT_EQ(op.tensors[1].role, "wei");
  EXPECT_THAT(op.tensors[2].dims, ElementsAre(8, 16, 16, 26));
  // 2 * outputs * filter taps per output: 2 * (8*16*16*26) * (2*3*5)
  EXPECT_EQ(op.flops, 2 * 53248 * 30);
  EXPECT_EQ(op.bytes, 4 * (8 * 4 * 32 * 30 + 16 * 30 + 53248));
  EXPECT_TRUE(op.is_asynchronous);
  ASSERT_TRUE(op.tensor_core);
  EXPECT_TRUE(op.tensor_core->eligible);
  EXPECT_FALSE(op.tensor_core->is_told);
  EXPECT_EQ(op.tensor_core->reason, "math type default: TF32 from compute capability 8.0");
}

TEST(CudnnOpTest, DirectionsHaveAlgorithmsOfTheirOwn) {
  const auto convolution = [](const std::string& operation, int algorithm) {
    return DecodeText("family: 'cudnn' cudnn { operation: '" + operation + "' algorithm: " + std::to_string(algorithm) +
                      " math_type: 3 mode: -1 }");
  };
  EXPECT_EQ(convolution("convolution_forward", 7).algorithm, "winograd_nonfused");
  EXPECT_EQ(convolution("convolution_forward", 6).algorithm, "winograd");
  EXPECT_EQ(convolution("convolution_backward_data", 1).algorithm, "algo_1");
  EXPECT_EQ(convolution("convolution_backward_data", 3).algorithm, "fft_tiling");
  EXPECT_EQ(convolution("convolution_backward_weights", 3).algorithm, "algo_3");
  EXPECT_EQ(convolution("convolution_backward_filter", 6).algorithm, "fft_tiling");
  EXPECT_EQ(convolution("convolution_forward", 8).algorithm, "8");
  EXPECT_EQ(convolution("convolution_forward", -1).algorithm, "");
  EXPECT_EQ(convolution("convolution_backward_weights", 0).direction, Direction::kBackwardWeights);
  EXPECT_EQ(convolution("convolution_backward_data", 0).direction, Direction::kBackwardData);
}

TEST(CudnnOpTest, BackwardDataInChannelsLast) {
  const Op op = DecodeText(R"pb(
    family: "cudnn"
    cudnn {
      operation: "convolution_backward_data"
      tensor { role: W type: F16 dim: 16 dim: 3 dim: 3 dim: 3 stride: 27 stride: 1 stride: 9 stride: 3 }
      tensor { role: DY type: F16 dim: 8 dim: 16 dim: 32 dim: 32 stride: 16384 stride: 1 stride: 512 stride: 16 }
      tensor { role: DX type: F16 dim: 8 dim: 3 dim: 32 dim: 32 stride: 3072 stride: 1 stride: 96 stride: 3 }
      pad: 1
      pad: 1
      stride: 1
      stride: 1
      dilation: 1
      dilation: 1
      groups: 1
      algorithm: 1
      math_type: 1
      mode: -1
      compute_type: F32
    })pb");
  EXPECT_EQ(op.problem, "mb8_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1");
  EXPECT_EQ(op.types, "f16");
  // In the order of the call, with oneDNN's names: src has the input's shape.
  EXPECT_EQ(op.tensors[0].role, "wei");
  EXPECT_EQ(op.tensors[1].role, "dst");
  EXPECT_EQ(op.tensors[2].role, "src");
  for (const Tensor& tensor : op.tensors) EXPECT_EQ(tensor.format, "nhwc");
  EXPECT_EQ(op.flops, 7077888);  // same as oneDNN's convolution in op_test
  EXPECT_TRUE(op.tensor_core->eligible);
  EXPECT_EQ(op.tensor_core->reason, "math type tensor_op");
}

TEST(CudnnOpTest, BackwardBiasMultipliesNothing) {
  const Op op = DecodeText(R"pb(
    cudnn {
      operation: "convolution_backward_bias"
      tensor { role: DY type: F32 dim: 8 dim: 16 dim: 2 dim: 2 stride: 64 stride: 4 stride: 2 stride: 1 }
      tensor { role: DBIAS type: F32 dim: 1 dim: 16 dim: 1 dim: 1 stride: 16 stride: 1 stride: 1 stride: 1 }
      algorithm: -1
      math_type: -1
      mode: -1
    })pb");
  EXPECT_EQ(op.kind, "convolution");
  EXPECT_EQ(op.direction, Direction::kBackwardBias);
  EXPECT_EQ(op.problem, "8x16x2x2");
  EXPECT_EQ(op.flops, std::nullopt);
  EXPECT_EQ(op.bytes, 4 * (512 + 16));
  EXPECT_FALSE(op.tensor_core);
}

TEST(CudnnOpTest, FusedLegacyConvolution) {
  const Op op = DecodeText(R"pb(
    cudnn {
      operation: "convolution_bias_activation"
      algorithm: 1
      math_type: 2
      mode: 1
      tensor {
        role: X
        type: S8
        dim: 1
        dim: 32
        dim: 4
        dim: 4
        stride: 512
        stride: 16
        stride: 4
        stride: 1
        vector_count: 4
        vectorized_dim: 1
      }
      tensor { role: Z type: F32 dim: 1 dim: 8 dim: 4 dim: 4 stride: 128 stride: 16 stride: 4 stride: 1 }
      tensor { role: Y type: F32 dim: 1 dim: 8 dim: 4 dim: 4 stride: 128 stride: 16 stride: 4 stride: 1 }
    })pb");
  EXPECT_EQ(op.direction, Direction::kForward);
  EXPECT_THAT(op.post_ops, ElementsAre("bias", "add", "relu"));
  EXPECT_EQ(op.tensors[0].format, "nchw_vect4");
  EXPECT_EQ(op.types, "s8:f32");
}

std::string FourDims(const char* role, const char* dims) {
  return std::string("tensor { role: ") + role + " type: F32 " + dims + " } ";
}

TEST(CudnnOpTest, PoolingsHaveTheirWindowWhereConvolutionsHaveTheDilation) {
  const std::string x = FourDims("X", "dim: 4 dim: 8 dim: 16 dim: 16 stride: 2048 stride: 256 stride: 16 stride: 1");
  const std::string y = FourDims("Y", "dim: 4 dim: 8 dim: 8 dim: 7 stride: 448 stride: 56 stride: 7 stride: 1");
  const Op op = DecodeText("cudnn { operation: 'pooling_forward' mode: 0 algorithm: -1 math_type: -1 " + x + y +
                           "pad: 0 pad: 1 stride: 2 stride: 2 dilation: 2 dilation: 3 }");
  EXPECT_EQ(op.kind, "pooling");
  EXPECT_EQ(op.direction, Direction::kForward);
  EXPECT_EQ(op.algorithm, "pooling_max");
  EXPECT_EQ(op.problem, "mb4ic8_ih16oh8kh2sh2dh0ph0_iw16ow7kw3sw2dw0pw1");
  EXPECT_EQ(op.bytes, 4 * (4 * 8 * 256 + 4 * 8 * 56));
  EXPECT_EQ(op.flops, std::nullopt);
  EXPECT_EQ(op.workspace_bytes, std::nullopt);
  EXPECT_FALSE(op.tensor_core);
}

TEST(CudnnOpTest, WordsOfOneDnnForTheSameThings) {
  struct Case {
    const char* operation;
    int mode;
    const char* kind;
    Direction direction;
    const char* algorithm;
  };
  const Case cases[] = {
      {"activation_forward", 0, "eltwise", Direction::kForward, "eltwise_logistic"},
      {"activation_backward", 1, "eltwise", Direction::kBackward, "eltwise_relu"},
      {"pooling_backward", 2, "pooling", Direction::kBackward, "pooling_avg_exclude_padding"},
      {"batch_normalization_training", 2, "batch_normalization", Direction::kForward, "spatial_persistent"},
      {"batch_normalization_inference", 1, "batch_normalization", Direction::kForward, "spatial"},
      {"batch_normalization_backward", 0, "batch_normalization", Direction::kBackward, "per_activation"},
      {"lrn_forward", -1, "lrn", Direction::kForward, ""},
      {"dropout_backward", -1, "dropout", Direction::kBackward, ""},
      {"rnn_forward", 2, "rnn", Direction::kForward, "vanilla_lstm"},
      {"rnn_backward_data", 3, "rnn", Direction::kBackwardData, "lbr_gru"},
      {"rnn_backward_weights", 0, "rnn", Direction::kBackwardWeights, "vanilla_rnn_relu"},
      {"attention_backward_weights", -1, "attention", Direction::kBackwardWeights, ""},
      {"transform_tensor", -1, "reorder", Direction::kUnknown, ""},
      {"reorder_filter", -1, "reorder", Direction::kUnknown, ""},
      {"add_tensor", -1, "binary", Direction::kUnknown, "binary_add"},
      {"op_tensor", 1, "binary", Direction::kUnknown, "binary_mul"},
      {"reduce_tensor", 5, "reduction", Direction::kUnknown, "reduction_mean"},
      {"set_tensor", -1, "set_tensor", Direction::kUnknown, ""},
      {"unknown", -1, "unknown", Direction::kUnknown, ""},
      {"", -1, "cudnn", Direction::kUnknown, ""},
  };
  for (const Case& c : cases) {
    const Op op = DecodeText(std::string("cudnn { operation: '") + c.operation +
                             "' algorithm: -1 math_type: -1 mode: " + std::to_string(c.mode) + " }");
    EXPECT_EQ(op.kind, c.kind) << c.operation;
    EXPECT_EQ(op.direction, c.direction) << c.operation;
    EXPECT_EQ(op.algorithm, c.algorithm) << c.operation;
  }
  EXPECT_EQ(DecodeText("cudnn { operation: 'softmax_forward' algorithm: 2 math_type: -1 }").algorithm, "softmax_log");
}

TEST(CudnnOpTest, ProblemsOfOtherKinds) {
  const std::string x = FourDims("X", "dim: 4 dim: 8 dim: 3 dim: 5 stride: 120 stride: 15 stride: 5 stride: 1");
  const std::string steps = FourDims("X", "dim: 5 dim: 2 dim: 16 stride: 32 stride: 16 stride: 1") +
                            FourDims("Y", "dim: 5 dim: 2 dim: 32 stride: 64 stride: 32 stride: 1");
  EXPECT_EQ(DecodeText("cudnn { operation: 'batch_normalization_training' " + x + "}").problem, "mb4ic8ih3iw5");
  EXPECT_EQ(DecodeText("cudnn { operation: 'softmax_forward' " + x + "}").problem, "4x8x3x5");
  EXPECT_EQ(DecodeText("cudnn { operation: 'rnn_forward' groups: 2 " + steps + "}").problem, "l2t5mb2slc16dic32");
  EXPECT_EQ(DecodeText("cudnn { operation: 'transform_tensor' " + x + "}").problem, "4x8x3x5");
  EXPECT_EQ(DecodeText("cudnn { operation: 'reduce_tensor' " + x + FourDims("Y", "dim: 4 dim: 1 dim: 1 dim: 1") + "}")
                .problem,
            "4x8x3x5:4x1x1x1");
  EXPECT_EQ(DecodeText("cudnn { operation: 'convolution_forward' }").problem, "");
}

TEST(CudnnOpTest, ThreeDimensions) {
  const Op op = DecodeText(R"pb(
    cudnn {
      operation: "convolution_forward"
      groups: 1
      tensor { role: X type: F32 dim: 2 dim: 8 dim: 6 dim: 6 dim: 6 }
      tensor { role: W type: F32 dim: 16 dim: 8 dim: 3 dim: 3 dim: 3 }
      tensor { role: Y type: F32 dim: 2 dim: 16 dim: 4 dim: 4 dim: 4 }
      pad: 0
      pad: 0
      pad: 0
      stride: 1
      stride: 1
      stride: 1
      dilation: 1
      dilation: 1
      dilation: 1
    })pb");
  EXPECT_EQ(op.problem, "mb2_ic8oc16_id6od4kd3sd1dd0pd0_ih6oh4kh3sh1dh0ph0_iw6ow4kw3sw1dw0pw0");
  EXPECT_EQ(op.flops, 2ll * 2 * 16 * 8 * 64 * 27);
}

// Convolution, bias and ReLU fused; the convolution's own result is never in memory.
constexpr char kFusedPlan[] = R"pb(
  function: "cudnnBackendExecute"
  family: "cudnn"
  cudnn {
    operation: "convolution_forward"
    tensor { role: X type: F16 uid: 120 dim: 8 dim: 6 dim: 4 dim: 4 stride: 96 stride: 1 stride: 24 stride: 6 }
    tensor { role: W type: F16 uid: 119 dim: 16 dim: 3 dim: 1 dim: 1 stride: 3 stride: 1 stride: 3 stride: 3 }
    tensor {
      role: Y
      type: F32
      uid: 1
      is_virtual: true
      dim: 8
      dim: 16
      dim: 4
      dim: 4
      stride: 256
      stride: 1
      stride: 64
      stride: 16
    }
    tensor { role: INPUT type: F16 uid: 98 dim: 1 dim: 16 dim: 1 dim: 1 stride: 16 stride: 1 stride: 16 stride: 16 }
    tensor {
      role: INPUT
      type: F32
      uid: 2
      is_virtual: true
      dim: 8
      dim: 16
      dim: 4
      dim: 4
      stride: 256
      stride: 1
      stride: 64
      stride: 16
    }
    tensor { role: OUTPUT type: F16 uid: 111 dim: 8 dim: 16 dim: 4 dim: 4 stride: 256 stride: 1 stride: 64 stride: 16 }
    tensor {
      role: INPUT
      type: F32
      uid: 7
      by_value: true
      dim: 1
      dim: 1
      dim: 1
      dim: 1
      stride: 1
      stride: 1
      stride: 1
      stride: 1
    }
    workspace_bytes: 4096
    plan {
      node {
        operation: "convolution_forward"
        input_uid: 120
        input_uid: 119
        output_uid: 1
        pad: 0
        pad: 0
        stride: 1
        stride: 1
        dilation: 1
        dilation: 1
        compute_type: F32
      }
      node { operation: "pointwise" mode: "pointwise:0" input_uid: 1 input_uid: 98 output_uid: 2 }
      node { operation: "pointwise" mode: "pointwise:1" input_uid: 2 input_uid: 7 output_uid: 3 }
      node { operation: "pointwise" mode: "pointwise:100" input_uid: 3 output_uid: 111 }
      engine: 28
      knob { type: 2 value: 5 }
      knob { type: 3 value: 1 }
      numerical_note: 0
      numerical_note: 4
      behavior_note: 0
      chooser: HEURISTIC
      heuristic_mode: 0
      heuristic_rank: 0
      heuristic_requested: 1
      heuristic_results: 1
      build_ticks: 1000
      number: 3
    }
  })pb";

TEST(CudnnPlanTest, EngineNodesNotesAndChooser) {
  const Op op = DecodeText(kFusedPlan);
  EXPECT_EQ(op.kind, "convolution");
  EXPECT_EQ(op.problem, "g2mb8_ic6oc16_ih4oh4kh1sh1dh0ph0_iw4ow4kw1sw1dw0pw0");
  EXPECT_EQ(op.implementation, "cudnn engine 28 k2=5 k3=1");
  EXPECT_EQ(op.algorithm, "");
  EXPECT_THAT(op.post_ops, ElementsAre("bias", "mul", "relu"));
  EXPECT_THAT(op.notes, ElementsAre("tensor_core", "nondeterministic", "runtime_compilation"));
  EXPECT_EQ(op.chooser, Chooser::kHeuristic);
  EXPECT_EQ(op.heuristic, "instant, rank 0 of 1");
  EXPECT_EQ(op.workspace_bytes, 4096);
  EXPECT_EQ(op.compute_type, "f32");
  EXPECT_EQ(op.math_mode, "");
  EXPECT_EQ(op.types, "f16");
  ASSERT_EQ(op.tensors.size(), 4u);  // two are virtual, one is a number
  // 2 * outputs * taps; x, w, bias and the result of the last node are in memory.
  EXPECT_EQ(op.flops, 2 * (8 * 16 * 16) * 3);
  EXPECT_EQ(op.bytes, 2 * (8 * 6 * 16 + 16 * 3 + 16 + 8 * 16 * 16));
  ASSERT_TRUE(op.tensor_core);
  EXPECT_TRUE(op.tensor_core->eligible);
  EXPECT_TRUE(op.tensor_core->is_told);
}

TEST(CudnnPlanTest, TheEnginesNotesDecideAboutTensorCores) {
  trace::OpDefinition definition = ParseDefinition(kFusedPlan);
  trace::CudnnPlan* plan = definition.mutable_cudnn()->mutable_plan();
  plan->clear_numerical_note();
  plan->add_numerical_note(5);
  const Op op = DecodeOp(definition);
  EXPECT_FALSE(op.tensor_core->eligible);
  EXPECT_TRUE(op.tensor_core->is_told);
  EXPECT_EQ(op.algorithm, "winograd");
  plan->clear_numerical_note();
  plan->set_engine(-1);
  EXPECT_FALSE(DecodeOp(definition).tensor_core);
  EXPECT_EQ(DecodeOp(definition).algorithm, "");
}

std::string Pointwise(int mode) {
  return "cudnn { operation: 'pointwise' tensor { role: INPUT type: F32 uid: 1 dim: 4 dim: 8 } "
         "tensor { role: OUTPUT type: F32 uid: 2 dim: 4 dim: 8 } plan { engine: 0 node { operation: "
         "'pointwise' mode: 'pointwise:" +
         std::to_string(mode) + "' input_uid: 1 input_uid: 1 output_uid: 2 } } }";
}

TEST(CudnnPlanTest, PointwiseGraphs) {
  const Op relu = DecodeText(Pointwise(100));
  EXPECT_EQ(relu.kind, "eltwise");
  EXPECT_EQ(relu.algorithm, "eltwise_relu");
  EXPECT_EQ(relu.direction, Direction::kForward);
  EXPECT_EQ(relu.problem, "4x8");
  EXPECT_EQ(relu.bytes, 4 * (32 + 32));
  const Op backward = DecodeText(Pointwise(204));
  EXPECT_EQ(backward.direction, Direction::kBackward);
  EXPECT_EQ(backward.algorithm, "binary_gelu_bwd");
  const Op add = DecodeText(Pointwise(0));
  EXPECT_EQ(add.kind, "binary");
  EXPECT_EQ(add.problem, "4x8:4x8");
  EXPECT_EQ(DecodeText(Pointwise(99)).algorithm, "binary_pointwise_99");
}

TEST(CudnnPlanTest, MatmulAndNormalizations) {
  const Op matmul = DecodeText(R"pb(
    cudnn {
      operation: "matmul"
      tensor { role: INPUT type: BF16 uid: 1 dim: 4 dim: 8 dim: 16 stride: 128 stride: 16 stride: 1 }
      tensor { role: INPUT type: BF16 uid: 2 dim: 4 dim: 16 dim: 10 stride: 160 stride: 10 stride: 1 }
      tensor { role: OUTPUT type: BF16 uid: 3 dim: 4 dim: 8 dim: 10 stride: 80 stride: 10 stride: 1 }
      plan {
        engine: 7
        node { operation: "matmul" input_uid: 1 input_uid: 2 output_uid: 3 }
      }
    })pb");
  EXPECT_EQ(matmul.kind, "matmul");
  EXPECT_EQ(matmul.problem, "4x8x16:4x16x10");
  EXPECT_EQ(matmul.flops, 2 * 4 * 8 * 10 * 16);
  EXPECT_EQ(matmul.bytes, 2 * (512 + 640 + 320));
  const auto norm = [](int mode) {  // only the mode, as the shim writes it
    return DecodeText(
        "cudnn { operation: 'normalization_forward' tensor { role: X dim: 2 dim: 3 "
        "dim: 4 dim: 5 } plan { node { operation: 'normalization_forward' mode: '" +
        std::to_string(mode) + "' } } }");
  };
  EXPECT_EQ(norm(0).kind, "layer_normalization");
  EXPECT_EQ(norm(2).kind, "batch_normalization");
  EXPECT_EQ(norm(2).problem, "mb2ic3ih4iw5");
  EXPECT_EQ(norm(4).kind, "rms_normalization");
  EXPECT_EQ(norm(17).kind, "normalization");
}

TEST(CudnnPlanTest, AttentionWrittenOutAsAGraph) {
  const std::string tensors =
      "tensor { role: INPUT type: F16 uid: 1 dim: 2 dim: 4 dim: 64 dim: 32 } "
      "tensor { role: INPUT type: F16 uid: 2 dim: 2 dim: 4 dim: 32 dim: 64 } "
      "tensor { role: OUTPUT type: F32 uid: 3 is_virtual: true dim: 2 dim: 4 dim: 64 dim: 64 } "
      "tensor { role: OUTPUT type: F16 uid: 4 dim: 2 dim: 4 dim: 64 dim: 32 } ";
  const std::string first = "node { operation: 'matmul' input_uid: 1 input_uid: 2 output_uid: 3 } ";
  const std::string exponential = "node { operation: 'pointwise' mode: 'pointwise:13' } ";
  const std::string second = "node { operation: 'matmul' input_uid: 3 input_uid: 1 output_uid: 4 } ";
  const Op op = DecodeText("cudnn { operation: 'matmul' " + tensors + "plan { " + first + exponential + second + "} }");
  EXPECT_EQ(op.kind, "attention");
  EXPECT_EQ(op.direction, Direction::kForward);
  // 2 (2*4) 64 64 32 twice
  EXPECT_EQ(op.flops, 2 * (2 * 8 * 64 * 64 * 32));
  const std::string mask = "node { operation: 'pointwise' mode: 'pointwise:303' } ";  // row >= column
  const Op causal =
      DecodeText("cudnn { operation: 'matmul' " + tensors + "plan { " + first + mask + exponential + second + "} }");
  EXPECT_EQ(causal.flops, 2 * (8 * 64 * 64 * 32));
  EXPECT_EQ(causal.problem, "2x4x64x32 causal");
  const Op backward = DecodeText("cudnn { operation: 'matmul' " + tensors + "plan { " + first + exponential + second +
                                 second + second + second + "} }");
  EXPECT_EQ(backward.direction, Direction::kBackward);
}

TEST(CudnnSearchTest, CandidatesBestFirst) {
  std::string problem(kForward);
  problem = problem.substr(problem.find("cudnn {") + 6);  // "{ … }"
  const Op op = DecodeText(R"pb(function: "cudnnFindConvolutionForwardAlgorithm"
                                family: "cudnn"
                                cudnn_search { measured: true requested: 8 problem)pb" +
                           problem + R"pb(
    candidate { algorithm: 7 status: 3000 }
    candidate { algorithm: 1 time_ns: 120000 workspace_bytes: 64 determinism: 1 math_type: 1 }
    candidate { algorithm: 0 time_ns: 500000 determinism: 0 math_type: 3 } })pb");
  EXPECT_EQ(op.kind, "search");
  EXPECT_EQ(op.subject, "convolution");
  EXPECT_EQ(op.direction, Direction::kForward);
  EXPECT_EQ(op.problem, DecodeText(kForward).problem);
  EXPECT_EQ(op.chooser, Chooser::kProfiled);
  EXPECT_EQ(op.algorithm, "implicit_precomp_gemm");  // the first usable one
  EXPECT_EQ(op.heuristic, "3 of 8 requested");
  ASSERT_EQ(op.candidates.size(), 3u);
  EXPECT_EQ(op.candidates[0].algorithm, "winograd_nonfused");
  EXPECT_EQ(op.candidates[0].status, 3000);
  EXPECT_EQ(op.candidates[1].time_ns, 120000);
  EXPECT_EQ(op.candidates[1].workspace_bytes, 64);
  EXPECT_TRUE(op.candidates[1].is_deterministic);
  EXPECT_EQ(op.candidates[1].math_mode, "tensor_op");
  EXPECT_EQ(op.candidates[2].math_mode, "fma");
  EXPECT_EQ(op.flops, std::nullopt);
  EXPECT_EQ(op.bytes, std::nullopt);
  EXPECT_FALSE(op.is_asynchronous);
}

TEST(CudnnOpTest, TakesAnyNumbers) {
  for (const char* operation : {"convolution_forward", "pooling_backward", "rnn_forward", "matmul", "reduce_tensor",
                                "lrn_forward", "pointwise", "norm_forward"}) {
    for (const char* tensor :
         {"", "tensor { role: X }", "tensor { role: X dim: 1 }",
          "tensor { role: X dim: -1 dim: 0 } tensor { role: W dim: 0 dim: 0 } tensor { role: Y dim: 9 }",
          "tensor { role: X dim: 9223372036854775807 dim: 3 dim: 4 } tensor { role: W dim: 2 dim: "
          "9223372036854775807 dim: 9 } tensor { role: Y dim: 2 dim: 3 dim: 4 }"}) {
      for (const char* plan : {"", "plan { }", "plan { node { } }",
                               "plan { node { operation: 'matmul' input_uid: 0 input_uid: 0 "
                               "output_uid: 0 mode: ':' } }"}) {
        const std::string text = std::string("cudnn { operation: '") + operation + "' " + tensor + " " + plan +
                                 " algorithm: 2147483647 mode: -2147483648 }";
        EXPECT_NE(DecodeText(text).cudnn(), nullptr);
      }
    }
  }
}

}  // namespace
}  // namespace dlhook::analyzer
