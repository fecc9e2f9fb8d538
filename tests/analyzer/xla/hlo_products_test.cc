// What dots and convolutions of XLA's compute, in the words of oneDNN's log.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "analyzer/xla/xla_profiles.h"
#include "proto/xla.pb.h"

namespace dlhook::analyzer {
namespace {

template <typename Message>
Message Read(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

dlhook::xla::Shape F32(const std::string& dimensions, const std::string& layout = "") {
  return Read<dlhook::xla::Shape>("element_type: 11 dimensions: [" + dimensions + "] layout { minor_to_major: [" +
                                  layout + "] }");
}

XlaProduct Dot(const std::string& text, const dlhook::xla::Shape& left, const dlhook::xla::Shape& right) {
  return ProductOfDot(Read<dlhook::xla::HloInstruction>("shape { element_type: 11 } " + text), left, right);
}

TEST(HloProductsTest, Dots) {
  const XlaProduct product =
      Dot("dot_dimension_numbers { lhs_contracting_dimensions: 1 rhs_contracting_dimensions: 0 }", F32("504, 128"),
          F32("128, 1000"));
  EXPECT_EQ(product.primitive, "matmul");
  EXPECT_EQ(product.problem, "504x128:128x1000");
  EXPECT_EQ(product.tensors, "src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0");
}

// x^T y^T, and the same product of operands that lie the other way round.
TEST(HloProductsTest, TransposedDots) {
  const std::string numbers = "dot_dimension_numbers { lhs_contracting_dimensions: 0 rhs_contracting_dimensions: 1 }";
  const XlaProduct product = Dot(numbers, F32("504, 128"), F32("1000, 504"));
  EXPECT_EQ(product.problem, "128x504:504x1000");
  EXPECT_EQ(product.tensors, "src:f32::blocked:ba::f0 wei:f32::blocked:ba::f0 dst:f32::blocked:ab::f0");
  EXPECT_EQ(Dot(numbers, F32("504, 128", "0, 1"), F32("1000, 504", "0, 1")).tensors,
            "src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0");
}

// bqhd,bkhd->bhqk, and sums over two dimensions.
TEST(HloProductsTest, DotsWithSeveralDimensions) {
  EXPECT_EQ(Dot("dot_dimension_numbers { lhs_batch_dimensions: [0, 2] rhs_batch_dimensions: [0, 2] "
                "lhs_contracting_dimensions: 3 rhs_contracting_dimensions: 3 }",
                F32("8, 63, 4, 32"), F32("8, 61, 4, 32"))
                .problem,
            "32x63x32:32x32x61");
  EXPECT_EQ(Dot("dot_dimension_numbers { lhs_contracting_dimensions: [0, 1] rhs_contracting_dimensions: [0, 1] }",
                F32("8, 63, 128"), F32("8, 63, 512"))
                .problem,
            "128x504:504x512");
  EXPECT_EQ(Dot("dot_dimension_numbers { lhs_contracting_dimensions: 1 rhs_contracting_dimensions: 0 }", F32("5, 7"),
                F32("7"))
                .problem,
            "5x7:7x1");
}

TEST(HloProductsTest, DamagedDots) {
  for (const char* numbers : {"lhs_contracting_dimensions: 9 rhs_contracting_dimensions: 0",
                              "lhs_contracting_dimensions: -1 rhs_contracting_dimensions: 0",
                              "lhs_contracting_dimensions: 0 rhs_contracting_dimensions: 0"}) {
    EXPECT_EQ(Dot("dot_dimension_numbers {" + std::string(numbers) + "}", F32("5, 7"), F32("7, 5")).primitive, "");
  }
}

// b01f_01io->b01f
constexpr char kNumbers[] = R"(convolution_dimension_numbers {
  input_batch_dimension: 0 input_spatial_dimensions: [1, 2] input_feature_dimension: 3
  kernel_spatial_dimensions: [0, 1] kernel_input_feature_dimension: 2 kernel_output_feature_dimension: 3
  output_batch_dimension: 0 output_spatial_dimensions: [1, 2] output_feature_dimension: 3 } )";

std::string Window(const std::string& axis) { return "window { dimensions {" + axis + "} dimensions {" + axis + "} }"; }

XlaProduct Convolution(const std::string& result, const std::string& text, const std::string& left,
                       const std::string& right, CompiledPass pass = CompiledPass::kForward) {
  return ProductOfConvolution(
      Read<dlhook::xla::HloInstruction>("shape { element_type: 11 dimensions: [" + result + "] } " + kNumbers + text),
      F32(left), F32(right), pass);
}

TEST(HloProductsTest, Convolutions) {
  const XlaProduct product =
      Convolution("16, 8, 8, 64", Window("size: 3 stride: 2 window_dilation: 1 base_dilation: 1"), "16, 16, 16, 32",
                  "3, 3, 32, 64");
  EXPECT_EQ(product.primitive, "convolution");
  EXPECT_EQ(product.problem, "mb16_ic32oc64_ih16oh8kh3sh2dh0ph0_iw16ow8kw3sw2dw0pw0");
  EXPECT_EQ(product.tensors, "src:f32::blocked:acdb::f0 wei:f32::blocked:cdba::f0 dst:f32::blocked:acdb::f0");
}

TEST(HloProductsTest, GroupsAndDilations) {
  EXPECT_EQ(Convolution("2, 6, 6, 8",
                        Window("size: 3 stride: 1 window_dilation: 2 base_dilation: 1") + " feature_group_count: 4",
                        "2, 10, 10, 4", "3, 3, 1, 8")
                .problem,
            "g4mb2_ic4oc8_ih10oh6kh3sh1dh1ph0_iw10ow6kw3sw1dw1pw0");
  // The gradient of the weights of a convolution with 4 groups: images as channels, channels as groups of images.
  EXPECT_EQ(Convolution("1, 3, 3, 8",
                        Window("size: 8 stride: 1 window_dilation: 1 base_dilation: 1") + " batch_group_count: 4",
                        "4, 10, 10, 2", "8, 8, 2, 8", CompiledPass::kBackward)
                .problem,
            "g4mb1_ic8oc8_ih10oh3kh8sh1dh0ph0_iw10ow3kw8sw1dw0pw0");
}

// The gradient of the input of a convolution of 16x16 points with stride 2: XLA puts zeros between those of 8x8.
TEST(HloProductsTest, ZerosInBetweenAreNoWork) {
  const std::string window = Window("size: 3 stride: 1 padding_low: 2 window_dilation: 1 base_dilation: 2");
  const XlaProduct gradient =
      Convolution("16, 16, 16, 32", window, "16, 8, 8, 64", "3, 3, 64, 32", CompiledPass::kBackward);
  EXPECT_EQ(gradient.primitive, "convolution");
  EXPECT_EQ(gradient.direction, "backward_data");
  EXPECT_EQ(gradient.problem, "mb16_ic32oc64_ih16oh8kh3sh2dh0ph0_iw16ow8kw3sw2dw0pw0");
  const XlaProduct transposed = Convolution("16, 16, 16, 32", window, "16, 8, 8, 64", "3, 3, 64, 32");
  EXPECT_EQ(transposed.primitive, "deconvolution");
  EXPECT_EQ(transposed.problem, "mb16_ic64oc32_ih8oh16kh3sh2dh0ph0_iw8ow16kw3sw2dw0pw0");
}

TEST(HloProductsTest, DamagedConvolutions) {
  EXPECT_EQ(Convolution("1", Window("size: -3"), "1", "1").primitive, "");
  EXPECT_EQ(Convolution("1", "window { dimensions { size: 3 } }", "1", "1").primitive, "");
  EXPECT_EQ(Convolution("1", Window("size: 3"), "", "1").primitive, "");
  const std::string points = "1, 1, 1, 1";
  EXPECT_NE(Convolution(points, Window("size: 3"), points, points).primitive, "");
  EXPECT_EQ(Convolution(points, Window("size: 3 padding_low: -9223372036854775808"), points, points).primitive, "");
  for (const char* groups : {" feature_group_count: 1099511627776", " batch_group_count: -1"})
    EXPECT_EQ(Convolution(points, Window("size: 3") + groups, points, points).primitive, "");
}

}  // namespace
}  // namespace dlhook::analyzer
