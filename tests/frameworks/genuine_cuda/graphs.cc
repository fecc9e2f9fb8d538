// See graphs.h. Attribute numbers: cudnn_graph_v9.h.
#include "graphs.h"

namespace genuine {
namespace {

// Strides of logical N, C, [D,] H, W with C innermost or not.
std::vector<int64_t> Strides(const std::vector<int64_t>& dims, bool channels_last) {
  std::vector<int64_t> strides(dims.size());
  int64_t distance = 1;
  if (channels_last) {
    strides[1] = 1;
    distance = dims[1];
  }
  for (size_t i = dims.size(); i-- > 0;) {
    if (channels_last && i == 1) continue;
    strides[i] = distance;
    distance *= dims[i];
  }
  return strides;
}

// The tensors of one graph: remembers which of them a variant pack must name.
class Tensors {
 public:
  explicit Tensors(Graph* graph) : graph_(graph) {}
  Descriptor Make(int64_t uid, int type, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides,
                  bool is_virtual = false, bool by_value = false) {
    Descriptor tensor(kTensor);
    tensor.Enum(901, kDataType, type).Numbers(902, dims).Numbers(903, strides).Number(906, uid).Number(900, 16);
    if (is_virtual) tensor.Bool(907, true);
    if (by_value) tensor.Bool(908, true);
    tensor.Finalize();
    if (!is_virtual) graph_->uids.push_back(uid);
    return tensor;
  }

