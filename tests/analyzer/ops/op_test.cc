// Decoded op definitions: oneDNN lines of several releases, BLAS calls, and unparsable ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/model/onednn_text.h"
#include "analyzer/ops/decode_op.h"
#include "proto/op.pb.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Op Decode(const std::string& line) { return DecodeOp(OneDnnDefinition(line)); }

const Tensor& TensorOf(const Op& op, const std::string& role) {
  for (const Tensor& tensor : op.tensors) {
    if (tensor.role == role) return tensor;
  }
  ADD_FAILURE() << "no tensor " << role;
  static const Tensor none;
  return none;
}

// torch 2.13.0, oneDNN 3.12.
constexpr char kConvolutionLine[] =
    "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,backward_weights,"
    "src:f32:a:blocked:abcd::f0 wei:f32:a:blocked:Acdb16a::f0 bia:f32:a:blocked:a::f0 "
    "dst:f32:a:blocked:aBcd16b::f0,attr-scratchpad:user,alg:convolution_direct,"
    "mb8_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,0.0429688";

TEST(OneDnnOpTest, ReadsEveryFieldOfAConvolution) {
  const Op op = Decode(kConvolutionLine);
  EXPECT_EQ(op.kind, "convolution");
  EXPECT_EQ(op.direction, Direction::kBackwardWeights);
  EXPECT_EQ(op.implementation, "jit:avx512_core");
  EXPECT_EQ(op.algorithm, "convolution_direct");
  EXPECT_EQ(op.problem, "mb8_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1");
  EXPECT_EQ(op.types, "f32");
  EXPECT_EQ(op.function, "onednn:exec");
  EXPECT_FALSE(op.is_creation);
  EXPECT_THAT(op.post_ops, IsEmpty());
  EXPECT_THAT(TensorOf(op, "src").dims, ElementsAre(8, 3, 32, 32));
  EXPECT_THAT(TensorOf(op, "wei").dims, ElementsAre(16, 3, 3, 3));
  EXPECT_THAT(TensorOf(op, "bia").dims, ElementsAre(16));
  EXPECT_THAT(TensorOf(op, "dst").dims, ElementsAre(8, 16, 32, 32));
  EXPECT_EQ(TensorOf(op, "wei").format, "Acdb16a");
  EXPECT_EQ(TensorOf(op, "dst").format, "aBcd16b");
  // 2 * 8 * 16 * 3 * (32*32) * (3*3)
  EXPECT_EQ(op.flops, 7077888);
  // 4 bytes of (8*3*32*32 = 24576) + (16*3*3*3 = 432) + 16 + (8*16*32*32 = 131072)
  EXPECT_EQ(op.bytes, 4 * (24576 + 432 + 16 + 131072));
}

TEST(OneDnnOpTest, AbsentTensorsHaveNoDimsAndCostNothing) {
  const Op op = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,backward_data,"
      "src:f32:a:blocked:aBcd16b::f0 wei:f32:a:blocked:ABcd16a16b::f0 bia:undef::undef::: "
      "dst:f32:a:blocked:aBcd16b::f0,attr-scratchpad:user,alg:convolution_direct,"
      "mb8_ic16oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,1.94995");
  EXPECT_FALSE(TensorOf(op, "bia").defined);
  EXPECT_THAT(TensorOf(op, "bia").dims, IsEmpty());
  EXPECT_EQ(TensorOf(op, "bia").format, "undef");
  EXPECT_EQ(op.direction, Direction::kBackwardData);
  EXPECT_EQ(op.bytes, 4 * (131072 + 16 * 16 * 9 + 131072));
}

