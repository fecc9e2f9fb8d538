// Rules faster-form and float64: what the sizes of tensors tell that operations make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/findings/findings_table.h"
#include "analyzer/findings/rules.h"
#include "analyzer/steps/compared_steps.h"
#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace tensor_forms_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

// An operation of each step, a layer by itself: what it makes, and what it converts for itself.
struct Made {
  std::string op;
  int64_t us = 10;
  int64_t bytes = 64;
  int64_t converted_bytes = 0;
};

// Ten steps of 1 ms, with products of these sizes behind the operations.
std::vector<Finding> Find(const std::string& rule, const std::vector<Made>& made,
                          const std::vector<trace::OpDefinition>& products = {}) {
  constexpr int kSteps = 10;
  constexpr int64_t kStepNs = 1'000'000;
  ModelBuilder builder;
  const StackIndex stack = builder.AddStack({{"/home/u/train.py", "<module>", 7}});
  std::vector<OpIndex> ops;
  for (const trace::OpDefinition& product : products) ops.push_back(builder.AddOp(product));
  StepTrack track;
  Attribution attribution;
  for (const Made& one : made) attribution.layers.emplace_back().name = one.op;
  ScopeIndex scopes = 0;
  uint64_t address = 0;
  for (int step = 0; step < kSteps; ++step) {
    int64_t now_ns = step * kStepNs;
    track.steps.push_back({.start_ns = now_ns, .end_ns = now_ns + kStepNs, .kind = StepKind::kTraining});
    const uint64_t first = address;
    const auto event = [&](int64_t ns, uint64_t at, int64_t bytes, ScopeIndex scope) {
      builder.model().memory.push_back({.time_ns = ns, .address = 64 + at, .bytes = bytes, .scope = scope});
    };
    for (size_t i = 0; i < made.size(); ++i) {
      const int64_t ns = made[i].us * 1000;
      builder.Scope(made[i].op, ScopeKind::kFrameworkOp, now_ns, ns, 0, -1, stack);
      attribution.of_scope.push_back({static_cast<LayerIndex>(i), LayerDirection::kForward});
      const ScopeIndex own = scopes++;
      if (made[i].converted_bytes > 0) {
        builder.Scope("aten::_to_copy", ScopeKind::kFrameworkOp, now_ns + 10, 100);
        attribution.of_scope.push_back({static_cast<LayerIndex>(i), LayerDirection::kForward});
        event(now_ns + 20, address, made[i].converted_bytes, scopes++);
        event(now_ns + 200, address++, 0, kNone);
      }
      event(now_ns + 300, address++, made[i].bytes, own);
      now_ns += ns;
    }
    for (const OpIndex op : ops) builder.Call(op, now_ns += 1000, 500);
    for (uint64_t of_step = first; of_step < address; ++of_step) event(now_ns + 10, of_step, 0, kNone);
  }
  TraceModel model = builder.Build(kSteps * kStepNs);
  model.processes.front().capabilities.push_back({.name = "library", .object = "libtorch_cpu.so", .reason = ""});
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  attribution.of_call.resize(model.calls.size());
  const LayerAnalysis analysis(model, std::move(attribution), Judged({track}));
  const StepFacts facts(model, {.choices = &choices, .totals = &totals, .analysis = &analysis});
  std::vector<Finding> findings;
  for (const RuleFinding& found : FindAll(facts)) {
    if (found.rule == rule) findings.push_back(found.finding);
  }
  return findings;
}

TEST(TensorForms, DistancesOfAllPairsAreMadeByBroadcasting) {
  const Made linear{"aten::linear", 100, 256 * kKiB}, sub{"aten::sub", 200, 32 * kMiB},
      pow{"aten::pow", 200, 32 * kMiB}, sum{"aten::sum", 100, 512 * kKiB};
  const auto found = Find("faster-form", {linear, sub, pow, sum});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].gain_ns, 500'000);
  EXPECT_THAT(found[0].sentence,
              HasSubstr("aten::sub makes a tensor of 32.0 MiB, 128 times as large as any that PyTorch held"));
  EXPECT_THAT(found[0].sentence, HasSubstr("reduce it to 512 KiB"));
  EXPECT_THAT(found[0].advice, HasSubstr("torch.cdist"));
  EXPECT_EQ(found[0].line, "train.py:7");
  EXPECT_THAT(Find("faster-form", {linear, {"aten::mul", 300, 32 * kMiB}, sum})[0].advice, HasSubstr("torch.einsum"));
  const Made as_large{"aten::linear", 100, 16 * kMiB}, tanh{"aten::tanh", 100, 32 * kMiB};
  EXPECT_THAT(Find("faster-form", {as_large, sub, pow, sum}), IsEmpty());             // an error's square
  EXPECT_THAT(Find("faster-form", {linear, sub, pow, tanh, tanh, tanh}), IsEmpty());  // needed as a whole
}

