// Decodes one line of oneDNN's log: direction, shapes of the tensors, cost.
//
// To add a primitive:
//   1. write a function that returns the dims of its tensors by role, from the problem descriptor in the format of
//      oneDNN's src/common/verbose.cpp (init_info_NAME);
//   2. add its line to kShapes;
//   3. if FLOPs are known, add the formula with its source to op_cost.h and its line to Flops().

#include "analyzer/model/op_cost.h"
#include "analyzer/ops/decode_op.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline ops {
namespace {

// Dims by role, in the order of the tensors in the log. A repeated role takes the next entry of its name.
using Shapes = std::vector<std::pair<std::string, Dims>>;

// The problem field parsed in both ways: "mb8_ic3…" and "8x16:16x10".
struct Problem {
  ProblemNumbers numbers;
  std::vector<Dims> lists;
  absl::string_view auxiliary;

  int64_t Number(absl::string_view key) const {
    const auto it = numbers.find(key);
    return it == numbers.end() ? -1 : it->second;
  }
  bool Has(absl::string_view key) const { return numbers.find(key) != numbers.end(); }
};

// Number of spatial dimensions: the log writes all of id, ih, iw from the highest one down to iw.
int SpatialRank(const Problem& problem) {
  if (problem.Has("id")) return 3;
  if (problem.Has("ih")) return 2;
  return problem.Has("iw") ? 1 : 0;
}

// {leading…, letter d, letter h, letter w}, the last `rank` of them. Empty if anything is missing.
Dims WithSpatial(const Problem& problem, Dims leading, absl::string_view letter, int rank) {
  constexpr absl::string_view kAxes = "dhw";
  for (char axis : kAxes.substr(kAxes.size() - rank)) {
    leading.push_back(problem.Number(absl::StrCat(letter, std::string(1, axis))));
  }
  const bool known = absl::c_all_of(leading, [](int64_t d) { return d >= 0; });
  return known ? leading : Dims();
}

Shapes ConvolutionShapes(const Problem& problem) {
  const int rank = SpatialRank(problem);
  const int64_t mb = problem.Number("mb"), ic = problem.Number("ic"), oc = problem.Number("oc");
  const int64_t groups = problem.Has("g") ? std::max<int64_t>(problem.Number("g"), 1) : 1;
  Dims filters = {oc, ic};
  if (problem.Has("g")) filters = {groups, oc / groups, ic / groups};  // goihw
  return {{"src", WithSpatial(problem, {mb, ic}, "i", rank)},
          {"wei", WithSpatial(problem, filters, "k", rank)},
          {"bia", WithSpatial(problem, {oc}, "", 0)},
          {"dst", WithSpatial(problem, {mb, oc}, "o", rank)}};
}

Shapes PoolingShapes(const Problem& problem) {
  const int rank = SpatialRank(problem);
  const Dims leading = {problem.Number("mb"), problem.Number("ic")};
  const Dims dst = WithSpatial(problem, leading, "o", rank);
  return {{"src", WithSpatial(problem, leading, "i", rank)}, {"dst", dst}, {"ws", dst}};
}

Shapes InnerProductShapes(const Problem& problem) {
  const int rank = SpatialRank(problem);
  const int64_t mb = problem.Number("mb"), ic = problem.Number("ic"), oc = problem.Number("oc");
  return {{"src", WithSpatial(problem, {mb, ic}, "i", rank)},
          {"wei", WithSpatial(problem, {oc, ic}, "i", rank)},
          {"bia", WithSpatial(problem, {oc}, "", 0)},
          {"dst", WithSpatial(problem, {mb, oc}, "", 0)}};
}

// The one tensor of element-wise primitives and normalizations: "8x16x32", "mb8ic16ih32iw32" or
// "x16".
Dims DataDims(const Problem& problem) {
  if (!problem.lists.empty()) return problem.lists[0];
  if (problem.Has("x")) return {problem.Number("x")};
  return WithSpatial(problem, {problem.Number("mb"), problem.Number("ic")}, "i", SpatialRank(problem));
}

Shapes DataShapes(const Problem& problem) {
  const Dims dims = DataDims(problem);
  Shapes shapes;
  for (const char* role : {"data", "diff", "src", "dst", "diff_src", "diff_dst"}) shapes.emplace_back(role, dims);
  return shapes;
}

Shapes LayerNormalizationShapes(const Problem& problem) {
  Shapes shapes = DataShapes(problem);
  const Dims dims = DataDims(problem);
  if (dims.empty()) return shapes;
  shapes.emplace_back("stats", Dims(dims.begin(), dims.end() - 1));
  for (const char* role : {"scale", "shift", "diff_scale", "diff_shift"}) shapes.emplace_back(role, Dims{dims.back()});
  return shapes;
}

// The larger of each dimension, aligned at the end: the result of broadcasting.
Dims Broadcast(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims dims = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    if (dims[offset + i] == 1) dims[offset + i] = shorter[i];
  }
  return dims;
}

