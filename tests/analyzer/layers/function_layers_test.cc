// Layers from the functions above their calls, on programs written call by call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/layers/functions/layer_functions.h"
#include "analyzer/tables/tables.h"
#include "tests/analyzer/layers/structure_calls.h"

namespace dlhook::analyzer {
namespace {

using ::testing::ElementsAre;

// Calls of a C++ framework, each with a stack.
class Program {
 public:
  // Column-major, as in BLAS.
  void Gemm(int64_t m, int64_t n, int64_t k, const std::string& trans, const std::vector<std::string>& stack,
            std::vector<uint64_t> operands = {}) {
    const OpIndex op = builder_.AddOp(GemmDefinition(m, n, k, trans));
    builder_.Call(op, builder_.now_ns() + 10, 1000, 0, 0, std::move(operands));
    if (!stack.empty()) builder_.NativeStackOfLastCall(builder_.AddNativeStack(stack));
  }
  TraceModel Build() { return builder_.Build(); }

 private:
  ModelBuilder builder_;
};

// "conv1 forward", "" …, of every call.
std::vector<std::string> Shown(const Attribution& attribution) {
  std::vector<std::string> shown;
  for (const Place& place : attribution.of_call) {
    shown.push_back(place.layer == kNone
                        ? ""
                        : absl::StrCat(attribution.layers[place.layer].name, " ", LayerDirectionName(place.direction)));
  }
  return shown;
}

constexpr char kNet[] = "caffe::Net<float>::ForwardFromTo(int, int)";
const std::vector<std::string> kConv = {"caffe::ConvolutionLayer<float>::Forward_cpu(X)",
                                        "caffe::Layer<float>::Forward(X)", kNet, "main"};
const std::vector<std::string> kConvBack = {"caffe::ConvolutionLayer<float>::Backward_cpu(X)",
                                            "caffe::Net<float>::Backward()", "main"};
const std::vector<std::string> kFc = {"caffe::InnerProductLayer<float>::Forward_cpu(X)",
                                      "caffe::Layer<float>::Forward(X)", kNet, "main"};
const std::vector<std::string> kFcBack = {"caffe::InnerProductLayer<float>::Backward_cpu(X)",
                                          "caffe::Net<float>::Backward()", "main"};

// A single step: nothing repeats, no addresses are known; a structure shows no layers.
TEST(FunctionLayersTest, OneStepOfCaffeWithoutAddresses) {
  Program program;
  program.Gemm(576, 20, 25, "NN", kConv);  // [20,25] x [25,576]: im2col
  program.Gemm(576, 20, 1, "NN", kConv);   // bias
  program.Gemm(64, 50, 500, "NN", kConv);  // another one
  program.Gemm(500, 4, 800, "TN", kFc);
  program.Gemm(800, 500, 4, "NT", kFcBack);  // dw = dyT x
  program.Gemm(800, 4, 500, "NN", kFcBack);  // dx = dy w
  program.Gemm(500, 50, 64, "TN", kConvBack);
  program.Gemm(64, 500, 50, "NT", kConvBack);
  program.Gemm(25, 20, 576, "TN", kConvBack);
  const Attribution attribution = AttributeToLayers(program.Build(), {});
  EXPECT_THAT(Shown(attribution), ElementsAre("conv1 forward", "conv1 forward", "conv2 forward", "fc1 forward",
                                              "fc1 backward-weights", "fc1 backward-data", "conv2 backward-weights",
                                              "conv2 backward-data", "conv1 backward-weights"));
  EXPECT_EQ(LayerNamed(attribution, "fc1").evidence, Evidence::kFunction);
  EXPECT_EQ(LayerNamed(attribution, "fc1").module_type, "caffe::InnerProductLayer<float>");
  EXPECT_EQ(LayerNamed(attribution, "conv1").evidence, Evidence::kShapes);
  EXPECT_EQ(LayerNamed(attribution, "conv2").type, "convolution");
}

// Two consecutive layers of one shape: only addresses distinguish them, as in a structure; the function gives their
// type.
TEST(FunctionLayersTest, LayersOfOneTypeAndShapeAreToldApartByAddresses) {
  Program program;
  for (int step = 0; step < 3; ++step) {
    program.Gemm(32, 4, 32, "TN", kFc, {0x100000, 0x7000000, 0x7100000});
    program.Gemm(32, 4, 32, "TN", kFc, {0x200000, 0x7100000, 0x7200000});
    program.Gemm(32, 32, 4, "NT", kFcBack, {0x7100000, 0x6000000, 0x900000});
    program.Gemm(32, 4, 32, "NN", kFcBack, {0x200000, 0x6000000, 0x6100000});
    program.Gemm(32, 32, 4, "NT", kFcBack, {0x7000000, 0x6100000, 0xa00000});
  }
  const Attribution attribution = AttributeToLayers(program.Build(), {});
  std::vector<std::string> first = Shown(attribution);
  first.resize(5);
  EXPECT_THAT(first, ElementsAre("fc1 forward", "fc2 forward", "fc2 backward-weights", "fc2 backward-data",
                                 "fc1 backward-weights"));
  EXPECT_EQ(LayerNamed(attribution, "fc2").evidence, Evidence::kPointers);
  EXPECT_EQ(LayerNamed(attribution, "fc2").module_type, "caffe::InnerProductLayer<float>");
}

// The type of a layer describes the network below it, which alone distinguishes two layers of one shape.
TEST(FunctionLayersTest, DlibsLayersByTheirTypes) {
  const std::string inner = "dlib::add_layer<dlib::fc_<32ul>, dlib::input<X> >";
  const std::string outer = absl::StrCat("dlib::add_layer<dlib::fc_<32ul>, ", inner, " >");
  Program program;
  for (int step = 0; step < 2; ++step) {
    program.Gemm(32, 4, 32, "NN",
                 {"dlib::cpu::gemm(X)", inner + "::forward(dlib::tensor const&)", outer + "::forward(X)", "main"});
    program.Gemm(32, 4, 32, "NN", {"dlib::fc_<32ul>::forward<X>(X)|" + outer + "::forward(X)", "main"});
    program.Gemm(32, 32, 4, "NT", {outer + "::back_propagate_error(X, Y)", "main"});
    program.Gemm(32, 4, 32, "NN", {outer + "::back_propagate_error(X, Y)", "main"});
    program.Gemm(32, 32, 4, "NT",
                 {inner + "::back_propagate_error(X, Y)", outer + "::back_propagate_error(X, Y)", "main"});
  }
  const Attribution attribution = AttributeToLayers(program.Build(), {});
  std::vector<std::string> first = Shown(attribution);
  first.resize(5);
  EXPECT_THAT(first, ElementsAre("fc1 forward", "fc2 forward", "fc2 backward-weights", "fc2 backward-data",
                                 "fc1 backward-weights"));
  EXPECT_EQ(LayerNamed(attribution, "fc1").evidence, Evidence::kFunction);
  EXPECT_EQ(attribution.layers.size(), 2u);
}

TEST(FunctionLayersTest, WithoutLayerFunctionsNothingChanges) {
  Program with, without;
  for (int step = 0; step < 3; ++step) {
    for (Program* program : {&with, &without}) {
      const std::vector<std::string> stack =
          program == &with ? std::vector<std::string>{"train()", "main"} : std::vector<std::string>{};
      program->Gemm(32, 4, 16, "TN", stack, {0x100000, 0x7000000, 0x7100000});
      program->Gemm(16, 32, 4, "NT", stack, {0x7000000, 0x6100000, 0xa00000});
    }
  }
  const Attribution expected = AttributeToLayers(without.Build(), {});
  EXPECT_EQ(Shown(AttributeToLayers(with.Build(), {})), Shown(expected));
  EXPECT_EQ(Shown(expected)[0], "fc1 forward");
}

// "layers from calls alone" must not use functions.
TEST(FunctionLayersTest, NotWithEvidenceOfTheStructureAlone) {
  Program program;
  program.Gemm(500, 4, 800, "TN", kFc);
  EXPECT_TRUE(AttributeToLayers(program.Build(), {.use_framework_evidence = false}).layers.empty());
}

}  // namespace
}  // namespace dlhook::analyzer
