// Arguments as PyTorch's native_functions.yaml declares them.
#include "analyzer/import/kineto/operator_definitions.h"

#include <iterator>

namespace dlhook::analyzer::inline kineto {
namespace {

using absl::string_view;
using Dims = std::vector<int64_t>;
using Definition = std::optional<trace::OpDefinition>;

constexpr char kBothGradients[] = "convolution_backward";
constexpr int64_t kMostWindow = 1 << 20;
constexpr int64_t kMostSize =
    int64_t{1} << 40;  // of a dimension: products of two fit in 64 bits, what is greater is no shape

struct Type {
  string_view name;
  trace::DataType type;
  uint64_t bytes;
};
// As operators' inputs and collectives have them.
constexpr Type kTypes[] = {
    {"float", trace::F32, 4},
    {"double", trace::F64, 8},
    {"Half", trace::F16, 2},
    {"BFloat16", trace::BF16, 2},
    {"Float8_e4m3fn", trace::F8_E4M3, 1},
    {"Float8_e4m3fnuz", trace::F8_E4M3, 1},
    {"Float8_e5m2", trace::F8_E5M2, 1},
    {"Float8_e5m2fnuz", trace::F8_E5M2, 1},
    {"Float8_e8m0fnu", trace::F8_E8M0, 1},
    {"signed char", trace::S8, 1},
    {"char", trace::S8, 1},
    {"unsigned char", trace::U8, 1},
    {"byte", trace::U8, 1},
    {"short", trace::S16, 2},
    {"short int", trace::S16, 2},
    {"int", trace::S32, 4},
    {"long", trace::S64, 8},
    {"long int", trace::S64, 8},
    {"bool", trace::BOOL, 1},
    {"complex<float>", trace::C32, 8},
    {"complex<double>", trace::C64, 16},
    {"ComplexFloat", trace::C32, 8},
    {"ComplexDouble", trace::C64, 16},
};

const Type* FindType(string_view name) {
  absl::ConsumePrefix(&name, "c10::");
  const auto found = absl::c_find_if(kTypes, [&](const Type& type) { return absl::EqualsIgnoreCase(type.name, name); });
  return found == std::end(kTypes) ? nullptr : found;
}

trace::DataType TypeOf(const Input& input) {
  const Type* type = FindType(input.type);
  return type == nullptr ? trace::DATA_TYPE_UNKNOWN : type->type;
}

// A tensor of `rank` dimensions, all of a size that is possible.
bool IsTensor(const Input& input, size_t rank) {
  return !input.is_list && input.dims.size() == rank &&
         absl::c_all_of(input.dims, [](int64_t dim) { return dim > 0 && dim < kMostSize; });
}

// The numbers of "[1, 1]", or of "1". Nothing: not known.
std::optional<Dims> Numbers(const Input& input) {
  string_view text = input.value;
  absl::ConsumePrefix(&text, "[");
  absl::ConsumeSuffix(&text, "]");
  Dims numbers;
  for (string_view word : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(word, &number) || number > kMostWindow || number < -kMostWindow) return std::nullopt;
    numbers.push_back(number);
  }
  if (input.value.empty()) return std::nullopt;
  return numbers;
}

// How the last two dimensions lie in memory: "N" by rows; empty: not known, or neither way.
std::string OrderOf(const Input& input, int64_t* leading) {
  const size_t rank = input.dims.size();
  if (input.strides.size() != rank || rank < 2) return "";
  const int64_t outer = input.strides[rank - 2], inner = input.strides[rank - 1];
  const bool by_rows = inner == 1 && outer >= input.dims[rank - 1];
  if (!by_rows && (outer != 1 || inner < input.dims[rank - 2])) return "";
  *leading = by_rows ? outer : inner;
  return by_rows ? "N" : "T";
}

// A[…, m, k] by B[…, k, n].
Definition Product(const Input& a, const Input& b, size_t rank) {
  if (!IsTensor(a, rank) || !IsTensor(b, rank) || a.dims[rank - 1] != b.dims[rank - 2]) return std::nullopt;
  trace::OpDefinition definition;
  trace::Gemm& gemm = *definition.mutable_gemm();
  gemm.set_row_major(true);
  gemm.set_m(a.dims[rank - 2]);
  gemm.set_n(b.dims[rank - 1]);
  gemm.set_k(a.dims[rank - 1]);
  gemm.set_batch(rank == 3 ? a.dims[0] : 1);
  int64_t lda = 0, ldb = 0;
  const std::string order_a = OrderOf(a, &lda), order_b = OrderOf(b, &ldb);
  if (!order_a.empty() && !order_b.empty()) {
    gemm.set_trans_a(order_a);
    gemm.set_trans_b(order_b);
    gemm.set_lda(lda);
    gemm.set_ldb(ldb);
  }
  gemm.set_a_type(TypeOf(a));
  gemm.set_b_type(TypeOf(b));
  return definition;
}

// A[m, k] by a vector of k.
Definition VectorProduct(const Input& a, const Input& x) {
  if (!IsTensor(a, 2) || !IsTensor(x, 1)) return std::nullopt;
  Input column = x;
  column.dims.push_back(1);
  column.strides.clear();
  Definition definition = Product(a, column, 2);
  if (definition) definition->mutable_gemm()->set_kind(trace::Gemm::GEMV);
  return definition;
}

// Rows of any leading dimensions by the transpose of weights[n, k].
Definition Linear(const Input& x, const Input& weights) {
  if (x.dims.empty() || !IsTensor(x, x.dims.size()) || !IsTensor(weights, 2)) return std::nullopt;
  Input rows = x, columns = weights;
  rows.dims = {1, x.dims.back()};
  rows.strides.clear();
  columns.strides.clear();
  for (size_t i = 0; i + 1 < x.dims.size(); ++i) {
    if (__builtin_mul_overflow(rows.dims[0], x.dims[i], &rows.dims[0])) return std::nullopt;
  }
  std::swap(columns.dims[0], columns.dims[1]);
  return Product(rows, columns, 2);
}

// Float8 and the like: the result's type is an argument of its own (ScalarType's number), by default that of A.
Definition ScaledProduct(const Event& event, size_t out_type) {
  Definition definition = Product(event.InputAt(0), event.InputAt(1), 2);
  if (!definition) return definition;
  const std::string& number = event.InputAt(out_type).value;
  if (number == "5") definition->mutable_gemm()->set_c_type(trace::F16);
  if (number == "6") definition->mutable_gemm()->set_c_type(trace::F32);
  if (number == "15") definition->mutable_gemm()->set_c_type(trace::BF16);
  return definition;
}

Definition IntegerProduct(const Event& event) {
  Definition definition = Product(event.InputAt(0), event.InputAt(1), 2);
  if (definition) definition->mutable_gemm()->set_c_type(trace::S32);
  return definition;
}

using Tensor = trace::CudnnTensor;

Tensor& AddTensor(trace::Cudnn* op, Tensor::Role role, trace::DataType type, const Dims& dims) {
  Tensor& tensor = *op->add_tensor();
  tensor.set_role(role);
  tensor.set_type(type);
  tensor.set_uid(op->tensor_size());
  for (const int64_t dim : dims) tensor.add_dim(dim);
  return tensor;
}

void AddStrides(const Input& input, Tensor* tensor) {
  if (input.strides.size() != input.dims.size()) return;
  for (const int64_t stride : input.strides) tensor->add_stride(stride);
}

trace::Cudnn* NewNetworkOp(trace::OpDefinition* definition, const char* operation) {
  trace::Cudnn* op = definition->mutable_cudnn();
  op->set_operation(operation);
  op->set_algorithm(-1);
  op->set_math_type(-1);
  op->set_mode(-1);
  return op;
}

// Windows are repeated for all spatial dimensions if there is one number.
std::optional<Dims> Window(const Input& input, size_t rank) {
  std::optional<Dims> numbers = Numbers(input);
  if (numbers && numbers->size() == 1) numbers->resize(rank, numbers->front());
  if (!numbers || numbers->size() != rank) return std::nullopt;
  return numbers;
}

// A convolution of inputs `first` (x or the result's gradient), and the windows from input `windows` on: stride, padding, dilation,
// transposed, output_padding, groups.
Definition ConvolutionOf(const Event& event, const Input& x, const Input& w, size_t windows, const char* operation) {
  const size_t rank = x.dims.size();
  if (rank < 3 || rank > 5 || !IsTensor(x, rank) || !IsTensor(w, rank)) return std::nullopt;
  const auto stride = Window(event.InputAt(windows), rank - 2), pad = Window(event.InputAt(windows + 1), rank - 2),
             dilation = Window(event.InputAt(windows + 2), rank - 2), groups = Numbers(event.InputAt(windows + 5));
  if (!stride || !pad || !dilation || !groups || groups->size() != 1 || groups->front() < 1) return std::nullopt;
  if (!absl::EqualsIgnoreCase(event.InputAt(windows + 3).value, "false")) return std::nullopt;  // transposed
  Dims y = {x.dims[0], w.dims[0]};
  for (size_t i = 0; i + 2 < rank; ++i) {
    const int64_t reach = (*dilation)[i] * (w.dims[i + 2] - 1) + 1, size = x.dims[i + 2] + 2 * (*pad)[i] - reach;
    if ((*stride)[i] < 1 || (*dilation)[i] < 1 || size < 0) return std::nullopt;
    y.push_back(size / (*stride)[i] + 1);
  }
  trace::OpDefinition definition;
  trace::Cudnn* op = NewNetworkOp(&definition, operation);
  AddStrides(x, &AddTensor(op, Tensor::X, TypeOf(x), x.dims));
  AddStrides(w, &AddTensor(op, Tensor::W, TypeOf(w), w.dims));
  AddTensor(op, Tensor::Y, TypeOf(x), y);
  for (size_t i = 0; i + 2 < rank; ++i) {
    op->add_pad((*pad)[i]);
    op->add_stride((*stride)[i]);
    op->add_dilation((*dilation)[i]);
  }
  op->set_groups(groups->front());
  return definition;
}

// aten::convolution(input, weight, bias, stride, …)
Definition Convolution(const Event& event) {
  return ConvolutionOf(event, event.InputAt(0), event.InputAt(1), 3, "convolution_forward");
}

// aten::convolution_backward(grad_output, input, weight, bias_sizes, stride, …, groups, output_mask)
Definition ConvolutionBackward(const Event& event) {
  Definition definition = ConvolutionOf(event, event.InputAt(1), event.InputAt(2), 4, kBothGradients);
  const std::vector<string_view> mask =
      absl::StrSplit(event.InputAt(10).value, absl::ByAnyChar("[, ]"), absl::SkipEmpty());
  if (!definition || mask.size() != 3) return std::nullopt;
  const bool of_data = absl::EqualsIgnoreCase(mask[0], "true"), of_weights = absl::EqualsIgnoreCase(mask[1], "true");
  if (!of_data && !of_weights) return std::nullopt;
  if (of_data != of_weights) ChooseGradient(of_weights, &*definition);
  return definition;
}

// Q, K and V from input `first` on, as [batch, heads, length, width], or with `lengths_first` [batch, length, heads, width].
struct AttentionInputs {
  string_view name;  // without "aten::"
  size_t first;
  size_t causal;
  bool lengths_first = false;
};
constexpr AttentionInputs kAttentions[] = {
    {"scaled_dot_product_attention", 0, 5},
    {"_scaled_dot_product_attention_math", 0, 5},
    {"_scaled_dot_product_flash_attention", 0, 4},
    {"_scaled_dot_product_flash_attention_for_cpu", 0, 4},
    {"_scaled_dot_product_efficient_attention", 0, 6},
    {"_scaled_dot_product_cudnn_attention", 0, 6},
    {"_scaled_dot_product_fused_attention_overrideable", 0, 5},
    {"_scaled_dot_product_flash_attention_backward", 1, 11},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", 1, 7},
    {"_scaled_dot_product_efficient_attention_backward", 1, 11},
    {"_scaled_dot_product_cudnn_attention_backward", 1, 14},
    {"_scaled_dot_product_fused_attention_overrideable_backward", 1, 13},
    {"_flash_attention_forward", 0, 8, true},
    {"_flash_attention_backward", 1, 11, true},
    {"flash_attn::_flash_attn_forward", 0, 5, true},
    {"flash_attn::_flash_attn_backward", 1, 11, true},
};

Definition Attention(const Event& event, const AttentionInputs& inputs) {
  const char* const operation = absl::EndsWith(inputs.name, "_backward") ? "attention_backward" : "attention_forward";
  trace::OpDefinition definition;
  trace::Cudnn* op = NewNetworkOp(&definition, operation);
  trace::CudnnPlan* plan = op->mutable_plan();
  plan->set_engine(-1);
  plan->set_heuristic_mode(-1);
  plan->set_heuristic_rank(-1);
  trace::CudnnNode* node = plan->add_node();
  node->set_operation(operation);
  if (absl::EqualsIgnoreCase(event.InputAt(inputs.causal).value, "true")) node->set_mode("causal");
  for (size_t i = inputs.first; i < inputs.first + 3; ++i) {
    const Input& input = event.InputAt(i);
    if (!IsTensor(input, 4)) return std::nullopt;
    Dims dims = input.dims;
    if (inputs.lengths_first) std::swap(dims[1], dims[2]);
    node->add_input_uid(AddTensor(op, Tensor::INPUT, TypeOf(input), dims).uid());
  }
  return definition;
}

struct CollectiveName {
  string_view name;  // without underscores
  trace::Collective::Kind kind;
};
constexpr CollectiveName kCollectives[] = {
    {"allreduce", trace::Collective::ALL_REDUCE},
    {"allreducecoalesced", trace::Collective::ALL_REDUCE},
    {"broadcast", trace::Collective::BROADCAST},
    {"reduce", trace::Collective::REDUCE},
    {"allgather", trace::Collective::ALL_GATHER},
    {"allgatherbase", trace::Collective::ALL_GATHER},
    {"allgatherintotensorcoalesced", trace::Collective::ALL_GATHER},
    {"reducescatter", trace::Collective::REDUCE_SCATTER},
    {"reducescatterbase", trace::Collective::REDUCE_SCATTER},
    {"reducescattertensorcoalesced", trace::Collective::REDUCE_SCATTER},
    {"send", trace::Collective::SEND},
    {"recv", trace::Collective::RECEIVE},
    {"alltoall", trace::Collective::ALL_TO_ALL},
    {"alltoallbase", trace::Collective::ALL_TO_ALL},
    {"alltoallv", trace::Collective::ALL_TO_ALL},
    {"gather", trace::Collective::GATHER},
    {"scatter", trace::Collective::SCATTER},
    {"barrier", trace::Collective::BARRIER},
};

// The communicator's number and the caller's rank in it depend on the trace: see KinetoImport.
Definition Collective(const Event& event) {
  std::string name = event.collective;
  std::erase(name, '_');
  const auto known = absl::c_find_if(kCollectives, [&](auto& one) { return one.name == name; });
  if (known == std::end(kCollectives)) return std::nullopt;  // "wait", for example
  trace::OpDefinition definition;
  trace::Collective& op = *definition.mutable_collective();
  op.set_kind(known->kind);
  op.set_reduction(-1);
  op.set_peer(-1);
  op.set_rank(-1);
  op.set_ranks(static_cast<int32_t>(std::clamp<int64_t>(event.group_size, 0, INT32_MAX)));
  // As NCCL counts: one rank's part.
  const bool is_received =
      known->kind == trace::Collective::RECEIVE || known->kind == trace::Collective::REDUCE_SCATTER;
  const int64_t parts = known->kind == trace::Collective::ALL_TO_ALL ? std::max<int64_t>(event.group_size, 1) : 1;
  const int64_t count = (is_received ? event.received : event.sent) / parts;
  op.set_count(static_cast<uint64_t>(std::clamp<int64_t>(count, 0, kMostSize)));
  if (const Type* type = FindType(event.type)) {
    op.set_data_type(type->type);
    op.set_bytes(op.count() * type->bytes);
  }
  return definition;
}

using Define = Definition (*)(const Event&);

const absl::flat_hash_map<string_view, Define>& Operators() {
  static const auto& kOperators = *new absl::flat_hash_map<string_view, Define>{
      {"aten::mm", [](const Event& e) { return Product(e.InputAt(0), e.InputAt(1), 2); }},
      {"aten::_int_mm", IntegerProduct},
      {"aten::addmm", [](const Event& e) { return Product(e.InputAt(1), e.InputAt(2), 2); }},
      {"aten::_addmm_activation", [](const Event& e) { return Product(e.InputAt(1), e.InputAt(2), 2); }},
      {"aten::bmm", [](const Event& e) { return Product(e.InputAt(0), e.InputAt(1), 3); }},
      {"aten::baddbmm", [](const Event& e) { return Product(e.InputAt(1), e.InputAt(2), 3); }},
      {"aten::baddbmm_", [](const Event& e) { return Product(e.InputAt(1), e.InputAt(2), 3); }},
      {"aten::addbmm", [](const Event& e) { return Product(e.InputAt(1), e.InputAt(2), 3); }},
      {"aten::mv", [](const Event& e) { return VectorProduct(e.InputAt(0), e.InputAt(1)); }},
      {"aten::addmv_", [](const Event& e) { return VectorProduct(e.InputAt(1), e.InputAt(2)); }},
      {"aten::linear", [](const Event& e) { return Linear(e.InputAt(0), e.InputAt(1)); }},
      {"aten::_scaled_mm", [](const Event& e) { return ScaledProduct(e, 6); }},
      {"aten::convolution", Convolution},
      {"aten::_convolution", Convolution},
      {"aten::convolution_backward", ConvolutionBackward},
      {"record_param_comms", Collective},
  };
  return kOperators;
}

}  // namespace