TEST(OneDnnOpTest, ReadsTheDescriptorsOfTwoPointX) {
  // Based on v2.4.4's verbose.cpp: role and type joined by "_", one field less, no strides.
  const Op op = Decode(
      "dnnl_verbose,exec,cpu,convolution,jit:avx2,forward_inference,"
      "src_u8::blocked:acdb:f0 wei_s8:p:blocked:ABcd8b8a:f1:s8m1 bia_undef::undef::f0 "
      "dst_s32::blocked:acdb:f0,"
      "attr-oscale:0:0.5 attr-post-ops:eltwise_relu:0.1+sum ,alg:convolution_direct,"
      "g2mb4_ic8oc6_ih5oh3kh3sh1dh0ph0_iw5ow3kw3sw1dw0pw0,0.5");
  EXPECT_EQ(op.types, "u8:s8:s32");
  EXPECT_EQ(TensorOf(op, "src").format, "acdb");
  EXPECT_EQ(TensorOf(op, "wei").format, "ABcd8b8a");
  EXPECT_EQ(TensorOf(op, "wei").strides, "");
  EXPECT_THAT(TensorOf(op, "wei").dims, ElementsAre(2, 3, 4, 3, 3));  // groups x oc/g x ic/g x kh x kw
  EXPECT_FALSE(TensorOf(op, "bia").defined);
  EXPECT_THAT(op.post_ops, ElementsAre("eltwise_relu", "sum"));
  EXPECT_EQ(op.flops, 2 * 4 * 6 * (8 / 2) * (3 * 3) * (3 * 3));
  // u8 source, s8 weights, s32 destination twice: the fused sum reads it.
  EXPECT_EQ(op.bytes, 4 * 8 * 25 + 2 * 3 * 4 * 9 + 2 * 4 * (4 * 6 * 9));
}

TEST(OneDnnOpTest, SecondInterfacesAreTheSameKind) {
  // Debian's oneDNN 2.6.3.
  const Op op = Decode(
      "onednn_verbose,exec,cpu,pooling_v2,jit:avx512_core,forward_training,src_f32::blocked:abcd:f0 "
      "dst_f32::blocked:abcd:f0 ws_u8::blocked:abcd:f0,,alg:pooling_max,"
      "mb2ic8_ih6oh3kh2sh2dh0ph0_iw6ow3kw2sw2dw0pw0,0.00610352");
  EXPECT_EQ(op.kind, "pooling");
  EXPECT_THAT(TensorOf(op, "dst").dims, ElementsAre(2, 8, 3, 3));
}

TEST(OneDnnOpTest, ReadsTheParametersOfOnePointZero) {
  // MXNet 1.6.0's MKL-DNN 1.0.4 (without attributes: the empty field stands for these).
  const Op op = Decode(
      "exec,cpu,eltwise,jit:avx512_common,forward_training,data_f32::blocked:aBcd16b:f0 "
      "diff_undef::undef::f0,,alg:eltwise_relu:0:0,4x16x16x16,0.0241699");
  EXPECT_EQ(op.algorithm, "eltwise_relu");
  EXPECT_THAT(TensorOf(op, "data").dims, ElementsAre(4, 16, 16, 16));
}

TEST(OneDnnOpTest, ReadsTheFormatsOfZeroPointX) {
  // MXNet 1.5.1's MKL-DNN 0.19 (without engine and attributes): formats only, types only for reorders.
  const Op op = Decode(
      "exec,,convolution,jit:avx2,forward_training,fsrc:nChw8c fwei:OIhw8i8o fbia:undef fdst:nChw8c,,"
      "alg:convolution_direct,mb4_ic8oc16_ih16oh16kh3sh1dh0ph1_iw16ow16kw3sw1dw0pw1,0.0571289");
  EXPECT_EQ(op.direction, Direction::kForward);
  EXPECT_EQ(op.flops, 2 * 4 * 16 * 8 * (16 * 16) * (3 * 3));
  EXPECT_EQ(op.bytes, std::nullopt);  // without types
  EXPECT_EQ(TensorOf(op, "src").format, "nChw8c");
  EXPECT_THAT(TensorOf(op, "wei").dims, ElementsAre(16, 8, 3, 3));
  EXPECT_FALSE(TensorOf(op, "bia").defined);
  const Op reorder = Decode("exec,,reorder,jit:uni,undef,in:f32_nchw out:f32_nChw8c,,num:1,4x8x16x16,0.019043");
  EXPECT_EQ(reorder.types, "f32");
  EXPECT_EQ(TensorOf(reorder, "src").format, "nchw");
  EXPECT_EQ(TensorOf(reorder, "dst").format, "nChw8c");
  EXPECT_THAT(TensorOf(reorder, "dst").dims, ElementsAre(4, 8, 16, 16));
}

