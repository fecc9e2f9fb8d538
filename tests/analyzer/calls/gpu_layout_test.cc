// The table `layout` for GPU libraries and conversion kernels.
#include <gtest/gtest.h>

#include "analyzer/calls/tensor_class.h"
#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

constexpr char kToNhwc[] = "_ZN5cudnn3ops16nchwToNhwcKernelIffLb0ELb1EEEvNS0_18nchw2nhwc_params_tIfEEPKfPf";

trace::OpDefinition Transform() {
  return Definition(R"pb(
    function: "cudnnTransformTensor"
    family: "cudnn"
    time_source: CLOCK_TICKS
    address_count: 2
    cudnn {
      operation: "transform_tensor"
      tensor {
        role: X
        type: F32
        dim: [ 8, 16, 32, 32 ]
        stride: [ 16384, 1024, 32, 1 ]
      }
      tensor {
        role: Y
        type: F32
        dim: [ 8, 16, 32, 32 ]
        stride: [ 16384, 1, 512, 16 ]
      }
      algorithm: -1
      math_type: -1
      mode: -1
    })pb");
}

trace::OpDefinition Geam(const std::string& trans) {
  return Definition(
      "function: 'cublasSgeam' family: 'cublas' time_source: CLOCK_TICKS "
      "address_count: 3 matrix { kind: GEAM type: F32 trans: '" +
      trans + "' trans_b: 'N' m: 20 n: 30 }");
}

TEST(GpuLayoutTest, CudnnTransform) {
  ModelBuilder builder;
  const OpIndex transform = builder.AddOp(Transform());
  builder.Call(transform, 0, 100);
  builder.Call(builder.AddOp(LaunchDefinition(kToNhwc, 9)), 20, 50);  // another view of the same move
  const Table table = RunPass("layout", builder.Build(1000));
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Text(table, 0, "from"), "nchw");
  EXPECT_EQ(Text(table, 0, "to"), "nhwc");
  EXPECT_EQ(Text(table, 0, "change"), "format");
  EXPECT_EQ(Integer(table, 0, "calls"), 1);
  EXPECT_EQ(Integer(table, 0, "total_time"), 100);
  EXPECT_EQ(Integer(table, 0, "wall_share"), 100);
  EXPECT_EQ(Integer(table, 0, "bytes"), 2 * 4 * 8 * 16 * 32 * 32);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, 0, "throughput")));
  EXPECT_EQ(Text(table, 0, "caused_by"), "not known (1)");
}

TEST(GpuLayoutTest, KernelsAreChargedToTheCallAroundThem) {
  ModelBuilder builder;
  const OpIndex convolution = builder.AddOp(LegacyDefinition(1));
  const OpIndex kernel = builder.AddOp(LaunchDefinition(kToNhwc, 9));
  const OpIndex other = builder.AddOp(LaunchDefinition("_Z6squarePf", 9));
  for (int i = 0; i < 3; ++i) {
    builder.Call(convolution, i * 1000, 500);
    builder.Call(kernel, i * 1000 + 100, 50);
    builder.Call(other, i * 1000 + 200, 50);
  }
  builder.Call(kernel, 5000, 70);
  const Table table = RunPass("layout", builder.Build(10000));
  ASSERT_EQ(table.rows.size(), 4u);
  EXPECT_EQ(Text(table, 0, "dims"), "-");
  EXPECT_EQ(Text(table, 0, "implementations"), "nchwToNhwcKernel<float>");
  EXPECT_EQ(Text(table, 0, "from"), "nchw");
  EXPECT_EQ(Text(table, 0, "to"), "nhwc");
  EXPECT_EQ(Integer(table, 0, "total_time"), 70);
  EXPECT_EQ(Text(table, 0, "caused_by"), "not known (1)");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, 0, "read_by")));
  for (const char* read_by : {"conv1 forward", "conv2 forward", "conv3 forward"}) {
    const size_t row = RowWhere(table, {{"read_by", read_by}});
    EXPECT_EQ(Text(table, row, "caused_by"), "convolution forward (1)");
    EXPECT_EQ(Integer(table, row, "total_time"), 50);
    EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, row, "written_by")));
  }
}

