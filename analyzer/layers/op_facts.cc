// What an op alone shows about its layer: see op_facts.h.
//
// To add a kind of op, add a line to kKinds.
#include "analyzer/layers/op_facts.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/model/gemm_shape.h"
#include "analyzer/model/op_cost.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline layers {
namespace {

struct KindWords {
  absl::string_view kind;  // Op.kind
  absl::string_view type;
  absl::string_view prefix;
};
constexpr KindWords kKinds[] = {
    {"convolution", "convolution", "conv"},
    {"deconvolution", "deconvolution", "deconv"},
    {"inner_product", "linear", "fc"},
    {"pooling", "pooling", "pool"},
    {"resampling", "resampling", "resample"},
    {"batch_normalization", "batch norm", "bn"},
    {"layer_normalization", "layer norm", "ln"},
    {"group_normalization", "group norm", "gn"},
    {"lrn", "lrn", "lrn"},
    {"softmax", "softmax", "softmax"},
    {"logsoftmax", "softmax", "softmax"},
    {"dropout", "dropout", "dropout"},
    {"attention", "attention", "attention"},
    {"prelu", "prelu", "prelu"},
    {"concat", "concat", "concat"},
    {"shuffle", "shuffle", "shuffle"},
};

Extent ExtentOf(const std::vector<int64_t>& dims) {
  if (dims.size() < 2) return {};
  return {dims[1], ElementCount(Dims(dims.begin() + 2, dims.end())).value_or(0)};
}

void SetExtents(const Op& op, OpFacts& facts) {
  for (const Tensor& tensor : op.tensors) {
    const bool is_input = tensor.role == "src" || tensor.role == "data" || tensor.role == "src_0";
    if (is_input && facts.in.channels == 0) facts.in = ExtentOf(tensor.dims);
    if (tensor.role == "dst" && facts.out.channels == 0) facts.out = ExtentOf(tensor.dims);
  }
  if (facts.out.channels == 0) facts.out = facts.in;
}

// "eltwise_relu" -> "relu". Its backward pass may use the result: "eltwise_relu_use_dst_for_bwd".
std::string ActivationName(const Op& op) {
  absl::string_view name = op.algorithm;
  absl::ConsumePrefix(&name, "eltwise_");
  absl::ConsumeSuffix(&name, "_use_dst_for_bwd");
  return name.empty() ? "activation" : std::string(name);
}

std::string RecurrentName(const Op& op) {
  for (const char* cell : {"lstm", "gru"}) {
    if (absl::StrContains(absl::AsciiStrToLower(op.algorithm), cell)) return cell;
  }
  return "rnn";
}

bool SetWords(const Op& op, OpFacts& facts) {
  if (IsKind(op, OpKind::kEltwise)) {
    facts.type = facts.prefix = ActivationName(op);
    return true;
  }
  if (IsKind(op, OpKind::kRnn)) {
    facts.type = facts.prefix = RecurrentName(op);
    return true;
  }
  for (const KindWords& words : kKinds) {
    if (words.kind != op.kind) continue;
    facts.type = std::string(words.type);
    facts.prefix = std::string(words.prefix);
    return true;
  }
  return false;
}

int64_t BytesOf(const Op& op, int64_t rows, int64_t columns) {
  const std::string type = op.types.substr(0, op.types.find(':'));
  return Product({rows, columns, TypeBits(type).value_or(0)}).value_or(0) / 8;
}

// Whether op(X)[rows, columns] is a part of a wider matrix.
bool IsSlice(int64_t leading, int64_t rows, int64_t columns, const std::string& trans, bool row_major) {
  const bool is_plain = (trans == "N") != row_major;  // columns of op(X) are consecutive in memory
  return leading > (is_plain ? rows : columns);
}

void SetGemmFacts(const GemmCall& gemm, ProductShape& product) {
  const bool is_vector = gemm.kind == GemmKind::kGemv;
  product.weights_are_a = is_vector && !product.is_exchanged;
  if (is_vector || gemm.batch > 1) return;
  product.is_slice = IsSlice(gemm.lda, gemm.m, gemm.k, gemm.trans_a, gemm.row_major) ||
                     IsSlice(gemm.ldb, gemm.k, gemm.n, gemm.trans_b, gemm.row_major);
}

void SetProduct(const Op& op, const MatmulShape& shape, OpFacts& facts) {
  ProductShape& product = facts.product;
  facts.is_product = true;
  const bool exchange = shape.order == "col";
  const bool has_trans = shape.trans.size() == 2 && !absl::StrContains(shape.trans, 'P');
  product.is_exchanged = exchange;
  product.m = exchange ? shape.n : shape.m;
  product.n = exchange ? shape.m : shape.n;
  product.k = shape.k;
  product.batch = shape.batch;
  if (has_trans) {
    product.a_is_transposed = shape.trans[exchange ? 1 : 0] != 'N';
    product.b_is_transposed = shape.trans[exchange ? 0 : 1] != 'N';
  }
  product.a_bytes = BytesOf(op, product.m, product.k);
  product.b_bytes = BytesOf(op, product.k, product.n);
  product.c_bytes = BytesOf(op, product.m, product.n);
  facts.in = {product.k, 1};
  facts.out = {product.n, 1};
  if (op.gemm()) SetGemmFacts(*op.gemm(), product);
}

bool IsBiasOp(const Op& op) {
  return op.cudnn() && (op.algorithm == "binary_add" || op.direction == Direction::kBackwardBias);
}

bool HasSides(const ProductShape& product, int64_t rows, int64_t columns) {
  return std::minmax(product.m, product.n) == std::minmax(rows, columns);
}

OpFacts FactsOf(const Op& op) {
  OpFacts facts;
  const bool is_library_op = op.onednn_problem() || op.cudnn() || op.gemm();
  if (!is_library_op || !TellsSteps(op)) return facts;
  facts.direction = op.direction;
  if (IsKind(op, OpKind::kReorder)) {
    facts.work = Work::kReorder;
    return facts;
  }
  if (IsBiasOp(op)) {
    facts.work = Work::kBias;
    return facts;
  }
  if (!IsKind(op, OpKind::kInnerProduct) && IsMatrixProduct(op)) {
    const std::optional<MatmulShape> shape = MatmulShapeOf(op);
    const bool is_packing = op.gemm() && op.gemm()->kind == GemmKind::kPack;
    if (!shape || is_packing) return facts;
    SetProduct(op, *shape, facts);
    facts.work = Work::kProduct;
    facts.type = shape->batch > 1 ? "batched product" : "linear";
    facts.prefix = shape->batch > 1 ? "matmul" : "fc";
    return facts;
  }
  if (!SetWords(op, facts)) return facts;
  facts.work = Work::kLayer;
  if (IsKind(op, OpKind::kInnerProduct)) {
    if (const std::optional<MatmulShape> shape = MatmulShapeOf(op)) SetProduct(op, *shape, facts);
    return facts;
  }
  const auto [begin, end] = BatchDigits(op.problem);
  facts.key = absl::StrCat(facts.type, "|", IsKind(op, OpKind::kPooling) ? op.algorithm : "", "|",
                           op.problem.substr(0, begin), "*", op.problem.substr(end));
  SetExtents(op, facts);
  return facts;
}

}  // namespace