Definition DefineOperator(const Event& event) {
  const auto found = Operators().find(event.name);
  if (found != Operators().end()) return found->second(event);
  const string_view name = absl::StripPrefix(event.name, "aten::");
  const auto attention = absl::c_find_if(kAttentions, [&](const AttentionInputs& one) { return one.name == name; });
  return attention == std::end(kAttentions) ? std::nullopt : Attention(event, *attention);
}

bool HasBothGradients(const trace::OpDefinition& definition) {
  return definition.cudnn().operation() == kBothGradients;
}

void ChooseGradient(bool of_weights, trace::OpDefinition* definition) {
  definition->mutable_cudnn()->set_operation(of_weights ? "convolution_backward_weights" : "convolution_backward_data");
  for (Tensor& tensor : *definition->mutable_cudnn()->mutable_tensor()) {
    if (tensor.role() == Tensor::Y) tensor.set_role(Tensor::DY);
    if (tensor.role() == Tensor::X && !of_weights) tensor.set_role(Tensor::DX);
    if (tensor.role() == Tensor::W && of_weights) tensor.set_role(Tensor::DW);
  }
}

Gradient GradientOfKernel(string_view name) {
  for (const char* word : {"wgrad", "wrw", "WrW", "bwd_weight", "backward_filter", "BackwardWeight"}) {
    if (absl::StrContains(name, word)) return Gradient::kWeights;
  }
  for (const char* word : {"dgrad", "bwd_data", "igemm_bwd", "BackwardData"}) {
    if (absl::StrContains(name, word)) return Gradient::kData;
  }
  return Gradient::kUnknown;
}

bool CarriesOut(string_view name) {
  if (!absl::ConsumePrefix(&name, "aten::")) return false;
  for (const char* one :
       {"cudnn_convolution", "miopen_convolution", "miopen_depthwise_convolution", "mkldnn_convolution",
        "cudnn_convolution_relu", "_conv_depthwise2d", "conv_depthwise3d", "_efficient_attention_forward",
        "_efficient_attention_backward", "mkldnn_linear", "_nnpack_spatial_convolution"}) {
    if (name == one) return true;
  }
  return false;
}

}  // namespace dlhook::analyzer::kineto
