// Which gradient each product of PyTorch's backward nodes is, against autograd's formulas (tools/autograd/derivatives.yaml;
// its generated code computes a node's gradients in the alphabetical order of the operands' names).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "analyzer/layers/framework/framework_links.h"
#include "tests/analyzer/layers/torch_recorder.h"

namespace dlhook::analyzer {
namespace torch_products_test {

using Kind = ScopeKind;
using ::testing::ElementsAre;

// y[m,n] = a[m,k] b[k,n], with everything that the recording shows of it.
struct Case {
  std::string name;
  std::string op, node;
  std::string around;  // ops around it in the program: "linear", "matmul"; empty: none
  int64_t m, k, n;
  std::string gradients;           // "ab": first that of a, then that of b
  std::vector<std::string> after;  // nodes after it; "+": a parameter's gradient is added
  std::string stays;               // operands that are in the same place in all steps: "a", "b", "ab"
  std::vector<std::string> expected;
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

class TorchProductsTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr int kSteps = 3;
  static constexpr uint64_t kA = 0x10000, kB = 0x20000, kGradient = 0x30000, kResult = 0x40000;

  uint64_t AddressOf(char operand) const {
    const uint64_t place = operand == 'a' ? kA : kB;
    return GetParam().stays.find(operand) == std::string::npos ? place + 64 * static_cast<uint64_t>(step_ + 1) : place;
  }
  // A product as PyTorch passes it to BLAS: column-major, so with its operands swapped.
  void Product(const std::string& op, int64_t m, int64_t n, int64_t k, std::vector<uint64_t> operands,
               int64_t node = -1) {
    recorder_.Begin("aten::" + op, Kind::kFrameworkOp, node);
    if (GetParam().stays == "-") operands.clear();
    recorder_.Call(recorder_.builder().AddOp(GemmDefinition(n, m, k, "NN")), operands);
    recorder_.End();
  }
  void Forward() {
    const Case& c = GetParam();
    recorder_.Begin("aten::" + (c.around.empty() ? "other" : c.around), Kind::kFrameworkOp, recorder_.next_node(),
                    stack_);
    if (c.around == "linear") recorder_.Op("aten::t", kNone);
    number_ = recorder_.MakeNode();
    Product(c.op, c.m, c.n, c.k, {AddressOf('b'), AddressOf('a'), kResult}, number_);
    recorder_.Op("aten::_unsafe_view", kNone);
    recorder_.End();
  }
  void Backward() {
    const Case& c = GetParam();
    recorder_.BeginNode(c.node, number_);
    for (const char operand : c.gradients) {
      const std::string op = c.op.find("bmm") != std::string::npos ? "bmm"
                             : c.op.find('v') == std::string::npos ? "mm"
                                                                   : "mv";
      if (operand == 'a') Product(op, c.m, c.k, c.n, {AddressOf('b'), kGradient, kResult});
      if (operand == 'b') Product(op, c.n, c.k, c.m, {AddressOf('a'), kGradient, kResult});
    }
    recorder_.EndNode();
    for (const std::string& node : c.after) {
      if (node == "+") {
        recorder_.Accumulate();
      } else {
        recorder_.Node(node, number_ - 1);
      }
    }
    recorder_.Node("ReluBackward0", -1);
    recorder_.Accumulate();  // of another layer
  }