TEST(OneDnnOpTest, ReadsTheDescriptorsOfThreePointFive) {
  // v3.5: role and type still joined, already with strides.
  const std::vector<Tensor> tensors = ParseMemoryDescriptors(
      "src_f32::blocked:abc:1024x32x1:f0 wei_bf16:a:blocked:acb::f0 "
      "diff_dst_f8_e5m2::blocked:ab::f0");
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].role, "src");
  EXPECT_EQ(tensors[0].strides, "1024x32x1");
  EXPECT_EQ(tensors[1].type, "bf16");
  EXPECT_EQ(tensors[1].strides, "");
  EXPECT_EQ(tensors[2].role, "diff_dst");
  EXPECT_EQ(tensors[2].type, "f8_e5m2");
}

TEST(OneDnnOpTest, KeepsFormatsThatAreNoTags) {
  const std::vector<Tensor> tensors = ParseMemoryDescriptors(
      "src:f32::any:any:f0 wei:s8:ap:wino:::f0 msk:u8::sparse:csr:f0 dst:f32::blocked:*::f0 "
      "what_is_this");
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_EQ(tensors[0].format, "any");
  EXPECT_EQ(tensors[1].format, "wino");
  EXPECT_EQ(tensors[2].format, "csr");
  EXPECT_EQ(tensors[3].format, "*");
  EXPECT_EQ(tensors[4].role, "what_is_this");
  EXPECT_TRUE(tensors[4].defined);
}

TEST(OneDnnOpTest, OneAndThreeDimensions) {
  const Op one = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,convolution,ref:any,forward_training,src:f32::blocked:"
      "abc::f0 "
      "wei:f32::blocked:abc::f0 bia:undef::undef::: "
      "dst:f32::blocked:abc::f0,,alg:convolution_direct,"
      "mb4_ic8oc16_iw32ow30kw3sw1dw0pw0,1");
  EXPECT_THAT(TensorOf(one, "dst").dims, ElementsAre(4, 16, 30));
  EXPECT_THAT(TensorOf(one, "wei").dims, ElementsAre(16, 8, 3));
  EXPECT_EQ(one.flops, 2 * 4 * 16 * 8 * 30 * 3);
  const Op three = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,"
      "src:f32:a:blocked:abcde::f0 wei:f32:a:blocked:Acdeb16a::f0 bia:f32:a:blocked:a::f0 "
      "dst:f32:a:blocked:aBcde16b::f0,attr-scratchpad:user,alg:convolution_direct,"
      "mb2_ic8oc16_id6od4kd3sd1dd0pd0_ih6oh4kh3sh1dh0ph0_iw6ow4kw3sw1dw0pw0,0.0400391");
  EXPECT_THAT(TensorOf(three, "src").dims, ElementsAre(2, 8, 6, 6, 6));
  EXPECT_EQ(three.flops, 2ll * 2 * 16 * 8 * 64 * 27);
}

TEST(OneDnnOpTest, DeconvolutionCountsThePointsOfItsInput) {
  const Op op = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,deconvolution,conv:any+brgconv_strided:avx512_core,"
      "forward_training,"
      "src:f32:a:blocked:acdb::f0 wei:f32:ap:blocked:Acdb16a::f0 bia:f32:a:blocked:a::f0 "
      "dst:f32:a:blocked:acdb::f0,attr-scratchpad:user,alg:deconvolution_direct,"
      "mb4_ic8oc4_ih16oh33kh3sh2dh0ph0_iw16ow33kw3sw2dw0pw0,1.104");
  EXPECT_THAT(TensorOf(op, "dst").dims, ElementsAre(4, 4, 33, 33));
  EXPECT_EQ(op.flops, 2 * 4 * 4 * 8 * (16 * 16) * (3 * 3));
}

