// A convolution with a fused ReLU between reorders, three times, through oneDNN 2.x's own C++ interface.
#include <cstdio>
#include <dnnl.hpp>

using dnnl::memory;
using dt = memory::data_type;
using tag = memory::format_tag;

int main() {
  const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(cpu);
  const memory::dims src = {2, 8, 16, 16}, weights = {16, 8, 3, 3}, dst = {2, 16, 16, 16};
  dnnl::post_ops relu;
  relu.append_eltwise(1.f, dnnl::algorithm::eltwise_relu, 0.f, 0.f);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(relu);
  const auto any = [](const memory::dims& dims) { return memory::desc(dims, dt::f32, tag::any); };
  const dnnl::convolution_forward::primitive_desc convolution({dnnl::prop_kind::forward_training,
                                                               dnnl::algorithm::convolution_direct,
                                                               any(src),
                                                               any(weights),
                                                               any(dst),
                                                               {1, 1},
                                                               {1, 1},
                                                               {1, 1}},
                                                              attributes, cpu);
  memory plain_src({src, dt::f32, tag::nchw}, cpu), plain_weights({weights, dt::f32, tag::oihw}, cpu),
      plain_dst({dst, dt::f32, tag::nchw}, cpu);
  memory own_src(convolution.src_desc(), cpu), own_weights(convolution.weights_desc(), cpu),
      own_dst(convolution.dst_desc(), cpu);
  for (int round = 0; round < 3; ++round) {
    dnnl::reorder(plain_src, own_src).execute(stream, plain_src, own_src);
    dnnl::reorder(plain_weights, own_weights).execute(stream, plain_weights, own_weights);
    dnnl::convolution_forward(convolution)
        .execute(stream, {{DNNL_ARG_SRC, own_src}, {DNNL_ARG_WEIGHTS, own_weights}, {DNNL_ARG_DST, own_dst}});
    dnnl::reorder(own_dst, plain_dst).execute(stream, own_dst, plain_dst);
    stream.wait();
    std::printf("round %d\n", round);
  }
}
