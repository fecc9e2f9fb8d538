// Kernel names from the fat binaries of PyTorch, cuDNN, cuBLAS and old frameworks.
#include "analyzer/names/kernel_name.h"

#include <gtest/gtest.h>

#include "analyzer/names/demangle.h"

namespace dlhook::analyzer {
namespace {

std::string Short(const std::string& mangled) { return ShortKernelName(Demangle(mangled)); }

TEST(KernelNameTest, PlainNamesStay) {
  for (const char* name : {"ampere_sgemm_128x64_nn", "volta_scudnn_128x64_relu_interior_nn_v1",
                           "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckcrs_nhwc", ""}) {
    EXPECT_EQ(Demangle(name), name);
    EXPECT_EQ(ShortKernelName(name), name);
  }
}

TEST(KernelNameTest, KeepsTheFunctorThatTellsKernelsApart) {
  // void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>,
  //   std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)
  const std::string fill =
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_";
  EXPECT_EQ(Demangle(fill),
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
            "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)");
  EXPECT_EQ(Short(fill), "vectorized_elementwise_kernel<FillFunctor>");
  EXPECT_EQ(ShortKernelName("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add"
                            "<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>)"),
            "vectorized_elementwise_kernel<CUDAFunctor_add>");
  EXPECT_EQ(ShortKernelName("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
                            "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::"
                            "operator()() const::{lambda(float)#1}>(at::TensorIteratorBase&)::{lambda(int)#1}>"
                            "(int, at::native::gpu_kernel_impl_nocast<…>)"),
            "elementwise_kernel<direct_copy_kernel_cuda>");
}

TEST(KernelNameTest, TwoNamesAtMost) {
  EXPECT_EQ(ShortKernelName("void multi_tensor_apply_kernel<Metadata, FusedAdamFunctor<float>, "
                            "ThirdFunctor>(Metadata)"),
            "multi_tensor_apply_kernel<Metadata,FusedAdamFunctor>");
}

TEST(KernelNameTest, DataTypeWhereNothingElseTells) {
  EXPECT_EQ(Short("_Z16nchwToNhwcKernelI6__halfS0_fLb1EEvPKT_PT0_i"), "nchwToNhwcKernel<__half>");
  EXPECT_EQ(ShortKernelName("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, true>"
                            "(int, int, int, float const*, kernel_grad_params)"),
            "dgrad_engine<float>");
}

TEST(KernelNameTest, CutlassAndNestedScopes) {
  EXPECT_EQ(ShortKernelName("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_nn>"
                            "(cutlass_80_tensorop_s1688gemm_128x128_nn::Params)"),
            "Kernel2<cutlass_80_tensorop_s1688gemm_128x128_nn>");
  EXPECT_EQ(ShortKernelName("(anonymous namespace)::softmax_warp<float>(float*)"), "softmax_warp<float>");
  EXPECT_EQ(ShortKernelName("void at::native::(anonymous namespace)::cat_batched<int>(int)"), "cat_batched<int>");
  EXPECT_EQ(ShortKernelName("void Outer<float>::run<Inner>(int)"), "run<Inner>");
  EXPECT_EQ(ShortKernelName("Outer<float>::run(int)"), "run<float>");
}

TEST(KernelNameTest, MangledNamesThatAreTooLongStillHaveAName) {
  std::string name = "_ZN2at6native13reduce_kernelI";
  for (int i = 0; i < 400; ++i) name += "Li512E";
  name += "EEvT_";
  EXPECT_EQ(Demangle(name), name);  // libstdc++ gives up
  EXPECT_EQ(ShortKernelName(name), "reduce_kernel");
  EXPECT_EQ(ShortKernelName("_Z99short"), "_Z99short");
  EXPECT_EQ(ShortKernelName("_ZN"), "_ZN");
  EXPECT_EQ(ShortKernelName("_Z"), "_Z");
}

TEST(KernelNameTest, TakesAnyText) {
  for (const char* text : {"<", ">", "(", ")", "::", "a<", "a<b", "a(b", " ", "a<b>::", "void ", "a<b>::c<d", "<<<<",
                           "(anonymous namespace)", "\xff\xfe"}) {
    ShortKernelName(Demangle(text));
  }
}

}  // namespace
}  // namespace dlhook::analyzer
