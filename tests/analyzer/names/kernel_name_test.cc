// Kernel names from the fat binaries of PyTorch, cuDNN, cuBLAS and old frameworks.

#include <gtest/gtest.h>

#include "analyzer/names/fold_names.h"

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
  EXPECT_EQ(ShortKernelName("void sum<float>(int) [clone .kd]"), "sum<float>");
}

TEST(KernelNameTest, CollectivesAreThoseOfAnyLibrary) {
  for (const char* name :
       {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)",
        "void multimem_all_gather_kernel<16>(char*)", "two_shot_all_reduce_kernel",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<float>(float)",
        "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8>(tensorrt_llm::kernels::Params)",
        "void deep_ep::intranode::dispatch<8, 768>(int4*)", "nvshmemi_transfer_rma_nbi",
        "void quickreduce::allreduce_prototype_twoshot<A>(A)", "mnnvl_moe_prepare",
        "void pplx::dispatchKernel<10, true>(int*)",
        "c10d::symmetric_memory::(anonymous namespace)::barrier_kernel(unsigned int**, int)"}) {
    EXPECT_TRUE(IsCollectiveKernel(Demangle(name))) << name;
  }
  for (const char* name : {"void oneflow::SoftmaxBlockSMem<BlockAllReduce, float>(float)", "broadcast_kernel",
                           "void moe::gemm<float>(ncclComm*)", "triton_poi_fused_add_all_reduce_wait_tensor_3",
                           "vectorized_elementwise_kernel", "void dispatch<int>(int)", "gemm_allreduce", "",
                           "void cub::DeviceReduceKernel<Policy>(int)", "void sum<Lamport>(nccl::Comm*) [clone .kd]",
                           "void sum<Lamport, at::na"}) {
    EXPECT_FALSE(IsCollectiveKernel(Demangle(name))) << name;
  }
}

TEST(KernelNameTest, NamesTellOfTensorCores) {
  for (const char* name :
       {"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x4_nn_align1>(Params)",
        "ampere_fp16_s16816gemm_fp16_128x64_nn",
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x128x32_g1_tensor16x8x8_execute_"
        "kernel",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas",
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
        "Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN", "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32"}) {
    EXPECT_EQ(UsesTensorCores(name), true) << name;
  }
  for (const char* name :
       {"volta_sgemm_64x64_nt", "ampere_sgemm_32x32_sliced1x4_tn", "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1",
        "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)"}) {
    EXPECT_EQ(UsesTensorCores(name), false) << name;
  }
  EXPECT_EQ(UsesTensorCores("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 128, true, 1, true>(float)"),
            std::nullopt);
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