TEST(GpuLayoutTest, AKernelAfterTheOthersConvertsTheResult) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(LegacyDefinition(1)), 0, 500);
  builder.Call(builder.AddOp(LaunchDefinition("_Z6squarePf", 9)), 100, 50);
  builder.Call(builder.AddOp(LaunchDefinition(kToNhwc, 9)), 200, 50);
  const Table table = RunPass("layout", builder.Build(1000));
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Text(table, 0, "written_by"), "conv1 forward");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, 0, "read_by")));
}

TEST(GpuLayoutTest, GeamWithATranspose) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(Geam("T")), 0, 100);
  builder.Call(builder.AddOp(Geam("N")), 200, 100);  // an addition
  const Table table = RunPass("layout", builder.Build());
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Text(table, 0, "dims"), "20x30");
  EXPECT_EQ(Text(table, 0, "from"), "col");
  EXPECT_EQ(Text(table, 0, "to"), "col transposed");
  EXPECT_EQ(Text(table, 0, "change"), "format");
}

TEST(GpuLayoutTest, LtTransformBetweenOrdersAndTypes) {
  ModelBuilder builder;
  builder.Call(
      builder.AddOp(Definition("function: 'cublasLtMatrixTransform' family: 'cublaslt' time_source: CLOCK_TICKS "
                               "matrix { kind: TRANSFORM type: S8 trans: 'N' m: 64 n: 32 order_a: 2 order_c: 3 "
                               "}")),
      0, 100);
  builder.Call(
      builder.AddOp(Definition("function: 'cublasLtMatrixTransform' family: 'cublaslt' time_source: CLOCK_TICKS "
                               "matrix { kind: TRANSFORM type: S8 c_type: F16 m: 64 n: 32 order_a: 1 order_c: "
                               "1 }")),
      200, 50);
  const Table table = RunPass("layout", builder.Build());
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Text(table, 0, "from"), "row");
  EXPECT_EQ(Text(table, 0, "to"), "col32");
  EXPECT_EQ(Text(table, 0, "change"), "format");
  EXPECT_EQ(Text(table, 1, "change"), "type");
  EXPECT_EQ(Text(table, 1, "from_type"), "s8");
  EXPECT_EQ(Text(table, 1, "to_type"), "f16");
}

TEST(GpuLayoutTest, ATransformIsChargedToTheOpThatReadsIt) {
  ModelBuilder builder;
  const ThreadIndex other = builder.AddThread();
  const OpIndex transform = builder.AddOp(Transform());
  const OpIndex geam = builder.AddOp(Geam("T"));
  const OpIndex convolution = builder.AddOp(LegacyDefinition(1));
  const OpIndex product = builder.AddOp(CudaGemmDefinition("cublasSgemm_v2", 64, 32, 16, ""));
  builder.Call(transform, 0, 50, 0, 0, {100, 0, 200});
  builder.Call(geam, 100, 40, 0, 0, {300, 300, 400});
  builder.Call(product, 200, 10, 0, 0, {7, 400, 500});      // reads what geam wrote
  builder.Call(convolution, 300, 10, 0, 0, {200, 8, 600});  // reads what transform wrote
  builder.Call(convolution, 400, 10, 0, 0, {200, 8, 600});  // again: not the next one
  builder.Call(transform, 500, 50, 0, 0, {100, 0, 200});
  builder.Call(product, 600, 10, 0, 0, {7, 8, 200});  // overwrites it
  builder.Call(convolution, 700, 10, 0, 0, {200, 8, 600});
  builder.Call(transform, 800, 50, 0, 0, {100, 0, 900});
  builder.Call(convolution, 900, 10, other, 0, {900, 8, 600});  // another thread
  const Table table = RunPass("layout", builder.Build());
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(Text(table, 0, "caused_by"), "not known (2)");
  EXPECT_EQ(Text(table, 1, "caused_by"), "convolution forward (1)");
  EXPECT_EQ(Text(table, 2, "caused_by"), "gemm (1)");
}