bool IsBackward(Direction direction) {
  return direction == Direction::kBackwardData || direction == Direction::kBackwardWeights ||
         direction == Direction::kBackwardBias || direction == Direction::kBackward;
}

bool MayBeGradientOfA(const ProductShape& forward, const ProductShape& gradient) {
  return gradient.batch == forward.batch && gradient.k == forward.n && HasSides(gradient, forward.m, forward.k);
}

bool MayBeGradientOfB(const ProductShape& forward, const ProductShape& gradient) {
  return gradient.batch == forward.batch && gradient.k == forward.m && HasSides(gradient, forward.k, forward.n);
}

bool HasSameSizes(const ProductShape& first, const ProductShape& second) {
  return HasSides(first, second.m, second.n) && first.k == second.k;
}

std::pair<size_t, size_t> BatchDigits(absl::string_view problem) {
  const size_t mb = problem.find("mb");
  const size_t begin = mb == absl::string_view::npos ? 0 : mb + 2;
  return {begin, std::min(problem.find_first_not_of("0123456789", begin), problem.size())};
}

std::vector<OpFacts> FactsOfOps(const TraceModel& model) {
  std::vector<OpFacts> facts;
  facts.reserve(model.ops.size());
  for (const Op& op : model.ops) facts.push_back(FactsOf(op));
  return facts;
}

Operands OperandsOfCall(const TraceModel& model, const std::vector<OpFacts>& facts, CallIndex call) {
  const absl::Span<const uint64_t> values = model.OperandsOf(call);
  if (values.size() < 3 || model.ops[model.calls.op[call]].copy() != nullptr) return {};
  const bool is_exchanged = facts[model.calls.op[call]].product.is_exchanged;
  return {values[is_exchanged ? 1 : 0], values[is_exchanged ? 0 : 1], values[2]};
}

}  // namespace dlhook::analyzer::layers