// src [batch…, m, k], wei [batch…, k, n], dst [batch…, m, n]; a batch dimension of 1 is broadcast.
Shapes MatMulShapes(const Problem& problem) {
  if (problem.lists.size() < 2) return {};
  const Dims& src = problem.lists[0];
  const Dims& wei = problem.lists[1];
  if (src.size() < 2 || wei.size() < 2) return {};
  Dims dst = Broadcast(Dims(src.begin(), src.end() - 2), Dims(wei.begin(), wei.end() - 2));
  dst.push_back(src[src.size() - 2]);
  dst.push_back(wei.back());
  return {{"src", src}, {"wei", wei}, {"src_a", src}, {"src_b", wei}, {"dst", dst}};
}

Shapes BinaryShapes(const Problem& problem) {
  if (problem.lists.size() < 2) return {};
  Shapes shapes;
  for (const Dims& dims : problem.lists) shapes.emplace_back("src", dims);
  shapes.emplace_back("dst", Broadcast(problem.lists[0], problem.lists[1]));
  return shapes;
}

Shapes ConcatShapes(const Problem& problem) {
  Shapes shapes;
  Dims dst;
  const std::string axis_text(AuxiliaryValue(problem.auxiliary, "axis"));
  const size_t axis = axis_text.empty() ? SIZE_MAX : std::strtoul(axis_text.c_str(), nullptr, 10);
  for (const Dims& dims : problem.lists) {
    shapes.emplace_back("src", dims);
    if (axis >= dims.size()) continue;
    if (dst.empty()) {
      dst = dims;
    } else if (axis < dst.size()) {
      if (__builtin_add_overflow(dst[axis], dims[axis], &dst[axis])) return {};
    }
  }
  shapes.emplace_back("dst", dst);
  return shapes;
}

Shapes ReductionShapes(const Problem& problem) {
  if (problem.lists.size() < 2) return {};
  return {{"src", problem.lists[0]}, {"dst", problem.lists[1]}};
}

Shapes PreluShapes(const Problem& problem) {
  if (problem.lists.size() < 2) return {};
  const Dims& data = problem.lists[0];
  const Dims& weights = problem.lists[1];
  return {{"data", data}, {"wei", weights}, {"diff", data}, {"diff_wei", weights}};
}

// https://uxlfoundation.github.io/oneDNN/dev_guide_rnn.html, "Data representation".
int RnnGates(absl::string_view cell) {
  if (cell == "vanilla_rnn") return 1;
  if (absl::StrContains(cell, "lstm")) return 4;
  return absl::StrContains(cell, "gru") ? 3 : 0;
}

int RnnDirections(absl::string_view auxiliary) {
  return absl::StartsWith(AuxiliaryValue(auxiliary, "direction"), "bidirectional") ? 2 : 1;
}