TEST(OneDnnOpTest, MatMulWithBatchBroadcastAndBiasMask) {
  const Op op = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core,undef,src:bf16::blocked:"
      "abc::f0 "
      "wei:bf16::blocked:acb::f0 bia:f32::blocked:abc::f0_mask4 dst:f32::blocked:abc::f0,"
      "attr-scratchpad:user "
      "attr-post-ops:binary_add:f32:2+eltwise_clip:0:1e+06+sum:1,,4x8x16:1x16x10,0.01");
  EXPECT_EQ(op.direction, Direction::kUnknown);
  EXPECT_EQ(op.types, "bf16:bf16:f32");
  EXPECT_THAT(TensorOf(op, "dst").dims, ElementsAre(4, 8, 10));
  EXPECT_EQ(op.flops, 2 * 4 * 8 * 10 * 16);
  EXPECT_THAT(op.post_ops, ElementsAre("binary_add", "eltwise_clip", "sum"));
  EXPECT_EQ(op.bytes, std::nullopt);  // the bias's dims are not known
}

TEST(OneDnnOpTest, GemmApiOfTheLog) {
  // src/common/gemm.cpp of v3.7.1: descriptors as in 2.x, MxK:KxN.
  const Op op = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,gemm_api,,undef,src_f32::blocked:ab:f0 "
      "wei_f32::blocked:ba:f0 "
      "dst_f32::blocked:ab:f0,lda:64 attr-post-ops:sum:1 ,,32x48:48x10,0.00195312");
  EXPECT_EQ(op.kind, "gemm_api");
  EXPECT_EQ(op.implementation, "");
  EXPECT_EQ(op.flops, 2 * 32 * 48 * 10);
  EXPECT_EQ(op.bytes, 4 * (32 * 48 + 48 * 10 + 2 * 32 * 10));
}

TEST(OneDnnOpTest, InnerProductWithSpatialInput) {
  const Op op = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,inner_product,brgemm:avx512_core,backward_weights,"
      "src:f32:a:blocked:abcd::f0 wei:f32:a:blocked:abcd::f0 bia:f32:a:blocked:a::f0 "
      "dst:f32:a:blocked:ab::f0,"
      "attr-scratchpad:user,,mb64ic16ih5iw5oc120,0.1");
  EXPECT_THAT(TensorOf(op, "src").dims, ElementsAre(64, 16, 5, 5));
  EXPECT_THAT(TensorOf(op, "wei").dims, ElementsAre(120, 16, 5, 5));
  EXPECT_THAT(TensorOf(op, "dst").dims, ElementsAre(64, 120));
  EXPECT_EQ(op.flops, 2 * 64 * 120 * 400);
}

TEST(OneDnnOpTest, ElementwiseAndNormalizationReadAndWrite) {
  const Op relu = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,eltwise,jit:avx512_core_bf16,forward_training,"
      "data:f32::blocked:abcd::f0,attr-scratchpad:user,alg:eltwise_relu alpha:0 "
      "beta:0,4x8x16x16,0.0539551");
  EXPECT_EQ(relu.algorithm, "eltwise_relu");
  EXPECT_THAT(TensorOf(relu, "data").dims, ElementsAre(4, 8, 16, 16));
  EXPECT_EQ(relu.flops, std::nullopt);
  EXPECT_EQ(relu.bytes, 2 * 4 * 8192);
  const Op norm = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,batch_normalization,bnorm_jit:avx512_core,backward,"
      "data:f32::blocked:aBcd16b::f0 diff:f32::blocked:aBcd16b::f0,attr-scratchpad:user,flags:GCH,"
      "mb4ic16ih14iw14,0.243896");
  EXPECT_EQ(norm.direction, Direction::kBackward);
  EXPECT_EQ(norm.bytes, 3 * 4 * (4 * 16 * 14 * 14));
  const Op layer = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,layer_normalization,jit:avx512_core,forward_training,"
      "src:bf16::blocked:abc::f0 dst:bf16::blocked:abc::f0 stats:f32::blocked:ab::f0 "
      "scale:f32::blocked:a::f0 "
      "shift:f32::blocked:a::f0,attr-scratchpad:user,flags:CH,2x128x768,0.02");
  EXPECT_EQ(layer.bytes, 2 * 2 * (2 * 128 * 768) + 4 * (2 * 128) + 2 * 4 * 768);
}