  TorchRecorder recorder_;
  const StackIndex stack_ = recorder_.builder().AddStack({{"/home/u/net.py", "forward", 7}});
  int64_t number_ = 0;
  int step_ = 0;
};

TEST_P(TorchProductsTest, DirectionsAreThoseOfAutogradsFormulas) {
  for (step_ = 0; step_ < kSteps; ++step_) {
    Forward();
    Backward();
    recorder_.Begin("Optimizer.step#SGD.step", Kind::kUserRange);
    recorder_.End();
  }
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  std::vector<std::string> found;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const std::string direction = LayerDirectionName(attribution.of_call[call].direction);
    if (direction != "forward") found.push_back(direction);
  }
  std::vector<std::string> expected;
  for (int step = 0; step < kSteps; ++step) {
    expected.insert(expected.end(), GetParam().expected.begin(), GetParam().expected.end());
  }
  EXPECT_EQ(found, expected);
}

const std::string kData = "backward-data", kWeights = "backward-weights", kEither = "backward";
const std::vector<std::string> kLinear = {"TBackward0", "+"}, kNoParameter = {}, kParameter = {"+"};

const Case kCases[] = {
    // nn.Linear without a bias: autograd computes the gradient of the weights first. Sizes, addresses or order tell.
    {"NoBias", "mm", "MmBackward0", "linear", 200, 96, 160, "ba", kLinear, "ab", {kWeights, kData}},
    {"NoBiasSquare", "mm", "MmBackward0", "linear", 64, 64, 64, "ba", kLinear, "ab", {kWeights, kData}},
    {"NoBiasSquareOfUnknownAddresses",
     "mm",
     "MmBackward0",
     "linear",
     64,
     64,
     64,
     "ba",
     kLinear,
     "-",
     {kWeights, kData}},
    {"NoBiasOneOutput", "mm", "MmBackward0", "linear", 64, 96, 1, "ba", kLinear, "b", {kWeights, kData}},
    {"NoBiasOneSample", "mm", "MmBackward0", "linear", 1, 96, 64, "ba", kLinear, "b", {kWeights, kData}},
    {"NoBiasFirstLayer", "mm", "MmBackward0", "linear", 64, 64, 64, "b", kLinear, "-", {kWeights}},
    {"NoBiasFrozen", "mm", "MmBackward0", "linear", 64, 64, 64, "a", kNoParameter, "-", {kData}},
    {"NoBiasFrozenOneOutput", "mm", "MmBackward0", "linear", 64, 64, 1, "a", kNoParameter, "-", {kData}},
    {"NoBiasFrozenBatched", "bmm", "BmmBackward0", "linear", 64, 64, 64, "a", kNoParameter, "-", {kData}},
    // With a bias it is the other way round.
    {"Bias",
     "addmm",
     "AddmmBackward0",
     "linear",
     200,
     96,
     160,
     "ab",
     {"+", "TBackward0", "+"},
     "ab",
     {kData, kWeights}},
    {"BiasSquare",
     "addmm",
     "AddmmBackward0",
     "linear",
     64,
     64,
     64,
     "ab",
     {"+", "TBackward0", "+"},
     "-",
     {kData, kWeights}},
    {"BiasFirstLayer", "addmm", "AddmmBackward0", "linear", 64, 64, 64, "b", {"+", "TBackward0", "+"}, "-", {kWeights}},
    {"OnlyTheBiasIsTrained", "addmm", "AddmmBackward0", "linear", 64, 64, 64, "a", kParameter, "-", {kData}},
    // The program's own products: a parameter's gradient follows, and which operand it is the addresses show.
    {"Own", "mm", "MmBackward0", "", 200, 96, 160, "ba", kParameter, "b", {kWeights, kData}},
    {"OwnSquare", "mm", "MmBackward0", "", 64, 64, 64, "ba", kParameter, "b", {kWeights, kData}},
    {"OwnWeightsFirst", "mm", "MmBackward0", "", 200, 96, 160, "ba", kParameter, "a", {kData, kWeights}},
    {"OwnAllInPlace", "mm", "MmBackward0", "", 200, 96, 160, "ba", kParameter, "ab", {kEither, kEither}},
    {"OwnFirstLayer", "mm", "MmBackward0", "", 64, 64, 64, "b", kParameter, "ab", {kWeights}},
    {"OwnWithoutParameter", "mm", "MmBackward0", "", 200, 96, 160, "ba", kNoParameter, "b", {kEither, kEither}},
    {"OwnAddmm", "addmm", "AddmmBackward0", "", 64, 64, 64, "ab", {"+", "+"}, "-", {kData, kWeights}},
    {"OwnAddmmWeightsFirst",
     "addmm",
     "AddmmBackward0",
     "",
     64,
     64,
     64,
     "ab",
     {"ViewBackward0", "+", "+"},
     "-",
     {kEither, kEither}},
    {"OwnAddmmOnlyBias", "addmm", "AddmmBackward0", "", 64, 64, 64, "a", kParameter, "-", {kEither}},
    {"Folded", "mm", "MmBackward0", "matmul", 64, 64, 64, "ba", kParameter, "-", {kWeights, kData}},
    // Attention, experts and einsum.
    {"Scores", "bmm", "BmmBackward0", "matmul", 64, 64, 64, "ba", kNoParameter, "ab", {kData, kData}},
    {"Experts", "bmm", "BmmBackward0", "", 64, 64, 64, "ba", kParameter, "b", {kWeights, kData}},
    {"Einsum", "bmm", "BmmBackward0", "einsum", 64, 64, 64, "ba", {"PermuteBackward0", "+"}, "a", {kData, kWeights}},
    {"ExpertsAllInPlace", "bmm", "BmmBackward0", "", 64, 64, 64, "ba", kParameter, "ab", {kEither, kEither}},
    {"Baddbmm", "baddbmm", "BaddbmmBackward0", "", 64, 64, 64, "ab", {"+", "+"}, "b", {kData, kWeights}},
    {"BaddbmmScores", "baddbmm", "BaddbmmBackward0", "", 64, 64, 64, "ab", kNoParameter, "b", {kData, kData}},
    {"Addbmm", "addbmm", "AddbmmBackward0", "", 64, 64, 64, "ab", {"+", "+"}, "b", {kData, kWeights}},
    // Of a matrix and a vector: the matrix's gradient is no such product.
    {"MvOfAMatrixOfWeights", "mv", "MvBackward0", "", 64, 64, 1, "b", kParameter, "a", {kData}},
    {"MvOfAVectorOfWeights", "mv", "MvBackward0", "", 64, 64, 1, "b", kParameter, "b", {kWeights}},
    {"Mv", "mv", "MvBackward0", "", 64, 64, 1, "b", kParameter, "-", {kEither}},
    // A node with products of an unknown order: the user's own Function, a compiled graph.
    {"OwnFunction", "mm", "MyLinearBackward", "", 64, 64, 64, "ab", kParameter, "b", {kData, kWeights}},
    {"OwnFunctionOfUnknownAddresses",
     "mm",
     "MyLinearBackward",
     "",
     64,
     64,
     64,
     "ab",
     kParameter,
     "-",
     {kEither, kEither}}};

INSTANTIATE_TEST_SUITE_P(Nodes, TorchProductsTest, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<Case>& test) { return test.param.name; });

}  // namespace torch_products_test
}  // namespace dlhook::analyzer
