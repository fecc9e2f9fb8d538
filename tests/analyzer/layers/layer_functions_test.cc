// Layer functions by name. Names are those of real libraries: Caffe 1.0, dlib 19.24, ncnn, OpenCV 4, mlpack 4, darknet,
// MXNet 1.9, PaddlePaddle 3.3.
#include "analyzer/layers/functions/layer_functions.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer {
namespace {

std::string Read(absl::string_view function) {
  const std::optional<LayerFunction> read = ReadLayerFunction(function);
  if (!read) return "none";
  return absl::StrCat(read->owner, " | ", read->work, " | ", LayerDirectionName(read->direction),
                      read->is_exact ? " | exact" : "");
}

TEST(LayerFunctionsTest, KnowsFrameworks) {
  EXPECT_EQ(Read("caffe::ConvolutionLayer<float>::Forward_cpu(std::vector<caffe::Blob<float>*, "
                 "std::allocator<caffe::Blob<float>*> > "
                 "const&, std::vector<caffe::Blob<float>*, std::allocator<caffe::Blob<float>*> > const&)"),
            "caffe::ConvolutionLayer<float> | convolution | forward");
  EXPECT_EQ(Read("caffe::InnerProductLayer<float>::Backward_cpu(std::vector<caffe::Blob<float>*> const&)"),
            "caffe::InnerProductLayer<float> | linear | backward");
  EXPECT_EQ(Read("caffe::LRNLayer<float>::Forward_cpu()"), "caffe::LRNLayer<float> | lrn | forward");
  EXPECT_EQ(Read("caffe::ScaleLayer<double>::Forward_cpu()"), "caffe::ScaleLayer<double> | scale | forward");
  EXPECT_EQ(Read("forward_convolutional_layer"), "convolutional_layer | convolution | forward");
  EXPECT_EQ(Read("backward_connected_layer_gpu"), "connected_layer | linear | backward");
  EXPECT_EQ(Read("update_convolutional_layer"), "convolutional_layer | convolution | update");
  EXPECT_EQ(Read("ncnn::Convolution_x86_avx512::forward(ncnn::Mat const&, ncnn::Mat&, ncnn::Option const&) const"),
            "ncnn::Convolution_x86_avx512 | convolution | forward");
  EXPECT_EQ(Read("ncnn::InnerProduct_x86_fma::forward(ncnn::Mat const&, ncnn::Mat&, ncnn::Option const&) const"),
            "ncnn::InnerProduct_x86_fma | linear | forward");
  EXPECT_EQ(Read("cv::dnn::ConvolutionLayerImpl::forward(cv::_InputArray const&, cv::_OutputArray const&, "
                 "cv::_OutputArray const&)"),
            "cv::dnn::ConvolutionLayerImpl | convolution | forward");
  EXPECT_EQ(Read("mlpack::LinearType<arma::Mat<double>, mlpack::NoRegularizer>::Gradient(arma::Mat<double> const&)"),
            "mlpack::LinearType<arma::Mat<double>, mlpack::NoRegularizer> | linear | backward-weights");
  EXPECT_EQ(Read("mlpack::LinearType<arma::Mat<double>, mlpack::NoRegularizer>::Backward(arma::Mat<double> const&)"),
            "mlpack::LinearType<arma::Mat<double>, mlpack::NoRegularizer> | linear | backward-data");
  EXPECT_EQ(Read("mxnet::op::ConvolutionOp<mshadow::cpu, float>::Backward(mxnet::OpContext const&)"),
            "mxnet::op::ConvolutionOp<mshadow::cpu, float> | convolution | backward");
  EXPECT_EQ(Read("void phi::ConvKernelImpl<float, phi::CPUContext>(phi::CPUContext const&, phi::DenseTensor const&)"),
            "phi::Conv | convolution | forward");
  EXPECT_EQ(Read("void phi::ConvGradKernel<float, phi::CPUContext>(phi::CPUContext const&, phi::DenseTensor const&)"),
            "phi::Conv | convolution | backward");
  EXPECT_EQ(Read("void phi::MatmulGradKernel<float, phi::CPUContext>(phi::CPUContext const&)"), "none");
  EXPECT_EQ(Read("torch::nn::Conv2dImpl::forward(at::Tensor const&)"), "torch::nn::Conv2dImpl | convolution | forward");
}

TEST(LayerFunctionsTest, DlibsTypesAreTheLayers) {
  EXPECT_EQ(Read("dlib::add_layer<dlib::con_<6l, 5l, 5l, 1, 1, 0, 0>, dlib::input<dlib::matrix<unsigned char> >, "
                 "void>::forward(dlib::tensor const&)"),
            "dlib::add_layer<dlib::con_<6l, 5l, 5l, 1, 1, 0, 0>, dlib::input<dlib::matrix<unsigned char> >, void> | "
            "convolution | "
            "forward | exact");
  EXPECT_EQ(Read("dlib::add_layer<dlib::relu_, dlib::add_layer<dlib::fc_<10ul, (dlib::fc_bias_mode)0>, X> "
                 ">::back_propagate_error("
                 "dlib::tensor const&, dlib::tensor const&, bool)"),
            "dlib::add_layer<dlib::relu_, dlib::add_layer<dlib::fc_<10ul, (dlib::fc_bias_mode)0>, X> > | relu | "
            "backward | exact");
  EXPECT_EQ(
      Read("void dlib::con_<6l, 5l, 5l, 1, 1, 0, 0>::forward<dlib::add_layer<A, B> >(dlib::add_layer<A, B> const&, "
           "dlib::resizable_tensor&)"),
      "dlib::con_<6l, 5l, 5l, 1, 1, 0, 0> | convolution | forward");
}

TEST(LayerFunctionsTest, NetworksSolversHelpersAndOperatorsAreNoLayers) {
  for (const char* function :
       {"caffe::Net<float>::ForwardFromTo(int, int)",
        "caffe::Layer<float>::Forward(std::vector<caffe::Blob<float>*> const&)",
        "caffe::BaseConvolutionLayer<float>::forward_cpu_gemm(float const*, float const*, float*, bool)",
        "caffe::Solver<float>::Step(int)",
        "forward_network",
        "main",
        "sgemm_",
        "forward_layer_norms",
        "at::native::conv2d(at::Tensor const&)",
        "dlib::add_loss_layer<dlib::loss_multiclass_log_, X>::forward(dlib::tensor const&)",
        "std::forward<int>(int&)",
        "bool operator< <int>(A<int> const&, A<int> const&)",
        "operator new(unsigned long)",
        "a::{lambda()#1}::operator()() const",
        "(anonymous namespace)::f(int)",
        "ns::(anonymous namespace)::Runner::forward()",
        "",
        "<>",
        "::",
        "f<",
        ")(",
        "a::b>c::forward"}) {
    EXPECT_EQ(Read(function), "none") << function;
  }
}

}  // namespace
}  // namespace dlhook::analyzer