TEST(OneDnnOpTest, PoolingSoftmaxConcatSumBinaryReductionShuffleLrnPrelu) {
  const Op pool = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,pooling,jit:avx512_core,forward_training,src:f32::"
      "blocked:abcd::f0 "
      "dst:f32:a:blocked:abcd::f0 ws:u8::blocked:abcd::f0,attr-scratchpad:user,alg:pooling_max,"
      "mb4ic8_ih16oh8kh2sh2dh0ph0_iw16ow8kw2sw2dw0pw0,0.181885");
  EXPECT_THAT(TensorOf(pool, "dst").dims, ElementsAre(4, 8, 8, 8));
  EXPECT_EQ(pool.bytes, 4 * 8192 + 4 * 2048 + 2048);
  const Op softmax = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,softmax,jit:avx512_core_bf16,forward_training,src:f32::"
      "blocked:abcd::f0 "
      "dst:f32::blocked:abcd::f0,attr-scratchpad:user,alg:softmax_accurate "
      "axis:1,4x8x16x16,0.0131836");
  EXPECT_EQ(softmax.algorithm, "softmax_accurate");
  EXPECT_EQ(softmax.bytes, 2 * 4 * 8192);
  const Op concat = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,concat,simple:any,undef,src:f32::blocked:abcd::f0 "
      "src:f32::blocked:abcd::f0 dst:f32::blocked:abcd::f0,,axis:1,4x8x2x2:4x24x2x2,0.1");
  EXPECT_THAT(concat.tensors[1].dims, ElementsAre(4, 24, 2, 2));
  EXPECT_THAT(TensorOf(concat, "dst").dims, ElementsAre(4, 32, 2, 2));
  const Op sum = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,sum,jit:avx512_core,undef,src:f32::blocked:ab::f0 "
      "src:f32::blocked:ab::f0 src:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,,,8x16,0.1");
  EXPECT_EQ(sum.bytes, 4 * 4 * 128);
  const Op binary = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,binary,jit:uni,undef,src:f32::blocked:abcd::f0 "
      "src:f32::blocked:abcd::f0 "
      "dst:f32::blocked:abcd::f0,,alg:binary_add,2x8x4x4:1x8x1x1,0.1");
  EXPECT_THAT(TensorOf(binary, "dst").dims, ElementsAre(2, 8, 4, 4));
  EXPECT_EQ(binary.bytes, 4 * (256 + 8 + 256));
  const Op reduction = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,reduction,jit:avx512_core,undef,src:f32::blocked:ab::"
      "f0 "
      "dst:f32::blocked:ab::f0,,alg:reduction_sum p:0 eps:0,128x32:1x32,0.1");
  EXPECT_THAT(TensorOf(reduction, "dst").dims, ElementsAre(1, 32));
  const Op shuffle = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,shuffle,ref:any,forward_training,data:f32::blocked:"
      "abcd::f0,,"
      "axis:1 group:4,2x16x4x4,0.1");
  EXPECT_EQ(shuffle.bytes, 2 * 4 * 512);
  const Op lrn = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,lrn,jit:avx512_core,forward_training,data:f32::blocked:"
      "aBcd16b::f0,,"
      "alg:lrn_across_channels,mb2ic96ih55iw55ls5beta0.75,0.1");
  EXPECT_THAT(TensorOf(lrn, "data").dims, ElementsAre(2, 96, 55, 55));
  const Op prelu = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,prelu,jit:uni,forward_training,data:f32::blocked:abcd::"
      "f0 "
      "wei:f32::blocked:abcd::f0,,,2x8x4x4:1x8x1x1,0.1");
  EXPECT_THAT(TensorOf(prelu, "wei").dims, ElementsAre(1, 8, 1, 1));
}