Shapes RnnShapes(const Problem& problem) {
  const int64_t l = problem.Number("l"), t = problem.Number("t"), mb = problem.Number("mb");
  const int64_t sic = problem.Number("sic"), slc = problem.Number("slc");
  const int64_t dhc = problem.Number("dhc"), dic = problem.Number("dic");
  const absl::string_view cell = AuxiliaryValue(problem.auxiliary, "alg");
  const int64_t gates = RnnGates(cell), dirs = RnnDirections(problem.auxiliary);
  if (std::min({l, t, mb, sic, slc, dhc, dic}) < 0 || gates == 0) return {};
  const bool concat = AuxiliaryValue(problem.auxiliary, "direction") == "bidirectional_concat";
  const int64_t bias_gates = gates + (absl::StartsWith(cell, "lbr_") ? 1 : 0);
  const Shapes forward = {{"src_layer", {t, mb, slc}},
                          {"src_iter", {l, dirs, mb, sic}},
                          {"wei_layer", {l, dirs, slc, gates, dhc}},
                          {"wei_iter", {l, dirs, sic, gates, dhc}},
                          {"wei_peephole", {l, dirs, 3, dhc}},
                          {"wei_proj", {l, dirs, dhc, dic}},
                          {"bias", {l, dirs, bias_gates, dhc}},
                          {"dst_layer", {t, mb, Product({dic, concat ? 2 : 1}).value_or(-1)}},
                          {"dst_iter", {l, dirs, mb, dic}}};
  Shapes shapes = forward;
  for (const auto& [role, dims] : forward) shapes.emplace_back("diff_" + role, dims);
  return shapes;
}

struct ShapeFunction {
  absl::string_view primitive;
  Shapes (*function)(const Problem&);
};
constexpr ShapeFunction kShapes[] = {{"convolution", ConvolutionShapes},
                                     {"deconvolution", ConvolutionShapes},
                                     {"pooling", PoolingShapes},
                                     {"resampling", PoolingShapes},
                                     {"inner_product", InnerProductShapes},
                                     {"matmul", MatMulShapes},
                                     {"gemm_api", MatMulShapes},
                                     {"gemm", MatMulShapes},
                                     {"eltwise", DataShapes},
                                     {"batch_normalization", DataShapes},
                                     {"group_normalization", DataShapes},
                                     {"layer_normalization", LayerNormalizationShapes},
                                     {"lrn", DataShapes},
                                     {"shuffle", DataShapes},
                                     {"softmax", DataShapes},
                                     {"logsoftmax", DataShapes},
                                     {"sum", DataShapes},
                                     {"reorder", DataShapes},
                                     {"binary", BinaryShapes},
                                     {"concat", ConcatShapes},
                                     {"reduction", ReductionShapes},
                                     {"prelu", PreluShapes},
                                     {"rnn", RnnShapes}};

// Every tensor takes the first unused entry of its role, or the last one if all are used (sum names its sources once).
void AssignDims(const Shapes& shapes, std::vector<Tensor>& tensors) {
  std::vector<bool> taken(shapes.size(), false);
  for (Tensor& tensor : tensors) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (shapes[i].first != tensor.role) continue;
      tensor.dims = shapes[i].second;
      if (taken[i]) continue;
      taken[i] = true;
      break;
    }
    if (!tensor.defined) tensor.dims.clear();
  }
}

Direction DirectionOf(absl::string_view prop_kind) {
  if (absl::StartsWith(prop_kind, "forward")) return Direction::kForward;
  if (prop_kind == "backward_data") return Direction::kBackwardData;
  if (prop_kind == "backward_weights") return Direction::kBackwardWeights;
  if (prop_kind == "backward_bias") return Direction::kBackwardBias;
  return prop_kind == "backward" ? Direction::kBackward : Direction::kUnknown;
}