TEST(TensorForms, OuterProductsAreMadeForTheirMean) {
  const Made linear{"aten::linear", 100, 256 * kKiB}, einsum{"aten::einsum", 400, 32 * kMiB},
      mean{"aten::mean", 100, 64 * kKiB};
  const auto found = Find("faster-form", {linear, einsum, mean});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].advice, HasSubstr("z.T @ z"));
}

TEST(TensorForms, SimilaritiesOfAllPairsAreMadeByBroadcasting) {
  const Made linear{"aten::linear", 100, 256 * kKiB};
  const auto found = Find("faster-form", {linear, {"aten::cosine_similarity", 400, 32 * kMiB}});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].sentence, HasSubstr("32.0 MiB, 128 times as large as any that PyTorch held, and sums over it"));
  EXPECT_THAT(found[0].advice, HasSubstr("F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T"));
  EXPECT_THAT(Find("faster-form", {linear, {"aten::cosine_similarity", 400, 256 * kKiB}}), IsEmpty()) << "row by row";
}

TEST(TensorForms, DiagonalMatricesAreMultiplied) {
  const Made diag{"aten::diag", 100, 4 * kMiB}, product{"aten::matmul", 300, kMiB}, sum{"aten::add", 300, 4 * kMiB};
  const auto found = Find("faster-form", {diag, product});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].gain_ns, 400'000);
  EXPECT_THAT(found[0].sentence, HasSubstr("multiplied (aten::diag, 4.00 MiB, then aten::matmul)"));
  EXPECT_THAT(found[0].advice, HasSubstr("d[:, None] * x"));
  EXPECT_THAT(Find("faster-form", {diag, sum}), IsEmpty());
}

TEST(TensorForms, RowsOfAnEmbeddingAreCopiedForTheirMean) {
  const Made rows{"aten::embedding", 300, 12 * kMiB}, mean{"aten::mean", 100, 128 * kKiB},
      whole{"aten::mean", 100, 4 * kMiB}, linear{"aten::linear", 300, 128 * kKiB};
  const auto found = Find("faster-form", {rows, mean});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].gain_ns, 400'000);
  EXPECT_THAT(found[0].advice, HasSubstr("nn.EmbeddingBag"));
  EXPECT_THAT(Find("faster-form", {rows, whole}), IsEmpty()) << "few of each";
  EXPECT_THAT(Find("faster-form", {rows, linear, mean}), IsEmpty());
}

TEST(Float64, IsWhatOperationsMake) {
  const int64_t whole = 8 * 64 * 512;
  const std::vector<trace::OpDefinition> product = {GemmDefinition(512, 64, 32, "NN")};
  const Made sub{"aten::sub", 200, whole, whole}, exp{"aten::exp", 200, whole}, plain{"aten::sub", 200, whole};
  const auto found = Find("float64", {sub, exp}, product);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].gain_ns, 200'000);
  EXPECT_EQ(found[0].line, "train.py:7");
  EXPECT_THAT(found[0].advice, HasSubstr("np.float32"));
  // Until they are converted back.
  EXPECT_THAT(Find("float64", {plain, exp, {"aten::to", 50, whole / 2}}, product), SizeIs(1));
}

TEST(Float64, IsNotInferredFromLess) {
  const int64_t whole = 8 * 64 * 512;
  const std::vector<trace::OpDefinition> product = {GemmDefinition(512, 64, 32, "NN")};
  const Made sub{"aten::sub", 200, whole, whole}, exp{"aten::exp", 200, whole}, mul{"aten::mul", 200, whole};
  EXPECT_THAT(Find("float64", {sub, mul}, product), IsEmpty());  // integers
  EXPECT_THAT(Find("float64", {sub, exp}), IsEmpty());           // no float32 of half the size
  EXPECT_THAT(Find("float64", {sub, exp}, {product[0], GemmDefinition(1024, 64, 32, "NN")}), IsEmpty());
  trace::OpDefinition shorter = product[0];
  shorter.mutable_gemm()->set_a_type(trace::BF16);
  EXPECT_THAT(Find("float64", {sub, exp}, {product[0], shorter}), IsEmpty());
  // Integers of twice as many bytes are no floats: the functions lie beyond them.
  EXPECT_THAT(Find("float64", {exp, {"aten::linear", 10, whole / 2}, mul, {"aten::to", 50, whole / 2}}, product),
              IsEmpty());
}

}  // namespace tensor_forms_test
}  // namespace dlhook::analyzer