TEST(OneDnnOpTest, RecurrentNetwork) {
  const Op op = Decode(
      "onednn_verbose,v1,primitive,exec,cpu,rnn,brgemm:avx512_core,forward_inference,"
      "src_layer:f32::blocked:abc::f0 src_iter:f32::blocked:abcd::f0 "
      "wei_layer:f32:ap:blocked:abdEc32e::f0 "
      "wei_iter:f32:ap:blocked:abdEc32e::f0 bias:f32::blocked:abcd::f0 "
      "dst_layer:f32::blocked:abc::f0 "
      "dst_iter:f32::blocked:abcd::f0,attr-scratchpad:user,alg:vanilla_lstm "
      "direction:unidirectional_left2right "
      "activation:undef flags:,l1t5mb2sic16slc16dhc16dic16,0.3479");
  EXPECT_EQ(op.algorithm, "vanilla_lstm");
  EXPECT_THAT(TensorOf(op, "wei_layer").dims, ElementsAre(1, 1, 16, 4, 16));
  EXPECT_EQ(op.flops,
            2 * 5 * (4 * 16) * 2 * (16 + 16));  // 2 * cells * gates dhc * mb * (sic + slc)
}

TEST(OneDnnOpTest, CreationsComputeNothing) {
  std::string line(kConvolutionLine);
  line.replace(line.find("exec"), 4, "create:cache_miss");
  const Op miss = Decode(line);
  EXPECT_TRUE(miss.is_creation);
  EXPECT_FALSE(miss.cache_hit);
  EXPECT_EQ(miss.kind, "convolution");
  EXPECT_EQ(miss.flops, std::nullopt);
  line.replace(line.find("cache_miss"), 10, "cache_hit");
  EXPECT_TRUE(Decode(line).cache_hit);
}

TEST(OneDnnOpTest, UnknownPrimitivesAndTextSurvive) {
  trace::OpDefinition definition;
  definition.mutable_onednn()->set_primitive("quantum_attention");
  definition.mutable_onednn()->set_problem("what:ever 12");
  definition.mutable_onednn()->set_memory_descriptors("qry:f32:weird");
  const Op op = DecodeOp(definition);
  EXPECT_EQ(op.kind, "quantum_attention");
  EXPECT_EQ(op.problem, "what:ever 12");
  EXPECT_EQ(op.flops, std::nullopt);
  EXPECT_EQ(op.onednn()->problem, "what:ever 12");

  trace::OpDefinition other;
  other.mutable_onednn()->set_other("graph,exec,cpu,100002,convolution_post_ops");
  EXPECT_EQ(DecodeOp(other).problem, "graph,exec,cpu,100002,convolution_post_ops");
}

TEST(OneDnnOpTest, AnyTextIsTolerated) {
  for (const char* text : {"", ":", "::", "mb", "mb-", "mb9999999999999999999", "x", "1x", "*x*:3x4",
                           "g0mb1_ic1oc1_iw1ow1kw1", "1x2:3x4:5x6", "mb1ic1", "-", "é"}) {
    for (const char* primitive :
         {"convolution", "deconvolution", "pooling", "inner_product", "matmul", "eltwise", "concat", "binary",
          "reduction", "prelu", "rnn", "layer_normalization", "softmax", "reorder"}) {
      trace::OpDefinition definition;
      definition.mutable_onednn()->set_primitive(primitive);
      definition.mutable_onednn()->set_problem(text);
      definition.mutable_onednn()->set_memory_descriptors(text);
      definition.mutable_onednn()->set_attributes(std::string("attr-post-ops:") + text);
      definition.mutable_onednn()->set_auxiliary(std::string("axis:") + text);
      EXPECT_EQ(DecodeOp(definition).onednn()->problem, text);
    }
  }
}