// "f32", or the types of source, weights and destination if they differ; biases and statistics don't count.
std::string TypesOf(const std::vector<Tensor>& tensors) {
  std::vector<std::string> types;
  for (const Tensor& tensor : tensors) {
    const bool operand = absl::StartsWith(tensor.role, "src") || absl::StartsWith(tensor.role, "wei") ||
                         absl::StartsWith(tensor.role, "dst") || tensor.role == "data";
    if (operand && tensor.defined) types.push_back(tensor.type);
  }
  return TypesText(types);
}

const Dims* DimsOfRole(const Shapes& shapes, absl::string_view role) {
  for (const auto& [name, dims] : shapes) {
    if (name == role) return &dims;
  }
  return nullptr;
}

// Of one pass in one direction; for primitives with weights, `backward` computes both gradients.
std::optional<int64_t> ForwardFlops(const Op& op, const Problem& problem, const Shapes& shapes) {
  if (op.direction == Direction::kBackwardBias) return std::nullopt;
  if (op.kind == "convolution") return ConvolutionFlops(problem.numbers, /*transposed=*/false);
  if (op.kind == "deconvolution") return ConvolutionFlops(problem.numbers, /*transposed=*/true);
  if (op.kind == "inner_product") return InnerProductFlops(problem.numbers);
  if (op.kind == "matmul" || op.kind == "gemm_api" || op.kind == "gemm") {
    const Dims* src = DimsOfRole(shapes, "src");
    const Dims* dst = DimsOfRole(shapes, "dst");
    return src && dst ? MatMulFlops(*src, *dst) : std::nullopt;
  }
  if (op.kind == "rnn") return RnnFlops(problem.numbers, RnnGates(op.algorithm), RnnDirections(problem.auxiliary));
  return std::nullopt;
}

std::optional<int64_t> Flops(const Op& op, const Problem& problem, const Shapes& shapes) {
  const std::optional<int64_t> flops = ForwardFlops(op, problem, shapes);
  return flops && op.direction == Direction::kBackward ? Product({2, *flops}) : flops;
}

std::string ProblemText(const trace::OneDnn& line) {
  for (const std::string* text : {&line.problem(), &line.other(), &line.memory_descriptors()}) {
    if (!text->empty()) return *text;
  }
  return line.auxiliary();
}

// 2.x adds a suffix to primitives that got a second interface on the way to 3.0: "pooling_v2", "softmax_v2".
std::string KindOf(absl::string_view primitive) {
  absl::ConsumeSuffix(&primitive, "_v2");
  return std::string(primitive.empty() ? "call" : primitive);
}

}  // namespace

void DecodeOneDnn(const trace::OneDnn& line, Op& op) {
  op.asked = OneDnnCall{line.problem(), line.version()};
  op.kind = KindOf(line.primitive());
  op.problem = ProblemText(line);
  op.implementation = line.implementation();
  op.direction = DirectionOf(line.prop_kind());
  // 1.0 appends the parameters to the name: "alg:eltwise_relu:0:0".
  const absl::string_view algorithm = AuxiliaryValue(line.auxiliary(), "alg");
  op.algorithm = std::string(algorithm.substr(0, algorithm.find(':')));
  op.post_ops = ParsePostOps(line.attributes());
  op.tensors = ParseMemoryDescriptors(line.memory_descriptors());
  op.types = TypesOf(op.tensors);
  op.is_creation = absl::StartsWith(line.operation(), "create");
  op.cache_hit = op.is_creation && absl::StrContains(line.operation(), "cache_hit");

  const Problem problem = {.numbers = ParseProblemNumbers(line.problem()).value_or(ProblemNumbers()),
                           .lists = ParseDimsList(line.problem()).value_or(std::vector<Dims>()),
                           .auxiliary = line.auxiliary()};
  Shapes shapes;
  for (const ShapeFunction& shape : kShapes) {
    if (shape.primitive == op.kind) shapes = shape.function(problem);
  }
  AssignDims(shapes, op.tensors);
  if (op.is_creation) return;  // computes nothing
  op.flops = Flops(op, problem, shapes);
  op.bytes = TensorBytes(op);
}

}  // namespace dlhook::analyzer::ops
