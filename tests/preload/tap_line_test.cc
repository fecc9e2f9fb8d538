// Lines as printed by MKL-DNN 0.x and oneDNN 1.x to 3.x (copied from real runs), split by the template line.
#include "preload/format/tap_line.h"

#include <gtest/gtest.h>
#include <string.h>

#include <deque>
#include <string>

namespace dlhook {
namespace tap_line_test {

constexpr char kTemplate3[] =
    "operation,engine,primitive,implementation,prop_kind,memory_descriptors,attributes,auxiliary,problem_desc,exec_"
    "time";

std::string Field(const TapLine& line, OneDnnField field) { return {line.fields[field].data, line.fields[field].size}; }
std::string Identity(const TapLine& line) { return {line.identity.data, line.identity.size}; }
// The fields of a TapLine point into the text, which therefore stays alive.
TapLine Parse(const std::string& text, const char* fields = kTemplate3) {
  static std::deque<std::string> texts;
  texts.push_back(text);
  return ParseTapLine(texts.back().data(), texts.back().size(), fields);
}

constexpr char kExec3[] =
    "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,backward_weights,src:f32:a:blocked:abcd::f0 "
    "wei:f32:a:blocked:Acdb16a::f0 bia:f32:a:blocked:a::f0 dst:f32:a:blocked:aBcd16b::f0,attr-scratchpad:user,"
    "alg:convolution_direct,mb8_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,0.0429688\n";

TEST(TapLineTest, ExecutionOf3x) {
  const TapLine line = Parse(kExec3);
  ASSERT_TRUE(line.is_call);
  EXPECT_EQ(line.duration_ns, 42969u);
  EXPECT_EQ(Field(line, kOperation), "exec");
  EXPECT_EQ(Field(line, kEngine), "cpu");
  EXPECT_EQ(Field(line, kPrimitive), "convolution");
  EXPECT_EQ(Field(line, kImplementation), "jit:avx512_core");
  EXPECT_EQ(Field(line, kPropKind), "backward_weights");
  EXPECT_EQ(Field(line, kAttributes), "attr-scratchpad:user");
  EXPECT_EQ(Field(line, kAuxiliary), "alg:convolution_direct");
  EXPECT_EQ(Field(line, kProblem), "mb8_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1");
  EXPECT_EQ(Field(line, kMemoryDescriptors).substr(0, 24), "src:f32:a:blocked:abcd::");
}

// ONEDNN_VERBOSE_TIMESTAMP=1: 3.12 writes it after the version and names it in its template, 2.x before the operation.
TEST(TapLineTest, TimestampIsNoPartOfTheIdentity) {
  const std::string template3 = std::string("timestamp,") + kTemplate3;
  for (const char* before : {"onednn_verbose,v1", "onednn_verbose"}) {
    std::string with = kExec3;
    with.insert(strlen(before), ",1795276415973.029053");
    const TapLine line = Parse(with, template3.c_str());
    ASSERT_TRUE(line.is_call);
    EXPECT_EQ(Identity(line), Identity(Parse(kExec3)));
    EXPECT_EQ(Field(line, kOperation), "exec");
    EXPECT_EQ(Field(line, kPrimitive), "convolution");
    EXPECT_EQ(Field(line, kOther), "");
  }
}

TEST(TapLineTest, CreationWithItsCacheState) {
  const TapLine line = Parse(
      "onednn_verbose,v1,primitive,create:cache_miss,cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 "
      "dst:f32::blocked:Acdb16a::f0,attr-scratchpad:user,,16x3x3x3,0.307861");
  ASSERT_TRUE(line.is_call);
  EXPECT_EQ(Field(line, kOperation), "create:cache_miss");
  EXPECT_EQ(Field(line, kAuxiliary), "");
  EXPECT_EQ(line.duration_ns, 307861u);
}

TEST(TapLineTest, Lines2x) {
  const TapLine line = Parse(
      "dnnl_verbose,exec,cpu,inner_product,gemm:jit,forward_inference,src_f32::blocked:ab:f0 wei_f32::blocked:ab:f0 "
      "bia_f32::blocked:a:f0 dst_f32::blocked:ab:f0,,,mb32ic84oc10,0.00585938",
      "");
  ASSERT_TRUE(line.is_call);
  EXPECT_EQ(Field(line, kPrimitive), "inner_product");
  EXPECT_EQ(Field(line, kProblem), "mb32ic84oc10");
  EXPECT_EQ(line.duration_ns, 5859u);
}

// Releases without a template; lines of the MXNet wheels 1.7.0 (DNNL 1.3.0), 1.6.0 (MKL-DNN 1.0.4), 1.5.1 (MKL-DNN
// 0.19).
TEST(TapLineTest, Lines1x) {
  const TapLine line = Parse(
      "dnnl_verbose,create,cpu,convolution,jit:avx512_common,forward_training,src_f32::blocked:abcd:f0 "
      "wei_f32::blocked:Acdb16a:f0 bia_f32::blocked:a:f0 dst_f32::blocked:aBcd16b:f0,,alg:convolution_direct,"
      "mb4_ic8oc16_ih16oh16kh3sh1dh0ph1_iw16ow16kw3sw1dw0pw1,0.14502\n",
      "");
  ASSERT_TRUE(line.is_call);
  EXPECT_EQ(line.duration_ns, 145020u);
  EXPECT_EQ(Field(line, kOperation), "create");
  EXPECT_EQ(Field(line, kEngine), "cpu");
  EXPECT_EQ(Field(line, kPropKind), "forward_training");
  EXPECT_EQ(Field(line, kAttributes), "");
  EXPECT_EQ(Field(line, kAuxiliary), "alg:convolution_direct");
  EXPECT_EQ(Field(line, kProblem), "mb4_ic8oc16_ih16oh16kh3sh1dh0ph1_iw16ow16kw3sw1dw0pw1");
}

TEST(TapLineTest, Lines10HaveNoAttributes) {
  const TapLine line = Parse(
      "mkldnn_verbose,exec,cpu,eltwise,jit:avx512_common,forward_training,data_f32::blocked:aBcd16b:f0 "
      "diff_undef::undef::f0,alg:eltwise_relu:0:0,4x16x16x16,0.0241699",
      "");
  ASSERT_TRUE(line.is_call);
  EXPECT_EQ(Field(line, kEngine), "cpu");
  EXPECT_EQ(Field(line, kPrimitive), "eltwise");
  EXPECT_EQ(Field(line, kMemoryDescriptors), "data_f32::blocked:aBcd16b:f0 diff_undef::undef::f0");
  EXPECT_EQ(Field(line, kAttributes), "");
  EXPECT_EQ(Field(line, kAuxiliary), "alg:eltwise_relu:0:0");
  EXPECT_EQ(Field(line, kProblem), "4x16x16x16");
}

TEST(TapLineTest, Lines0xHaveNoEngineEither) {
  const TapLine line = Parse(
      "mkldnn_verbose,exec,inner_product,gemm:blas,forward_training,fsrc:nc fwei:oi fbia:x "
      "fdst:nc,,mb4ic1024oc10,7.30713",
      "");
  ASSERT_TRUE(line.is_call);
  EXPECT_EQ(Field(line, kOperation), "exec");
  EXPECT_EQ(Field(line, kEngine), "");
  EXPECT_EQ(Field(line, kPrimitive), "inner_product");
  EXPECT_EQ(Field(line, kImplementation), "gemm:blas");
  EXPECT_EQ(Field(line, kPropKind), "forward_training");
  EXPECT_EQ(Field(line, kMemoryDescriptors), "fsrc:nc fwei:oi fbia:x fdst:nc");
  EXPECT_EQ(Field(line, kAuxiliary), "");
  EXPECT_EQ(Field(line, kProblem), "mb4ic1024oc10");
  EXPECT_EQ(Field(line, kOther), "");
}

TEST(TapLineTest, ATemplateInAnotherOrderIsFollowed) {
  const TapLine line =
      Parse("onednn_verbose,exec,matmul,cpu,8x16:16x10,1.5", "operation,primitive,engine,problem_desc,exec_time");
  ASSERT_TRUE(line.is_call);
  EXPECT_EQ(Field(line, kPrimitive), "matmul");
  EXPECT_EQ(Field(line, kEngine), "cpu");
  EXPECT_EQ(Field(line, kProblem), "8x16:16x10");
  EXPECT_EQ(line.duration_ns, 1500000u);
}

TEST(TapLineTest, WhatFitsNoTemplateKeepsItsText) {
  const TapLine line = Parse("onednn_verbose,v1,graph,exec,cpu,100002,matmul_post_ops,a;b;c,,fpm:strict,x,y,0.25");
  ASSERT_TRUE(line.is_call);
  EXPECT_EQ(Field(line, kOperation), "exec");
  EXPECT_EQ(Field(line, kPrimitive), "graph");
  EXPECT_EQ(Field(line, kOther), "cpu,100002,matmul_post_ops,a;b;c,,fpm:strict,x,y");
  EXPECT_EQ(line.duration_ns, 250000u);
}

TEST(TapLineTest, SmallTimesInExponentForm) {
  EXPECT_EQ(Parse("onednn_verbose,exec,x,9.76562e-05", "operation,primitive,exec_time").duration_ns, 98u);
  EXPECT_EQ(Parse("onednn_verbose,exec,x,0", "operation,primitive,exec_time").duration_ns, 0u);
  EXPECT_EQ(Parse("onednn_verbose,exec,x,1.5e+03", "operation,primitive,exec_time").duration_ns, 1500000000u);
}

TEST(TapLineTest, NoCalls) {
  EXPECT_FALSE(Parse("onednn_verbose,v1,info,oneDNN v3.12.0 (commit 80afa7)").is_call);
  EXPECT_FALSE(Parse("onednn_verbose,v1,primitive,info,template:operation,engine").is_call);
  EXPECT_FALSE(Parse("onednn_verbose,v1,primitive,create:dispatch,matmul,cpu,unsupported").is_call);
  EXPECT_FALSE(Parse("onednn_verbose").is_call);
  EXPECT_FALSE(Parse("").is_call);
  EXPECT_FALSE(Parse("onednn_verbose,exec").is_call);
  EXPECT_FALSE(Parse("onednn_verbose,exec,cpu,x,notatime").is_call);
}

}  // namespace tap_line_test
}  // namespace dlhook
