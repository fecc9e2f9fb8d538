// Each kind of primitive of oneDNN 2.x once, forward, and backward if it is short: like the programs in the folder
// examples/primitives of oneDNN's source (which test_onednn_examples.py runs if present). Prints the name of each.
#include <cstdio>
#include <cstring>
#include <dnnl.hpp>
#include <unordered_map>

using dt = dnnl::memory::data_type;
using tag = dnnl::memory::format_tag;
using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
static dnnl::stream stream(cpu);

static memory::desc Desc(memory::dims dims, tag format) { return memory::desc(dims, dt::f32, format); }

static memory Zeros(const memory::desc& desc) {
  memory zeros(desc, cpu);
  std::memset(zeros.get_data_handle(), 0, desc.get_size());
  return zeros;
}

// Arguments by their numbers and descriptors, all of them zeros.
static void Run(const char* name, const dnnl::primitive& primitive,
                const std::unordered_map<int, memory::desc>& descs) {
  std::unordered_map<int, memory> arguments;
  for (const auto& argument : descs) arguments.emplace(argument.first, Zeros(argument.second));
  primitive.execute(stream, arguments);
  stream.wait();
  std::puts(name);
}

static const memory::desc image = Desc({2, 8, 6, 6}, tag::nchw), smaller = Desc({2, 8, 3, 3}, tag::nchw);
static const memory::desc table = Desc({4, 10}, tag::nc);

static void Products() {
  const memory::desc a = Desc({4, 5}, tag::ab), b = Desc({5, 6}, tag::ba), bias = Desc({1, 6}, tag::ab),
                     c = Desc({4, 6}, tag::ab);
  dnnl::post_ops relu;
  relu.append_eltwise(1.f, algorithm::eltwise_relu, 0.f, 0.f);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(relu);
  Run("matmul", dnnl::matmul({{a, b, bias, c}, attributes, cpu}),
      {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, c}});
  const memory::desc weights = Desc({6, 10}, tag::oi), outputs = Desc({4, 6}, tag::nc), plain = Desc({6}, tag::x);
  const dnnl::inner_product_forward::primitive_desc forward(
      {prop_kind::forward_training, table, weights, plain, outputs}, cpu);
  Run("inner product", dnnl::inner_product_forward(forward),
      {{DNNL_ARG_SRC, table}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_BIAS, plain}, {DNNL_ARG_DST, outputs}});
  Run("its data gradient", dnnl::inner_product_backward_data({{table, weights, outputs}, cpu, forward}),
      {{DNNL_ARG_DIFF_SRC, table}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_DST, outputs}});
  Run("its weight gradient", dnnl::inner_product_backward_weights({{table, weights, plain, outputs}, cpu, forward}),
      {{DNNL_ARG_SRC, table},
       {DNNL_ARG_DIFF_WEIGHTS, weights},
       {DNNL_ARG_DIFF_BIAS, plain},
       {DNNL_ARG_DIFF_DST, outputs}});
}

static void Windows() {
  const memory::dims two = {2, 2}, none = {0, 0};
  const dnnl::pooling_forward::primitive_desc pooling(
      {prop_kind::forward_training, algorithm::pooling_max, image, smaller, two, two, none, none}, cpu);
  Run("pooling", dnnl::pooling_forward(pooling),
      {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, smaller}, {DNNL_ARG_WORKSPACE, pooling.workspace_desc()}});
  Run("its gradient",
      dnnl::pooling_backward({{algorithm::pooling_max, image, smaller, two, two, none, none}, cpu, pooling}),
      {{DNNL_ARG_DIFF_SRC, image}, {DNNL_ARG_DIFF_DST, smaller}, {DNNL_ARG_WORKSPACE, pooling.workspace_desc()}});
  const memory::desc weights = Desc({8, 8, 2, 2}, tag::oihw), bias = Desc({8}, tag::x);
  Run("deconvolution",
      dnnl::deconvolution_forward({{prop_kind::forward_inference, algorithm::deconvolution_direct, smaller, weights,
                                    bias, image, two, none, none},
                                   cpu}),
      {{DNNL_ARG_SRC, smaller}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, image}});
  Run("resampling",
      dnnl::resampling_forward({{prop_kind::forward_inference, algorithm::resampling_nearest, smaller, image}, cpu}),
      {{DNNL_ARG_SRC, smaller}, {DNNL_ARG_DST, image}});
}