TEST(OneDnnTextTest, PostOpsOfAllReleases) {
  EXPECT_THAT(ParsePostOps("attr-scratchpad:user attr-post-ops:eltwise_relu+binary_add:f32:2:abcd"),
              ElementsAre("eltwise_relu", "binary_add"));
  EXPECT_THAT(ParsePostOps("post_ops:'sum;eltwise_relu:0.5:1;';"), ElementsAre("sum", "eltwise_relu"));
  EXPECT_THAT(ParsePostOps("attr-post-ops:'eltwise_relu;'"), ElementsAre("eltwise_relu"));
  EXPECT_THAT(ParsePostOps("attr-post-ops:dw:k3s1p1+prelu:2"), ElementsAre("dw", "prelu"));
  EXPECT_THAT(ParsePostOps("attr-scratchpad:user"), IsEmpty());
}

TEST(GemmOpTest, SaysShapeTransposesAndType) {
  const Op op = DecodeOp(GemmDefinition(120, 64, 256, "TN"));
  EXPECT_EQ(op.kind, "gemm");
  EXPECT_EQ(op.problem, "m120 n64 k256 TN f32");
  EXPECT_EQ(op.types, "f32");
  EXPECT_EQ(op.function, "sgemm_");
  EXPECT_EQ(op.flops, 2 * 120 * 64 * 256);
}

TEST(GemmOpTest, MixedTypesBatchesAndRowMajor) {
  trace::OpDefinition definition = GemmDefinition(8, 4, 2, "NN", "cblas_gemm_s8u8s32");
  trace::Gemm* gemm = definition.mutable_gemm();
  gemm->set_a_type(trace::S8);
  gemm->set_b_type(trace::U8);
  gemm->set_c_type(trace::S32);
  gemm->set_batch(10);
  gemm->set_row_major(true);
  const Op op = DecodeOp(definition);
  EXPECT_EQ(op.types, "s8:u8:s32");
  EXPECT_EQ(op.problem, "m8 n4 k2 NN s8:u8:s32 batch10 row-major");
}

TEST(MatrixOpTest, NamesItsArguments) {
  trace::OpDefinition definition;
  definition.set_function("dtrsm_");
  trace::MatrixOp* matrix = definition.mutable_matrix();
  matrix->set_kind(trace::MatrixOp::TRSM);
  matrix->set_type(trace::F64);
  matrix->set_side("L");
  matrix->set_uplo("U");
  matrix->set_trans("N");
  matrix->set_diag("N");
  matrix->set_m(6);
  matrix->set_n(4);
  const Op op = DecodeOp(definition);
  EXPECT_EQ(op.kind, "trsm");
  EXPECT_EQ(op.problem, "m6 n4 L U N N f64");
}

TEST(TimedOpTest, TheFunctionIsAllThatIsKnown) {
  trace::OpDefinition definition;
  definition.set_function("cblas_saxpy");
  const Op op = DecodeOp(definition);
  EXPECT_EQ(op.kind, "call");
  EXPECT_EQ(op.problem, "cblas_saxpy");
  EXPECT_EQ(op.flops, std::nullopt);
}

// What LIBXSMM's calls were in traces of earlier releases: a field and a kind of product that are no longer known.
TEST(OldTraceTest, WhatIsNoLongerKnownIsACallOfItsName) {
  trace::OpDefinition layer, lookup;
  layer.set_function("libxsmm_dnn_execute_st");
  std::string bytes = layer.SerializeAsString();
  bytes.append("\x82\x01\x04\x08\x01\x10\x01", 7);  // field 16, a message
  ASSERT_TRUE(layer.ParseFromString(bytes));
  lookup.set_function("libxsmm_smmdispatch");
  lookup.mutable_gemm()->set_m(16);
  lookup.mutable_gemm()->set_n(12);
  lookup.mutable_gemm()->set_k(10);
  lookup.mutable_gemm()->set_kind(static_cast<trace::Gemm::Kind>(8));
  for (const trace::OpDefinition& definition : {layer, lookup}) {
    const Op op = DecodeOp(definition);
    EXPECT_EQ(op.kind, "call");
    EXPECT_EQ(op.problem, definition.function());
    EXPECT_EQ(op.flops, std::nullopt);
    EXPECT_EQ(op.gemm(), nullptr);
  }
}

}  // namespace
}  // namespace dlhook::analyzer
