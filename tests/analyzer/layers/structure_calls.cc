// Calls of a training program with their true layers: see structure_calls.h.
#include "tests/analyzer/layers/structure_calls.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "analyzer/layers/structure/structure.h"

namespace dlhook::analyzer {
namespace {

constexpr int64_t kDurationNs = 1000;
constexpr int64_t kGapNs = 10;

}  // namespace

void StructureCalls::Add(const trace::OpDefinition& definition, std::vector<uint64_t> operands,
                         const std::string& truth) {
  builder_.Call(builder_.AddOp(definition), builder_.now_ns() + kGapNs, kDurationNs, 0, 0, std::move(operands));
  truths_.push_back(truth);
}

void StructureCalls::OneDnn(const std::string& primitive, const std::string& direction, const std::string& tensors,
                            const std::string& auxiliary, const std::string& problem, const std::string& truth) {
  const std::string line =
      absl::StrCat("onednn_verbose,v1,primitive,exec,cpu,", primitive, ",jit:avx512_core,", direction, ",", tensors,
                   ",attr-scratchpad:user,", auxiliary, ",", problem, ",0.5");
  Add(OneDnnDefinition(line), {}, truth);
}

void StructureCalls::OneDnnConv(const Conv& conv, int64_t batch, const std::string& direction,
                                const std::string& truth) {
  const std::string groups = conv.groups > 1 ? absl::StrCat("g", conv.groups) : "";
  const std::string axis = absl::StrReplaceAll("iSoOkKsTdDpP", {{"S", absl::StrCat("h", conv.size)},
                                                                {"O", absl::StrCat("h", conv.out_size())},
                                                                {"K", absl::StrCat("h", conv.kernel)},
                                                                {"T", absl::StrCat("h", conv.stride)},
                                                                {"D", "h0"},
                                                                {"P", absl::StrCat("h", conv.padding)}});
  const std::string weights = conv.groups > 1 ? "aBCdec8b8c" : "ABcd16b16a";
  OneDnn("convolution", direction,
         absl::StrCat("src:f32:a:blocked:aBcd16b::f0 wei:f32:a:blocked:", weights,
                      "::f0 bia:f32:a:blocked:a::f0 dst:f32:a:blocked:aBcd16b::f0"),
         "alg:convolution_direct",
         absl::StrCat(groups, "mb", batch, "_ic", conv.in, "oc", conv.out, "_", axis, "_",
                      absl::StrReplaceAll(axis, {{"h", "w"}})),
         truth);
}

void StructureCalls::Reorder(const std::string& dims, const std::string& from, const std::string& to,
                             const std::string& truth) {
  OneDnn("reorder", "undef", absl::StrCat("src:f32::blocked:", from, "::f0 dst:f32::blocked:", to, "::f0"), "", dims,
         truth);
}

void StructureCalls::Gemm(int64_t m, int64_t n, int64_t k, const std::string& trans, uint64_t a, uint64_t b, uint64_t c,
                          const std::string& truth) {
  trace::OpDefinition definition = GemmDefinition(m, n, k, trans);
  definition.mutable_gemm()->set_lda(trans[0] == 'N' ? m : k);
  definition.mutable_gemm()->set_ldb(trans[1] == 'N' ? k : n);
  std::vector<uint64_t> operands;
  if (a != 0) operands = {a, b, c};
  Add(definition, std::move(operands), truth);
}

void StructureCalls::Gemv(int64_t m, int64_t k, const std::string& trans, uint64_t a, uint64_t x, uint64_t y,
                          const std::string& truth) {
  trace::OpDefinition definition = GemmDefinition(m, 1, k, absl::StrCat(trans, "N"), "sgemv_");
  definition.mutable_gemm()->set_kind(trace::Gemm::GEMV);
  Add(definition, {a, x, y}, truth);
}

void StructureCalls::Slice(int64_t size, const std::string& trans, int64_t ld, uint64_t a, uint64_t b, uint64_t c,
                           const std::string& truth) {
  trace::OpDefinition definition = GemmDefinition(size, size, size, trans);
  definition.mutable_gemm()->set_lda(ld);
  definition.mutable_gemm()->set_ldb(ld);
  Add(definition, {a, b, c}, truth);
}

void StructureCalls::Linear(int64_t batch, int64_t in, int64_t out, uint64_t x, uint64_t w, uint64_t y,
                            const std::string& layer) {
  Gemm(out, batch, in, "TN", w, x, y, layer + " forward");
}

void StructureCalls::LinearBackward(int64_t batch, int64_t in, int64_t out, uint64_t x, uint64_t w, uint64_t dy,
                                    const std::string& layer, bool has_data) {
  const uint64_t result = w == 0 ? 0 : 0x9990000;
  if (has_data) Gemm(in, batch, out, "NN", w, dy, result, layer + " backward-data");
  Gemm(in, out, batch, "NT", x, dy, result, layer + " backward-weights");
}

void StructureCalls::Cudnn(const std::string& fields, uint64_t input, uint64_t filter, uint64_t result,
                           const std::string& truth) {
  Add(Definition(absl::StrCat("function: 'cudnn' family: 'cudnn' time_source: CLOCK_TICKS address_count: 3 cudnn { ",
                              fields, " }")),
      {input, filter, result}, truth);
}

Attribution StructureCalls::Check() {
  const TraceModel model = builder_.Build();
  Attribution attribution = AttributeByStructure(model);
  EXPECT_EQ(attribution.of_call.size(), truths_.size());
  for (size_t i = 0; i < truths_.size(); ++i) {
    const Place& place = attribution.of_call[i];
    const std::string found = place.layer == kNone ? ""
                                                   : absl::StrCat(attribution.layers[place.layer].name, " ",
                                                                  LayerDirectionName(place.direction));
    EXPECT_EQ(found, truths_[i]) << "call " << i << ": " << model.ops[model.calls.op[i]].kind << " "
                                 << model.ops[model.calls.op[i]].problem;
  }
  return attribution;
}

std::vector<std::string> NamesOf(const Attribution& attribution) {
  std::vector<std::string> names;
  for (const Layer& layer : attribution.layers) names.push_back(layer.name);
  return names;
}

const Layer& LayerNamed(const Attribution& attribution, const std::string& name) {
  static const Layer kMissing;
  for (const Layer& layer : attribution.layers) {
    if (layer.name == name) return layer;
  }
  ADD_FAILURE() << "no layer " << name;
  return kMissing;
}

}  // namespace dlhook::analyzer
