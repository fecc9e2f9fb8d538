#include "analyzer/ops/cudnn_problem.h"

#include "analyzer/model/op_cost.h"

namespace dlhook::analyzer::inline ops {
namespace {

using Recorded = trace::CudnnTensor;

constexpr int kMaxProblemDims = 12;  // CUDNN_TENSOR_DIM_MAX is smaller
constexpr absl::string_view kAxes = "dhw";

const Recorded* Source(const trace::Cudnn& cudnn) {
  return FindTensor(cudnn, {Recorded::X, Recorded::DX, Recorded::INPUT});
}

const Recorded* Result(const trace::Cudnn& cudnn) {
  return FindTensor(cudnn, {Recorded::Y, Recorded::DY, Recorded::OUTPUT});
}

using Integers = google::protobuf::RepeatedField<int64_t>;

int64_t At(const Integers& list, int i, int64_t otherwise) { return i < list.size() ? list.Get(i) : otherwise; }

struct Windows {
  const Integers& pad;
  const Integers& stride;
  const Integers& dilation;
};

// Those of a graph are in its main node.
Windows WindowsOf(const trace::Cudnn& cudnn) {
  const trace::CudnnNode* node = MainNode(cudnn);
  if (node != nullptr && cudnn.stride_size() == 0) return {node->pad(), node->stride(), node->dilation()};
  return {cudnn.pad(), cudnn.stride(), cudnn.dilation()};
}

// "_ih32oh30kh3sh1dh0ph0_iw…" for the spatial dimensions of `src` and `dst`. `kernel` is -1 if not known. oneDNN counts
// dilation from 0.
template <typename Kernel>
std::string SpatialText(const Recorded& src, const Recorded& dst, const Windows& windows, Kernel kernel,
                        bool has_dilation) {
  std::string text;
  const int rank = src.dim_size() - 2;
  if (rank < 1 || rank > 3 || dst.dim_size() != src.dim_size()) return text;
  for (int i = 0; i < rank; ++i) {
    const std::string axis(1, kAxes[kAxes.size() - rank + i]);
    absl::StrAppend(&text, "_i", axis, src.dim(i + 2), "o", axis, dst.dim(i + 2));
    if (kernel(i) > 0) absl::StrAppend(&text, "k", axis, kernel(i));
    const int64_t dilation = has_dilation ? At(windows.dilation, i, 1) - 1 : 0;
    absl::StrAppend(&text, "s", axis, At(windows.stride, i, 1), "d", axis, dilation, "p", axis, At(windows.pad, i, 0));
  }
  return text;
}

// As recorded, or for a graph as the channels of image and filter imply.
int64_t Groups(const trace::Cudnn& cudnn, const Recorded& src, const Recorded* wei) {
  if (cudnn.groups() > 0) return cudnn.groups();
  const int64_t channels = wei && wei->dim_size() > 1 ? wei->dim(1) : 0;
  return channels > 0 && src.dim(1) % channels == 0 ? src.dim(1) / channels : 1;
}

std::string ConvolutionProblem(const trace::Cudnn& cudnn) {
  const Recorded* src = Source(cudnn);
  const Recorded* wei = FindTensor(cudnn, {Recorded::W, Recorded::DW});
  const Recorded* dst = Result(cudnn);
  if (!src || !dst || src->dim_size() < 2 || dst->dim_size() < 2) return "";
  const auto kernel = [&](int i) { return wei ? At(wei->dim(), i + 2, -1) : -1; };
  const int64_t groups = Groups(cudnn, *src, wei);
  std::string text = groups > 1 ? absl::StrCat("g", groups) : "";
  absl::StrAppend(&text, "mb", src->dim(0), "_ic", src->dim(1), "oc", dst->dim(1));
  return absl::StrCat(text, SpatialText(*src, *dst, WindowsOf(cudnn), kernel, /*has_dilation=*/true));
}

// The shim stores a pooling's window in the field for dilation.
std::string PoolingProblem(const trace::Cudnn& cudnn) {
  const Recorded* src = Source(cudnn);
  const Recorded* dst = Result(cudnn);
  if (!src || !dst || src->dim_size() < 2) return "";
  const Windows windows = WindowsOf(cudnn);
  const auto window = [&](int i) { return At(windows.dilation, i, -1); };
  return absl::StrCat("mb", src->dim(0), "ic", src->dim(1),
                      SpatialText(*src, *dst, windows, window, /*has_dilation=*/false));
}

std::string NormalizationProblem(const Recorded& src) {
  const int rank = src.dim_size() - 2;
  if (rank < 0 || rank > 3) return absl::StrJoin(src.dim(), "x");
  std::string text = absl::StrCat("mb", src.dim(0), "ic", src.dim(1));
  for (int i = 0; i < rank; ++i) {
    const std::string axis(1, kAxes[kAxes.size() - rank + i]);
    absl::StrAppend(&text, "i", axis, src.dim(i + 2));
  }
  return text;
}

// The shim stores the number of layers in the field for groups.
std::string RnnProblem(const trace::Cudnn& cudnn) {
  const Recorded* x = Source(cudnn);
  const Recorded* y = Result(cudnn);
  if (!x || x->dim_size() != 3) return "";
  std::string text = cudnn.groups() > 0 ? absl::StrCat("l", cudnn.groups()) : "";
  absl::StrAppend(&text, "t", x->dim(0), "mb", x->dim(1), "slc", x->dim(2));
  if (y && y->dim_size() == 3) absl::StrAppend(&text, "dic", y->dim(2));
  return text;
}

std::string ListOf(const std::vector<const Recorded*>& tensors) {
  return absl::StrJoin(tensors, ":", [](std::string* text, const Recorded* tensor) {
    absl::StrAppend(text, absl::StrJoin(tensor->dim(), "x"));
  });
}

// What the main node reads, without scalars; for legacy calls X and what is added to it.
std::vector<const Recorded*> Inputs(const trace::Cudnn& cudnn) {
  std::vector<const Recorded*> inputs;
  if (const trace::CudnnNode* node = MainNode(cudnn)) {
    for (int64_t uid : node->input_uid()) {
      const Recorded* tensor = FindTensor(cudnn, uid);
      if (tensor && !tensor->by_value()) inputs.push_back(tensor);
    }
    return inputs;
  }
  for (const Recorded& tensor : cudnn.tensor()) {
    const bool is_input =
        tensor.role() == Recorded::X || tensor.role() == Recorded::INPUT || tensor.role() == Recorded::BIAS;
    if (is_input && tensor.dim_size() > 0 && tensor.dim_size() <= kMaxProblemDims) inputs.push_back(&tensor);
  }
  return inputs;
}

std::optional<int64_t> Add(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

// A is the first input of a matmul node: [batch…, m, k].
std::optional<int64_t> MatmulFlops(const trace::Cudnn& cudnn, const trace::CudnnNode& node) {
  if (node.input_uid_size() < 2 || node.output_uid_size() < 1) return std::nullopt;
  const Recorded* a = FindTensor(cudnn, node.input_uid(0));
  const Recorded* c = FindTensor(cudnn, node.output_uid(0));
  if (!a || !c) return std::nullopt;
  return MatMulFlops(DimsOf(*a), DimsOf(*c));
}

bool IsCausal(const trace::CudnnNode& node) { return node.mode() == "causal"; }

// Q, K and V are the first inputs of the node: [batch, heads, length, width]. The forward pass has two products over
// every pair of positions, the backward pass four, and one that repeats the first. Causal, each position sees those before it:
// half of the pairs, as FlashAttention's benchmark counts; of other lengths than the keys' the definition varies, and all count.
std::optional<int64_t> AttentionFlops(const trace::Cudnn& cudnn, const trace::CudnnNode& node) {
  if (node.input_uid_size() < 3) return std::nullopt;
  const Recorded* q = FindTensor(cudnn, node.input_uid(0));
  const Recorded* k = FindTensor(cudnn, node.input_uid(1));
  const Recorded* v = FindTensor(cudnn, node.input_uid(2));
  if (!q || !k || !v || q->dim_size() != 4 || k->dim_size() != 4 || v->dim_size() != 4) return std::nullopt;
  std::optional<int64_t> scores = MatMulFlops(DimsOf(*q), {q->dim(0), q->dim(1), q->dim(2), k->dim(2)});
  std::optional<int64_t> sums = MatMulFlops({k->dim(2)}, {q->dim(0), q->dim(1), q->dim(2), v->dim(3)});
  if (!scores || !sums) return std::nullopt;
  if (IsCausal(node) && q->dim(2) == k->dim(2)) {
    *scores /= 2;
    *sums /= 2;
  }
  const std::optional<int64_t> forward = Add(scores, sums);
  if (node.operation() != "attention_backward") return forward;
  return Add(Add(forward, forward), scores);
}

std::optional<int64_t> ConvolutionFlopsOf(const trace::Cudnn& cudnn) {
  const Recorded* wei = FindTensor(cudnn, {Recorded::W, Recorded::DW});
  const Recorded* dst = Result(cudnn);
  if (!wei || !dst || wei->dim_size() < 3) return std::nullopt;
  return ConvolutionFlops(DimsOf(*dst), DimsOf(*wei));
}

using Order = std::vector<size_t>;  // dimensions, outermost first

std::string Letters(size_t rank) {
  constexpr const char* kUsual[] = {"", "n", "nc", "ncw", "nchw", "ncdhw"};
  return rank < std::size(kUsual) ? kUsual[rank] : std::string("abcdefghijkl").substr(0, rank);
}

// nchw, nhwc, chwn and the equivalents for other ranks.
std::vector<Order> CommonOrders(size_t rank) {
  Order first(rank);
  absl::c_iota(first, 0);
  if (rank < 3) return {first};
  Order channels_last = first, batch_last = first;
  std::rotate(channels_last.begin() + 1, channels_last.begin() + 2, channels_last.end());
  std::rotate(batch_last.begin(), batch_last.begin() + 1, batch_last.end());
  return {first, channels_last, batch_last};
}

// Whether the elements are in this order without gaps. `exactly`: dimensions of one element, too, have the stride that
// this order gives them.
bool IsPacked(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, const Order& order, bool exactly) {
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t dim = order[i];
    if ((exactly || dims[dim] != 1) && strides[dim] != stride) return false;
    if (__builtin_mul_overflow(stride, dims[dim], &stride)) return false;
  }
  return true;
}

std::string Name(const Order& order) {
  const std::string letters = Letters(order.size());
  std::string name;
  for (size_t dim : order) name += letters[dim];
  return name;
}

}  // namespace

const trace::CudnnTensor* FindTensor(const trace::Cudnn& cudnn, std::initializer_list<trace::CudnnTensor::Role> roles) {
  for (trace::CudnnTensor::Role role : roles) {
    for (const Recorded& tensor : cudnn.tensor()) {
      const bool has_dims = tensor.dim_size() > 0 && tensor.dim_size() <= kMaxProblemDims;
      if (tensor.role() == role && has_dims) return &tensor;
    }
  }
  return nullptr;
}

const trace::CudnnTensor* FindTensor(const trace::Cudnn& cudnn, int64_t uid) {
  for (const Recorded& tensor : cudnn.tensor()) {
    if (tensor.uid() == uid && tensor.dim_size() > 0 && tensor.dim_size() <= kMaxProblemDims) return &tensor;
  }
  return nullptr;
}

std::vector<int64_t> DimsOf(const trace::CudnnTensor& tensor) { return {tensor.dim().begin(), tensor.dim().end()}; }

const trace::CudnnNode* MainNode(const trace::Cudnn& cudnn) {
  for (const trace::CudnnNode& node : cudnn.plan().node()) {
    if (node.operation() == cudnn.operation()) return &node;
  }
  return cudnn.plan().node_size() > 0 ? &cudnn.plan().node(0) : nullptr;
}

std::string CudnnProblem(const trace::Cudnn& cudnn, const std::string& kind) {
  const Recorded* first = FindTensor(
      cudnn, {Recorded::X, Recorded::DX, Recorded::INPUT, Recorded::DY, Recorded::Y, Recorded::W, Recorded::OUTPUT});
  if (!first) return "";
  std::string text;
  if (kind == "convolution") text = ConvolutionProblem(cudnn);
  if (kind == "pooling") text = PoolingProblem(cudnn);
  if (kind == "rnn") text = RnnProblem(cudnn);
  if (kind == "lrn" || absl::EndsWith(kind, "_normalization")) text = NormalizationProblem(*first);
  if (kind == "matmul" || kind == "binary") text = ListOf(Inputs(cudnn));
  if (kind == "reduction" || kind == "resampling") {
    const Recorded* result = Result(cudnn);
    text = result ? ListOf({first, result}) : "";
  }
  if (text.empty()) text = absl::StrJoin(first->dim(), "x");
  const trace::CudnnNode* const main = MainNode(cudnn);
  return main != nullptr && IsCausal(*main) ? absl::StrCat(text, " causal") : text;
}

std::optional<int64_t> CudnnFlops(const trace::Cudnn& cudnn, const std::string& kind) {
  if (kind == "convolution") return ConvolutionFlopsOf(cudnn);
  std::optional<int64_t> sum = 0;
  bool any = false;
  for (const trace::CudnnNode& node : cudnn.plan().node()) {
    const bool attention = absl::StartsWith(node.operation(), "attention_");
    if (!attention && node.operation() != "matmul") continue;
    any = true;
    sum = Add(sum, attention ? AttentionFlops(cudnn, node) : MatmulFlops(cudnn, node));
  }
  return any ? sum : std::nullopt;
}

std::string TensorFormat(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  const size_t rank = dims.size();
  if (rank == 0 || rank > kMaxProblemDims || strides.size() != rank) return "";
  const std::vector<Order> common = CommonOrders(rank);
  for (const bool exactly : {true, false}) {
    for (const Order& order : common) {
      if (IsPacked(dims, strides, order, exactly)) return Name(order);
    }
  }
  Order by_stride = common[0];
  absl::c_stable_sort(by_stride, [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  return IsPacked(dims, strides, by_stride, /*exactly=*/false) ? Name(by_stride) : "strided";
}

}  // namespace dlhook::analyzer::ops