 private:
  Graph* graph_;
};

void Finish(Graph* graph, const std::vector<const Descriptor*>& operations) {
  std::vector<Handle> handles;
  for (const Descriptor* operation : operations) handles.push_back(operation->get());
  graph->descriptor = Descriptor(kOperationGraph);
  graph->descriptor.Set(801, kDescriptor, handles.data(), static_cast<int64_t>(handles.size()));
  graph->status = graph->descriptor.TryFinalize();
}

Descriptor ConvolutionDescriptor(const std::vector<int64_t>& pad, const std::vector<int64_t>& post_pad,
                                 const std::vector<int64_t>& stride, const std::vector<int64_t>& dilation, int mode) {
  Descriptor convolution(kConvolution);
  convolution.Enum(100, kDataType, kF32).Enum(101, kConvolutionMode, mode);
  convolution.Number(106, static_cast<int64_t>(pad.size()));
  convolution.Numbers(105, pad).Numbers(104, post_pad).Numbers(103, stride).Numbers(102, dilation);
  convolution.Finalize();
  return convolution;
}

// First attribute number of each direction's operation: alpha, beta, convolution, then the tensors.
struct OperationNumbers {
  int type, alpha, convolution, x, w, y;
};
OperationNumbers NumbersOf(Direction direction) {
  switch (direction) {
    case Direction::kForward:
      return {kConvolutionForward, 700, 702, 704, 703, 705};
    case Direction::kBackwardData:
      return {kConvolutionBackwardData, 706, 708, 710, 709, 711};
    case Direction::kBackwardFilter:
      break;
  }
  return {kConvolutionBackwardFilter, 712, 714, 716, 715, 717};
}

Descriptor ConvolutionOperation(Direction direction, const Descriptor& convolution, const Descriptor& x,
                                const Descriptor& w, const Descriptor& y) {
  OperationNumbers numbers = NumbersOf(direction);
  Descriptor operation(numbers.type);
  operation.Child(numbers.convolution, convolution).Child(numbers.x, x).Child(numbers.w, w).Child(numbers.y, y);
  operation.Float(numbers.alpha, 1).Float(numbers.alpha + 1, 0).Finalize();
  return operation;
}

struct Shapes {
  std::vector<int64_t> x, w, y;
};
Shapes ShapesOf(const Layer& layer) {
  auto size = [&](int64_t input, int64_t window) {
    return (input + 2 * layer.pad - (window - 1) * layer.dilation - 1) / layer.stride + 1;
  };
  return {{layer.batch, layer.channels, layer.height, layer.width},
          {layer.filters, layer.channels / layer.groups, layer.filter_height, layer.filter_width},
          {layer.batch, layer.filters, size(layer.height, layer.filter_height), size(layer.width, layer.filter_width)}};
}

Descriptor LayerConvolution(const Layer& layer) {
  constexpr int kCrossCorrelation = 1;
  return ConvolutionDescriptor({layer.pad, layer.pad}, {layer.pad, layer.pad}, {layer.stride, layer.stride},
                               {layer.dilation, layer.dilation}, kCrossCorrelation);
}

// y = f(x, b); b may be null.
Descriptor Pointwise(int mode, const Descriptor& x, const Descriptor* b, const Descriptor& y) {
  Descriptor function(kPointwise);
  function.Enum(0, kPointwiseMode, mode).Enum(1, kDataType, kF32).Finalize();
  Descriptor operation(kOperationPointwise);
  operation.Child(750, function).Child(751, x).Child(753, y);
  if (b != nullptr) operation.Child(752, *b);
  operation.Finalize();
  return operation;
}
// A product and a reduction with f32 inside.
Descriptor Product(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
  Descriptor product(kMatmul);
  product.Enum(1500, kDataType, kF32).Finalize();
  Descriptor operation(kOperationMatmul);
  operation.Child(1520, a).Child(1521, b).Child(1522, c).Child(1523, product).Finalize();
  return operation;
}
Descriptor Reduction(int operator_, const Descriptor& x, const Descriptor& y) {
  Descriptor reduction(kReduction);
  reduction.Enum(1600, kReductionOperator, operator_).Enum(1601, kDataType, kF32).Finalize();
  Descriptor operation(kOperationReduction);
  operation.Child(1610, x).Child(1611, y).Child(1612, reduction).Finalize();
  return operation;
}
// cudnnReduceTensorOp_t
constexpr int kSum = 0;
constexpr int kMaximum = 3;
// cudnnPointwiseMode_t
constexpr int kAdd = 0;
constexpr int kMultiply = 1;
constexpr int kDivide = 6;
constexpr int kSubtract = 9;
constexpr int kExponential = 13;
constexpr int kLogarithm = 15;
constexpr int kRelu = 100;
constexpr int kGelu = 104;

}  // namespace

std::string NameOf(const Layer& layer, const Variant& variant) {
  const char* direction = variant.direction == Direction::kForward        ? " forward"
                          : variant.direction == Direction::kBackwardData ? " backward_data"
                                                                          : " backward_filter";
  const char* type = variant.type == kF32 ? " f32" : variant.type == kF16 ? " f16" : " bf16";
  return std::string(layer.name) + direction + type + (variant.channels_last ? " nhwc" : " nchw");
}

Graph ConvolutionGraph(const Layer& layer, const Variant& variant) {
  Graph graph;
  Tensors tensors(&graph);
  Shapes shapes = ShapesOf(layer);
  Descriptor x = tensors.Make('x', variant.type, shapes.x, Strides(shapes.x, variant.channels_last));
  Descriptor w = tensors.Make('w', variant.type, shapes.w, Strides(shapes.w, variant.channels_last));
  Descriptor y = tensors.Make('y', variant.type, shapes.y, Strides(shapes.y, variant.channels_last));
  Descriptor operation = ConvolutionOperation(variant.direction, LayerConvolution(layer), x, w, y);
  Finish(&graph, {&operation});
  return graph;
}

Graph FusedConvolutionGraph(const Layer& layer, const Variant& variant) {
  Graph graph;
  Tensors tensors(&graph);
  Shapes shapes = ShapesOf(layer);
  std::vector<int64_t> bias_dims = {1, layer.filters, 1, 1};
  std::vector<int64_t> y_strides = Strides(shapes.y, variant.channels_last);
  Descriptor x = tensors.Make('x', variant.type, shapes.x, Strides(shapes.x, variant.channels_last));
  Descriptor w = tensors.Make('w', variant.type, shapes.w, Strides(shapes.w, variant.channels_last));
  Descriptor z = tensors.Make('z', variant.type, shapes.y, y_strides);
  Descriptor b = tensors.Make('b', variant.type, bias_dims, Strides(bias_dims, variant.channels_last));
  Descriptor y = tensors.Make('y', variant.type, shapes.y, y_strides);
  Descriptor product = tensors.Make('C', kF32, shapes.y, y_strides, true);
  Descriptor sum = tensors.Make('A', kF32, shapes.y, y_strides, true);
  Descriptor biased = tensors.Make('B', kF32, shapes.y, y_strides, true);
  Descriptor operation = ConvolutionOperation(Direction::kForward, LayerConvolution(layer), x, w, product);
  Descriptor add = Pointwise(kAdd, product, &z, sum);
  Descriptor bias = Pointwise(kAdd, sum, &b, biased);
  Descriptor relu = Pointwise(kRelu, biased, nullptr, y);
  Finish(&graph, {&operation, &add, &bias, &relu});
  return graph;
}

Graph ConvolutionWithUnevenPadGraph() {
  Graph graph;
  Tensors tensors(&graph);
  std::vector<int64_t> x_dims = {4, 32, 28, 30}, w_dims = {64, 32, 3, 5}, y_dims = {4, 64, 14, 15};
  Descriptor x = tensors.Make(7, kF16, x_dims, Strides(x_dims, true));
  Descriptor w = tensors.Make(-8, kF16, w_dims, Strides(w_dims, true));
  Descriptor y = tensors.Make(int64_t{1} << 40, kF16, y_dims, Strides(y_dims, true));
  // TensorFlow's "same" padding of a strided convolution: one more at the end.
  Descriptor convolution = ConvolutionDescriptor({0, 1}, {1, 2}, {2, 2}, {1, 1}, 1);
  Descriptor operation = ConvolutionOperation(Direction::kForward, convolution, x, w, y);
  Finish(&graph, {&operation});
  return graph;
}

Graph VolumeConvolutionGraph() {
  Graph graph;
  Tensors tensors(&graph);
  std::vector<int64_t> x_dims = {2, 16, 9, 17, 21}, w_dims = {24, 16, 3, 1, 5}, y_dims = {2, 24, 9, 9, 19};
  Descriptor x = tensors.Make('x', kF16, x_dims, Strides(x_dims, true));
  Descriptor w = tensors.Make('w', kF16, w_dims, Strides(w_dims, true));
  Descriptor y = tensors.Make('y', kF16, y_dims, Strides(y_dims, true));
  Descriptor convolution = ConvolutionDescriptor({2, 0, 3}, {2, 0, 3}, {1, 2, 1}, {2, 1, 2}, 1);
  Descriptor operation = ConvolutionOperation(Direction::kForward, convolution, x, w, y);
  Finish(&graph, {&operation});
  return graph;
}

Graph PoolingGraph() {
  Graph graph;
  Tensors tensors(&graph);
  std::vector<int64_t> x_dims = {8, 64, 112, 112}, y_dims = {8, 64, 56, 56};
  Descriptor x = tensors.Make('x', kF16, x_dims, Strides(x_dims, true));
  Descriptor y = tensors.Make('y', kF16, y_dims, Strides(y_dims, true));
  constexpr int kAveragePadding = 2;  // CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING
  constexpr int kZeroPad = 0;         // CUDNN_ZERO_PAD
  Descriptor pooling(kResample);
  pooling.Enum(1700, kResampleMode, kAveragePadding).Enum(1701, kDataType, kF32).Enum(1708, kPaddingMode, kZeroPad);
  pooling.Number(1702, 2)
      .Numbers(1704, {1, 1})
      .Numbers(1703, {1, 1})
      .Numbers(1705, {2, 2})
      .Numbers(1706, {3, 3})
      .Finalize();
  Descriptor operation(kOperationResampleForward);
  operation.Child(1710, x).Child(1711, y).Child(1716, pooling).Finalize();
  Finish(&graph, {&operation});
  return graph;
}

Graph MatmulGraph(bool fused) {
  Graph graph;
  Tensors tensors(&graph);
  constexpr int64_t kBatch = 12, kRows = 128, kColumns = 96, kDepth = 64;
  Descriptor a = tensors.Make(1, kBf16, {kBatch, kRows, kDepth}, {kRows * kDepth, kDepth, 1});
  Descriptor b = tensors.Make(2, kBf16, {kBatch, kDepth, kColumns}, {kDepth * kColumns, 1, kDepth});
  Descriptor c =
      tensors.Make(3, fused ? kF32 : kBf16, {kBatch, kRows, kColumns}, {kRows * kColumns, kColumns, 1}, fused);
  Descriptor operation = Product(a, b, c);
  if (!fused) {
    Finish(&graph, {&operation});
    return graph;
  }
  Descriptor bias = tensors.Make(4, kBf16, {1, 1, kColumns}, {kColumns, kColumns, 1});
  Descriptor biased = tensors.Make(5, kF32, {kBatch, kRows, kColumns}, {kRows * kColumns, kColumns, 1}, true);
  Descriptor d = tensors.Make(6, kBf16, {kBatch, kRows, kColumns}, {kRows * kColumns, kColumns, 1});
  Descriptor add = Pointwise(kAdd, c, &bias, biased);
  Descriptor gelu = Pointwise(kGelu, biased, nullptr, d);
  Finish(&graph, {&operation, &add, &gelu});
  return graph;
}

Graph ReductionGraph() {
  Graph graph;
  Tensors tensors(&graph);
  std::vector<int64_t> x_dims = {32, 256, 14, 14}, y_dims = {1, 256, 1, 1};
  Descriptor x = tensors.Make('x', kF32, x_dims, Strides(x_dims, true));
  Descriptor y = tensors.Make('y', kF32, y_dims, Strides(y_dims, true));
  Descriptor operation = Reduction(kSum, x, y);
  Finish(&graph, {&operation});
  return graph;
}

Graph LayerNormGraph() {
  Graph graph;
  Tensors tensors(&graph);
  std::vector<int64_t> x_dims = {512, 768, 1, 1}, scale_dims = {1, 768, 1, 1}, row_dims = {512, 1, 1, 1},
                       one = {1, 1, 1, 1};
  Descriptor x = tensors.Make(1, kBf16, x_dims, Strides(x_dims, true));
  Descriptor scale = tensors.Make(2, kF32, scale_dims, Strides(scale_dims, true));
  Descriptor bias = tensors.Make(3, kF32, scale_dims, Strides(scale_dims, true));
  Descriptor epsilon = tensors.Make(4, kF32, one, {1, 1, 1, 1}, false, true);
  Descriptor mean = tensors.Make(5, kF32, row_dims, Strides(row_dims, true));
  Descriptor variance = tensors.Make(6, kF32, row_dims, Strides(row_dims, true));
  Descriptor y = tensors.Make(7, kBf16, x_dims, Strides(x_dims, true));
  constexpr int kLayerNorm = 0, kTraining = 1;
  Descriptor operation(kNormForward);
  operation.Enum(2000, kNormMode, kLayerNorm).Enum(2001, kNormPhase, kTraining);
  operation.Child(2002, x)
      .Child(2003, mean)
      .Child(2004, variance)
      .Child(2005, scale)
      .Child(2006, bias)
      .Child(2007, epsilon);
  operation.Child(2013, y).Finalize();
  Finish(&graph, {&operation});
  return graph;
}

Graph BatchNormGraph() {
  Graph graph;
  Tensors tensors(&graph);
  std::vector<int64_t> x_dims = {8, 64, 56, 56}, c_dims = {1, 64, 1, 1}, one = {1, 1, 1, 1};
  Descriptor x = tensors.Make(1, kF16, x_dims, Strides(x_dims, true));
  Descriptor y = tensors.Make(2, kF16, x_dims, Strides(x_dims, true));
  std::vector<Descriptor> channels;
  for (int64_t uid = 3; uid <= 10; ++uid) channels.push_back(tensors.Make(uid, kF32, c_dims, Strides(c_dims, true)));
  Descriptor epsilon = tensors.Make(11, kF32, one, {1, 1, 1, 1}, false, true);
  Descriptor momentum = tensors.Make(12, kF32, one, {1, 1, 1, 1}, false, true);
  constexpr int kBatchNorm = 2, kTraining = 1;
  Descriptor operation(kNormForward);
  operation.Enum(2000, kNormMode, kBatchNorm).Enum(2001, kNormPhase, kTraining);
  operation.Child(2002, x).Child(2013, y).Child(2007, epsilon).Child(2008, momentum);
  constexpr int kChannelAttributes[] = {2003, 2004, 2005, 2006, 2009, 2010, 2011, 2012};
  for (size_t i = 0; i < channels.size(); ++i) operation.Child(kChannelAttributes[i], channels[i]);
  operation.Finalize();
  Finish(&graph, {&operation});
  return graph;
}

Graph NormBackwardGraph() {
  Graph graph;
  Tensors tensors(&graph);
  std::vector<int64_t> x_dims = {512, 768, 1, 1}, scale_dims = {1, 768, 1, 1}, row_dims = {512, 1, 1, 1};
  Descriptor x = tensors.Make(1, kBf16, x_dims, Strides(x_dims, true));
  Descriptor dy = tensors.Make(2, kBf16, x_dims, Strides(x_dims, true));
  Descriptor dx = tensors.Make(3, kBf16, x_dims, Strides(x_dims, true));
  Descriptor scale = tensors.Make(4, kF32, scale_dims, Strides(scale_dims, true));
  Descriptor dscale = tensors.Make(5, kF32, scale_dims, Strides(scale_dims, true));
  Descriptor dbias = tensors.Make(6, kF32, scale_dims, Strides(scale_dims, true));
  Descriptor mean = tensors.Make(7, kF32, row_dims, Strides(row_dims, true));
  Descriptor variance = tensors.Make(8, kF32, row_dims, Strides(row_dims, true));
  Descriptor operation(kNormBackward);
  operation.Enum(2100, kNormMode, 0);
  operation.Child(2101, x).Child(2102, mean).Child(2103, variance).Child(2104, dy).Child(2105, scale);
  operation.Child(2107, dscale).Child(2108, dbias).Child(2109, dx).Finalize();
  Finish(&graph, {&operation});
  return graph;
}

Graph AttentionGraph() {
  Graph graph;
  Tensors tensors(&graph);
  std::vector<int64_t> dims = {4, 12, 256, 64}, stats_dims = {4, 12, 256, 1}, one = {1, 1, 1, 1};
  // batch, heads, sequence, width as a fused projection leaves them: sequence before heads.
  std::vector<int64_t> strides = {256 * 12 * 64, 64, 12 * 64, 1};
  Descriptor q = tensors.Make(1, kF16, dims, strides);
  Descriptor k = tensors.Make(2, kF16, dims, strides);
  Descriptor v = tensors.Make(3, kF16, dims, strides);
  Descriptor o = tensors.Make(4, kF16, dims, strides);
  Descriptor stats = tensors.Make(5, kF32, stats_dims, Strides(stats_dims, false));
  Descriptor scale = tensors.Make(6, kF32, one, {1, 1, 1, 1}, false, true);
  Descriptor operation(kAttentionForward);
  operation.Child(2800, q)
      .Child(2801, k)
      .Child(2802, v)
      .Child(2803, o)
      .Child(2804, stats)
      .Child(2805, scale)
      .Finalize();
  Finish(&graph, {&operation});
  return graph;
}

Graph MatmulOfReluGraph() {
  Graph graph;
  Tensors tensors(&graph);
  Descriptor raw = tensors.Make(1, kF16, {1, 256, 128}, {256 * 128, 128, 1});
  Descriptor a = tensors.Make(2, kF16, {1, 256, 128}, {256 * 128, 128, 1}, true);
  Descriptor b = tensors.Make(3, kF16, {1, 128, 64}, {128 * 64, 64, 1});
  Descriptor c = tensors.Make(4, kF16, {1, 256, 64}, {256 * 64, 64, 1});
  Descriptor relu = Pointwise(kRelu, raw, nullptr, a);
  Descriptor product = Product(a, b, c);
  Finish(&graph, {&relu, &product});
  return graph;
}

Graph AttentionOfPartsGraph() {
  Graph graph;
  Tensors tensors(&graph);
  constexpr int64_t kBatch = 4, kHeads = 12, kLength = 256, kWidth = 64;
  const std::vector<int64_t> dims = {kBatch, kHeads, kLength, kWidth};
  const std::vector<int64_t> strides = Strides(dims, false);
  const std::vector<int64_t> scores_dims = {kBatch, kHeads, kLength, kLength}, row_dims = {kBatch, kHeads, kLength, 1};
  auto between = [&](int64_t uid, int type, const std::vector<int64_t>& size) {
    return tensors.Make(uid, type, size, Strides(size, false), true);
  };
  Descriptor q = tensors.Make(1, kF16, dims, strides);
  Descriptor k = tensors.Make(2, kF16, {kBatch, kHeads, kWidth, kLength}, {strides[0], strides[1], 1, kWidth});
  Descriptor v = tensors.Make(3, kF16, dims, strides);
  Descriptor o = tensors.Make(4, kF16, dims, strides);
  Descriptor stats = tensors.Make(5, kF32, row_dims, Strides(row_dims, false));
  Descriptor scale = tensors.Make(6, kF32, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
  Descriptor raw = between(101, kF32, scores_dims), scaled = between(102, kF32, scores_dims);
  Descriptor largest = between(103, kF32, row_dims), shifted = between(104, kF32, scores_dims);
  Descriptor power = between(105, kF32, scores_dims), sum = between(106, kF32, row_dims);
  Descriptor logarithm = between(107, kF32, row_dims), weights = between(108, kF16, scores_dims);
  std::vector<Descriptor> operations;
  operations.push_back(Product(q, k, raw));
  operations.push_back(Pointwise(kMultiply, raw, &scale, scaled));
  operations.push_back(Reduction(kMaximum, scaled, largest));
  operations.push_back(Pointwise(kSubtract, scaled, &largest, shifted));
  operations.push_back(Pointwise(kExponential, shifted, nullptr, power));
  operations.push_back(Reduction(kSum, power, sum));
  operations.push_back(Pointwise(kLogarithm, sum, nullptr, logarithm));
  operations.push_back(Pointwise(kAdd, largest, &logarithm, stats));
  operations.push_back(Pointwise(kDivide, power, &sum, weights));
  operations.push_back(Product(weights, v, o));
  std::vector<const Descriptor*> pointers;
  for (const Descriptor& operation : operations) pointers.push_back(&operation);
  Finish(&graph, pointers);
  return graph;
}

}  // namespace genuine