TEST(GpuLayoutTest, BetweenTheOpsThatAddressesShow) {
  ModelBuilder builder;
  const OpIndex product = builder.AddOp(CudaGemmDefinition("cublasSgemm_v2", 64, 32, 16, ""));
  builder.Call(product, 0, 10, 0, 0, {7, 8, 100});
  builder.Call(product, 100, 10, 0, 0, {100, 8, 500});  // what the transform reads may be read by others, too
  builder.Call(builder.AddOp(Transform()), 200, 50, 0, 0, {100, 0, 200});
  builder.Call(builder.AddOp(LegacyDefinition(1)), 300, 10, 0, 0, {200, 8, 600});
  const Table table = RunPass("layout", builder.Build());
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Text(table, 0, "written_by"), "fc1 forward");
  EXPECT_EQ(Text(table, 0, "read_by"), "conv1 forward");
}

TEST(GpuLayoutTest, TheFirstOfTwoReadersIsNamed) {
  ModelBuilder builder;
  const OpIndex transform = builder.AddOp(Transform());
  builder.Call(transform, 0, 50, 0, 0, {100, 0, 200});
  builder.Call(builder.AddOp(LegacyDefinition(1)), 100, 10, 0, 0, {200, 8, 600});
  builder.Call(transform, 200, 50, 0, 0, {200, 0, 700});  // moves the same tensor again
  const Table table = RunPass("layout", builder.Build());
  ASSERT_EQ(table.rows.size(), 2u);
  const size_t first = RowWhere(table, {{"written_by", "-"}});
  EXPECT_EQ(Text(table, first, "read_by"), "conv1 forward");
  EXPECT_EQ(Text(table, first, "caused_by"), "convolution forward (1)");
}

TEST(ConversionKernelsTest, AreKnownByTheirNames) {
  const auto to = [](absl::string_view name) {
    const ConversionKernel* kernel = FindConversionKernel(name);
    return kernel == nullptr ? std::string("none") : std::string(kernel->to);
  };
  EXPECT_EQ(to("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(…)"), "nhwc");
  EXPECT_EQ(to("void cudnn::ops::nhwcToNchwKernel<__half, __half, float, true, false>(…)"), "nchw");
  EXPECT_EQ(to("void cudnn::ops::nhwcToFoldedNhwcKernel<…>"), "folded nhwc");
  EXPECT_EQ(to("void cudnn::ops::foldedNhwcToNhwcKernel<…>"), "nhwc");
  EXPECT_EQ(to("void cudnn::ops::nhwcAddPaddingKernel<…>"), "nhwc padded");
  for (const char* name : {"void cudnn::ops::convertTensor_kernel<float, float, float, 0>(…)",
                           "void cudnn::ops::tensorTransformGeneric<…>",
                           "void transpose_readWrite_alignment_kernel<float2, float2, 1, false, 6, 4, 4>(…)",
                           "void tensorflow::functor::SwapDimension1And2InTensor3UsingTiles<unsigned int, 1024>(…)",
                           "input_transpose_fusion", "wrapped_transpose_2",
                           "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<"
                           "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::…"}) {
    EXPECT_EQ(to(name), "") << name;
  }
  for (const char* name : {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(…)",
                           "ampere_sgemm_128x64_tn", "cudnn_infer_ampere_scudnn_winograd_128x128_ldg1_ldg4", ""}) {
    EXPECT_EQ(to(name), "none") << name;
  }
}

}  // namespace
}  // namespace dlhook::analyzer