static void Normalizations() {
  const auto none = dnnl::normalization_flags::none;
  const dnnl::batch_normalization_forward::primitive_desc batch({prop_kind::forward_training, image, 1e-5f, none}, cpu);
  Run("batch normalization", dnnl::batch_normalization_forward(batch),
      {{DNNL_ARG_SRC, image},
       {DNNL_ARG_DST, image},
       {DNNL_ARG_MEAN, batch.mean_desc()},
       {DNNL_ARG_VARIANCE, batch.variance_desc()}});
  const dnnl::layer_normalization_forward::primitive_desc layer({prop_kind::forward_training, table, 1e-5f, none}, cpu);
  Run("layer normalization", dnnl::layer_normalization_forward(layer),
      {{DNNL_ARG_SRC, table},
       {DNNL_ARG_DST, table},
       {DNNL_ARG_MEAN, layer.mean_desc()},
       {DNNL_ARG_VARIANCE, layer.variance_desc()}});
  Run("local response",
      dnnl::lrn_forward(
          {{prop_kind::forward_inference, algorithm::lrn_across_channels, image, 5, 1.f, 0.75f, 1.f}, cpu}),
      {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, image}});
  Run("softmax", dnnl::softmax_forward({{prop_kind::forward_inference, table, 1}, cpu}),
      {{DNNL_ARG_SRC, table}, {DNNL_ARG_DST, table}});
}

static void Elements() {
  const dnnl::eltwise_forward::primitive_desc tanh(
      {prop_kind::forward_training, algorithm::eltwise_tanh, image, 0.f, 0.f}, cpu);
  Run("tanh", dnnl::eltwise_forward(tanh), {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, image}});
  Run("its gradient", dnnl::eltwise_backward({{algorithm::eltwise_tanh, image, image, 0.f, 0.f}, cpu, tanh}),
      {{DNNL_ARG_SRC, image}, {DNNL_ARG_DIFF_SRC, image}, {DNNL_ARG_DIFF_DST, image}});
  Run("binary", dnnl::binary({{algorithm::binary_add, image, image, image}, cpu}),
      {{DNNL_ARG_SRC_0, image}, {DNNL_ARG_SRC_1, image}, {DNNL_ARG_DST, image}});
  const memory::desc slopes = Desc({1, 8, 1, 1}, tag::nchw);
  Run("prelu", dnnl::prelu_forward({{prop_kind::forward_inference, image, slopes}, cpu}),
      {{DNNL_ARG_SRC, image}, {DNNL_ARG_WEIGHTS, slopes}, {DNNL_ARG_DST, image}});
  Run("shuffle", dnnl::shuffle_forward({{prop_kind::forward_inference, image, 1, 4}, cpu}),
      {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, image}});
  const memory::desc one = Desc({2, 1, 6, 6}, tag::nchw);
  Run("reduction", dnnl::reduction({{algorithm::reduction_sum, image, one, 0.f, 0.f}, cpu}),
      {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, one}});
}

static void Several() {
  const dnnl::concat::primitive_desc concat(1, {image, image}, cpu);
  Run("concat", dnnl::concat(concat),
      {{DNNL_ARG_MULTIPLE_SRC, image}, {DNNL_ARG_MULTIPLE_SRC + 1, image}, {DNNL_ARG_DST, concat.dst_desc()}});
  Run("sum", dnnl::sum({{1.f, 2.f}, {image, image}, cpu}),
      {{DNNL_ARG_MULTIPLE_SRC, image}, {DNNL_ARG_MULTIPLE_SRC + 1, image}, {DNNL_ARG_DST, image}});
  const memory::desc sequence = Desc({3, 2, 8}, tag::tnc), state = Desc({1, 1, 2, 8}, tag::ldnc);
  const memory::desc weights = Desc({1, 1, 8, 4, 8}, tag::ldigo), bias = Desc({1, 1, 4, 8}, tag::ldgo);
  Run("lstm",
      dnnl::lstm_forward({{prop_kind::forward_inference, dnnl::rnn_direction::unidirectional_left2right, sequence,
                           state, state, weights, weights, bias, sequence, state, state},
                          cpu}),
      {{DNNL_ARG_SRC_LAYER, sequence},
       {DNNL_ARG_SRC_ITER, state},
       {DNNL_ARG_SRC_ITER_C, state},
       {DNNL_ARG_WEIGHTS_LAYER, weights},
       {DNNL_ARG_WEIGHTS_ITER, weights},
       {DNNL_ARG_BIAS, bias},
       {DNNL_ARG_DST_LAYER, sequence},
       {DNNL_ARG_DST_ITER, state},
       {DNNL_ARG_DST_ITER_C, state}});
}

int main() {
  Products();
  Windows();
  Normalizations();
  Elements();
  Several();
}
