// Folding of names from libtorch_cpu, libtensorflow_cc, Caffe, oneDNN, OpenBLAS and libstdc++.
#include "analyzer/names/fold_names.h"

#include <gtest/gtest.h>

#include <string>

namespace dlhook::analyzer {
namespace {

struct Example {
  const char* demangled;
  const char* folded;
  bool is_plumbing = false;
};

const Example kExamples[] = {
    // libtorch_cpu.so
    {"at::native::thnn_conv2d(at::Tensor const&, at::Tensor const&, c10::ArrayRef<long>, std::optional<at::Tensor> "
     "const&, "
     "c10::ArrayRef<long>, c10::ArrayRef<long>)",
     "at::native::thnn_conv2d"},
    {"at::native::mkldnn_linear_backward(at::Tensor const&, at::Tensor const&, at::Tensor const&, std::array<bool, "
     "3ul>) [clone .cold]",
     "at::native::mkldnn_linear_backward"},
    {"void at::native::cpublas::gemm_batched_with_stride<double>(at::native::TransposeType, at::native::TransposeType, "
     "long, long, long, "
     "long, double, double const*, long, long)",
     "at::native::cpublas::gemm_batched_with_stride<double>"},
    {"void at::native::(anonymous namespace)::cpu_upsample_linear_backward<float, std::vector<std::optional<double>, "
     "std::allocator<std::optional<double> > > >(at::Tensor const&, at::Tensor const&, bool)",
     "at::native::cpu_upsample_linear_backward"},
    {"void at::native::_vec_softmax_backward<float>(float*, float const*, float const*, long, long, "
     "long)::{lambda(long, "
     "long)#1}::operator()(long, long) const",
     "at::native::_vec_softmax_backward<float>::{lambda}"},
    {"at::native::(anonymous namespace)::QuantizedCellParamsFP16::linear_hh(at::Tensor const&) const",
     "at::native::QuantizedCellParamsFP16::linear_hh"},
    {"at::NewProcessWideShmHandle[abi:cxx11]() [clone .cold]", "at::NewProcessWideShmHandle"},
    {"at::_ops::conv2d::call(at::Tensor const&, at::Tensor const&)", "at::_ops::conv2d::call"},
    {"at::_ops::conv2d::redispatch(c10::DispatchKeySet, at::Tensor const&, at::Tensor const&)",
     "at::_ops::conv2d::redispatch", true},
    {"c10::impl::wrap_kernel_functor_unboxed_<c10::impl::detail::WrapFunctionIntoFunctor_<c10::"
     "CompileTimeFunctionPointer<at::Tensor "
     "(c10::DispatchKeySet, at::Tensor const&), &at::(anonymous namespace)::relu>, at::Tensor, "
     "c10::guts::typelist::typelist<at::Tensor "
     "const&> >, at::Tensor (at::Tensor const&)>::call(c10::OperatorKernel*, c10::DispatchKeySet, at::Tensor const&)",
     "c10::impl::wrap_kernel_functor_unboxed_::call", true},
    {"at::(anonymous namespace)::(anonymous namespace)::wrapper_SparseCPU__copy_(at::Tensor&, at::Tensor const&, bool)",
     "at::wrapper_SparseCPU__copy_", true},
    {"torch::autograd::VariableType::(anonymous namespace)::convolution(c10::DispatchKeySet, at::Tensor const&)",
     "torch::autograd::VariableType::convolution", true},
    {"torch::autograd::generated::ConvolutionBackward0::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)",
     "torch::autograd::generated::ConvolutionBackward0::apply"},
    {"decltype(auto) c10::Dispatcher::call<at::Tensor, at::Tensor const&>(c10::TypedOperatorHandle<at::Tensor "
     "(at::Tensor const&)> const&, "
     "at::Tensor const&) const",
     "c10::Dispatcher::call", true},
    {"dnnl::impl::cpu::x64::jit_avx512_core_amx_convolution_fwd_t::execute_forward(dnnl::impl::exec_ctx_t const&) "
     "const",
     "dnnl::impl::cpu::x64::jit_avx512_core_amx_convolution_fwd_t::execute_forward"},
    {"std::_Function_handler<void (int), "
     "dnnl::impl::cpu::x64::jit_uni_binary_kernel_t<(dnnl::impl::cpu::x64::cpu_isa_t)3632, "
     "Xbyak::Ymm>::apply_postops(int, bool)::{lambda()#1}>::_M_invoke(std::_Any_data const&, int&&)",
     "std::_Function_handler::_M_invoke", true},
    // libtensorflow_cc.so.2
    {"tensorflow::MatMulOp<Eigen::ThreadPoolDevice, float, false>::Compute(tensorflow::OpKernelContext*)",
     "tensorflow::MatMulOp::Compute"},
    {"tensorflow::MklConvOp<Eigen::ThreadPoolDevice, float, float, float, float, float, int, false, false, false, "
     "false>::Compute(tensorflow::OpKernelContext*)",
     "tensorflow::MklConvOp::Compute"},
    {"tensorflow::(anonymous namespace)::ExecutorState<tensorflow::PropagatorState>::Process(tensorflow::TaggedNode "
     "const&, long)",
     "tensorflow::ExecutorState::Process"},
    {"void xla::cpu::internal::MatMul<float, float, float, (Eigen::AlignmentType)16>(Eigen::ThreadPoolDevice const*, "
     "float*, "
     "absl::lts_20250814::AnyInvocable<void ()>)",
     "xla::cpu::internal::MatMul"},
    {"Eigen::internal::TensorExecutor<Eigen::TensorAssignOp<Eigen::TensorMap<Eigen::Tensor<float, 2, 1, long>, 16, "
     "Eigen::MakePointer>, "
     "int const> const, Eigen::ThreadPoolDevice, true>::run(int const&, Eigen::ThreadPoolDevice const&)",
     "Eigen::internal::TensorExecutor::run", true},
    {"absl::lts_20250814::functional_internal::InvokeObject<int>(int)", "absl::functional_internal::InvokeObject<int>",
     true},
    {"tsl::(anonymous namespace)::PThread::ThreadFn(void*)", "tsl::PThread::ThreadFn", true},
    // Caffe
    {"caffe::ConvolutionLayer<float>::Forward_cpu(std::vector<caffe::Blob<float>*, std::allocator<caffe::Blob<float>*> "
     "> const&)",
     "caffe::ConvolutionLayer<float>::Forward_cpu"},
    {"void caffe::caffe_cpu_gemm<float>(CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, int, int, int, float, float const*, float "
     "const*, float, float*)",
     "caffe::caffe_cpu_gemm<float>"},
    // Forms of names
    {"std::basic_ostream<char, std::char_traits<char> >& std::operator<< <std::char_traits<char> "
     ">(std::basic_ostream<char, "
     "std::char_traits<char> >&, char const*)",
     "std::operator<<", true},
    {"non-virtual thunk to dnnl::impl::stream_t::wait()", "dnnl::impl::stream_t::wait"},
    {"A<((1)>(2))>::f(int) const::{lambda(auto:1)#2}::operator()<float>(float) const::{lambda()#1}::operator()() const",
     "A::f::{lambda}"},
    {"app::Tensor::operator float() const", "app::Tensor::operator float"},
    {"operator new(unsigned long)", "operator new"},
    {"app::Pool::operator->() const", "app::Pool::operator->"},
    {"main", "main"},
    {"cblas_sgemm", "cblas_sgemm"},
    {"sgemm_kernel_SKYLAKEX", "sgemm_kernel_SKYLAKEX"},
    {"inner_thread.constprop.0", "inner_thread"},
    {"parallel_work._omp_fn.0", "parallel_work"},
    {"py::LeNet.forward:/home/me/train.py", "py::LeNet.forward:/home/me/train.py"},
    {"start_thread", "start_thread", true},
    // Too deep for the demangler: its beginning
    {"_ZN3c1012function_refIFvPPcPKlllEE11callback_fnIZN2at18TensorIteratorBase15loop_2d_from_1d", "c10::function_ref",
     true},
    {"_ZZN3c106ivalue6Future4thenIZN2at21wrapPropagateTLSState", "c10::ivalue::Future::then"},
    // Unparsable names are unchanged.
    {"_Znonsense", "_Znonsense"},
    {"_ZN99999999999999999999x", "_ZN99999999999999999999x"},
    {"f(int", "f(int"},
    {"", ""},
    {"a<b", "a<b"},
    {"(((", "((("},
};

TEST(FoldNames, FoldsRealNames) {
  for (const Example& example : kExamples)
    EXPECT_EQ(FoldFunction(example.demangled), example.folded) << example.demangled;
}

TEST(FoldNames, TellsPlumbing) {
  for (const Example& example : kExamples)
    EXPECT_EQ(IsPlumbing(example.demangled), example.is_plumbing) << example.demangled;
}

TEST(FoldNames, FoldedNamesStayAsTheyAre) {
  for (const Example& example : kExamples) {
    const std::string folded = FoldFunction(example.demangled);
    EXPECT_EQ(FoldFunction(folded), folded);
    EXPECT_EQ(IsPlumbing(folded), example.is_plumbing) << folded;
  }
}

}  // namespace
}  // namespace dlhook::analyzer
