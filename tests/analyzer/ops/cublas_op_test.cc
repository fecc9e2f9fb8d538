// Decoded products of cuBLAS and cuBLASLt: both orders, names of enumerators, tensor cores, cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/ops/nvidia_names.h"
#include "tests/analyzer/ops/decode_text.h"

namespace dlhook::analyzer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A cuBLAS product with these fields of CudaGemm.
Op Gemm(const std::string& types, const std::string& cuda, const std::string& more = "") {
  return DecodeText("function: 'cublasGemmEx' family: 'cublas' gemm { " + types +
                    " m: 120 n: 64 k: 256 trans_a: 'T' trans_b: 'N' lda: 256 ldb: 256 ldc: 120 " + more +
                    " cuda { scale_type: -1 " + cuda + " } }");
}

constexpr char kF32[] = "a_type: F32 b_type: F32 c_type: F32";
constexpr char kF16[] = "a_type: F16 b_type: F16 c_type: F16";

TEST(CublasOpTest, SaysBothReadings) {
  const Op op = Gemm(kF32, "compute_type: -1 math_mode: 0 algorithm: -1");
  EXPECT_EQ(op.kind, "gemm");
  EXPECT_EQ(op.problem, "m120 n64 k256 TN f32");
  // C' [64, 120] = op(B)' [64, 256] op(A)' [256, 120]: B in memory is [64, 256], A is [120, 256].
  EXPECT_EQ(op.row_major_problem, "m64 n120 k256 NT f32");
  EXPECT_EQ(op.flops, 2 * 120 * 64 * 256);
  EXPECT_EQ(op.bytes, 4 * (120 * 256 + 256 * 64 + 120 * 64));
  EXPECT_TRUE(op.on_gpu);
  EXPECT_TRUE(op.is_asynchronous);
  EXPECT_FALSE(op.captured);
  EXPECT_EQ(op.algorithm, "");  // cublasSgemm takes none
  EXPECT_EQ(op.implementation, "");
  EXPECT_EQ(op.workspace_bytes, std::nullopt);
}

TEST(CublasOpTest, RowMajorReadingExchangesTypesToo) {
  const Op op = Gemm("a_type: F8_E4M3 b_type: F8_E5M2 c_type: BF16",
                     "lt: true compute_type: 68 algorithm: -1 math_mode: -1 order_a: 1 order_b: 1 "
                     "order_d: 1",
                     "batch: 3");
  EXPECT_EQ(op.problem, "m120 n64 k256 TN f8_e4m3:f8_e5m2:bf16 batch3");
  EXPECT_EQ(op.row_major_problem, "m64 n120 k256 NT f8_e5m2:f8_e4m3:bf16 batch3");
  EXPECT_EQ(op.bytes, 3 * (120 * 256 + 256 * 64 + 2 * 120 * 64));
}

TEST(CublasOpTest, BlasOnTheCpuHasARowMajorReadingToo) {
  const Op op = DecodeText(
      "function: 'sgemm_' family: 'blas' gemm { a_type: F32 m: 3 n: 5 k: 7 "
      "trans_a: 'N' trans_b: 'T' }");
  EXPECT_EQ(op.row_major_problem, "m5 n3 k7 TN f32");
  EXPECT_FALSE(op.on_gpu);
  EXPECT_FALSE(op.is_asynchronous);
  EXPECT_FALSE(op.tensor_core.has_value());
  const Op row = DecodeText(
      "function: 'cblas_sgemm' gemm { a_type: F32 m: 3 n: 5 k: 7 "
      "row_major: true trans_a: 'N' trans_b: 'T' }");
  EXPECT_EQ(row.problem, "m3 n5 k7 NT f32 row-major");
  EXPECT_EQ(row.row_major_problem, "");
}

TEST(CublasOpTest, NamesWhatLtWasConfiguredWith) {
  const Op op = Gemm(kF16,
                     "lt: true compute_type: 68 math_mode: -1 algorithm: 21 tile: 18 stages: 10 "
                     "split_k: 1 epilogue: 164 workspace_bytes: 33554432 chooser: HEURISTIC "
                     "heuristic_rank: 0 heuristic_requested: 4 heuristic_results: 3 order_a: 1 "
                     "order_b: 1 order_d: 1 fast_accumulation: true",
                     "");
  EXPECT_EQ(op.implementation, "cublasLt algo 21 tile 128x64 stages 32x4 split-k 1");
  EXPECT_EQ(op.algorithm, "");
  EXPECT_EQ(op.compute_type, "32f");
  EXPECT_EQ(op.math_mode, "");
  EXPECT_EQ(op.workspace_bytes, 33554432);
  EXPECT_EQ(op.chooser, Chooser::kHeuristic);
  EXPECT_STREQ(ChooserName(op.chooser), "heuristic");
  EXPECT_EQ(op.heuristic, "rank 0 of 3");
  EXPECT_THAT(op.post_ops, ElementsAre("bias", "gelu_aux"));
  EXPECT_THAT(op.notes, ElementsAre("fast_accumulation"));
  const Op all = Gemm(kF16,
                      "lt: true compute_type: 68 algorithm: 66 tile: 634 stages: 35 split_k: 3 "
                      "reduction: 2 swizzle: 1 custom_option: 5 inner_shape: 4 cluster_shape: 3");
  EXPECT_EQ(all.implementation,
            "cublasLt algo 66 tile 512x1024 stages 64xAUTO split-k 3 reduction 2 swizzle 1 custom 5 "
            "inner mma16816 cluster 2x1x1");
  const Op none = Gemm(kF16, "lt: true compute_type: 68 algorithm: -1 chooser: LIBRARY");
  EXPECT_EQ(none.implementation, "");
  EXPECT_EQ(none.heuristic, "");
}

TEST(CublasOpTest, TypesAreNamedWithTheirScales) {
  const auto types = [](const char* operands, const char* modes) {
    return Gemm(operands, (std::string("lt: true compute_type: 68 ") + modes).c_str()).types;
  };
  EXPECT_EQ(types("a_type: F8_E4M3 b_type: F8_E5M2 c_type: BF16", "scale_mode_a: 2 scale_mode_b: 2"),
            "f8_e4m3/mxfp8:f8_e5m2/mxfp8:bf16");
  EXPECT_EQ(types("a_type: F4_E2M1 b_type: F4_E2M1 c_type: F4_E2M1", "scale_mode_a: 1 scale_mode_b: 1 scale_mode_d: 1"),
            "f4_e2m1/nvfp4");
  EXPECT_EQ(types("a_type: F8_E4M3 b_type: F8_E4M3 c_type: F8_E4M3", ""), "f8_e4m3");
  EXPECT_EQ(types("a_type: F8_E4M3 b_type: F8_E4M3 c_type: F32", "scale_mode_a: 4 scale_mode_b: 5"),
            "f8_e4m3/1x128:f8_e4m3/128x128:f32");
  EXPECT_EQ(types("a_type: F8_E4M3 b_type: F8_E4M3 c_type: F32", "scale_mode_a: 3 scale_mode_b: 9"),
            "f8_e4m3/outer:f8_e4m3/scale9:f32");
}

TEST(CublasOpTest, OrdersOfLt) {
  const Op row = Gemm(kF32, "lt: true compute_type: 68 order_a: 2 order_b: 2 order_d: 2");
  EXPECT_EQ(row.problem, "m120 n64 k256 TN f32 row-major");
  EXPECT_EQ(row.row_major_problem, "");
  const Op tiled =
      Gemm("a_type: S8 b_type: S8 c_type: S32", "lt: true compute_type: 72 order_a: 3 order_b: 5 order_d: 3");
  EXPECT_EQ(tiled.problem, "m120 n64 k256 TN s8:s8:s32 col32:col32_2r_4r4:col32");
  EXPECT_EQ(tiled.row_major_problem, "");
}

TEST(CublasOpTest, AskingTheHeuristicsIsASearch) {
  const Op op = Gemm(kF32,
                     "lt: true compute_type: 68 algorithm: -1 heuristic_requested: 1 "
                     "heuristic_results: 1 order_a: 1 order_b: 1 order_d: 1",
                     "kind: HEURISTIC");
  EXPECT_EQ(op.kind, "search");
  EXPECT_EQ(op.subject, "gemm");
  EXPECT_EQ(op.problem, "m120 n64 k256 TN f32");
  EXPECT_EQ(op.heuristic, "1 of 1 requested");
  EXPECT_EQ(op.chooser, Chooser::kHeuristic);
  EXPECT_FALSE(op.is_asynchronous);
  EXPECT_EQ(op.flops, std::nullopt);
  EXPECT_EQ(op.bytes, std::nullopt);
}

std::string CoreOf(const Op& op) {
  if (!op.tensor_core) return "unknown";
  return (op.tensor_core->eligible ? "yes: " : "no: ") + op.tensor_core->reason;
}

TEST(TensorCoreTest, TypeDecidesFirst) {
  EXPECT_EQ(CoreOf(Gemm(kF16, "compute_type: 68 math_mode: 0")), "yes: type f16: from compute capability 7.0");
  EXPECT_EQ(CoreOf(Gemm("a_type: BF16", "compute_type: 68")), "yes: type bf16: from compute capability 8.0");
  EXPECT_EQ(CoreOf(Gemm("a_type: F64", "compute_type: -1")), "yes: type f64: from compute capability 8.0");
  EXPECT_EQ(CoreOf(Gemm("a_type: S32", "compute_type: 72")), "no: type s32");
  EXPECT_EQ(CoreOf(Gemm("", "compute_type: 68")), "unknown");
  EXPECT_EQ(CoreOf(Gemm(kF16, "compute_type: 68", "kind: GEMV")), "no: matrix-vector");
}

TEST(TensorCoreTest, SinglePrecisionHasToBeAllowedLess) {
  EXPECT_EQ(CoreOf(Gemm(kF32, "compute_type: -1 math_mode: 0")), "no: math mode default keeps f32");
  EXPECT_EQ(CoreOf(Gemm(kF32, "compute_type: -1 math_mode: 3")), "yes: math mode tf32_tensor_op");
  // The flag in addition to the mode changes nothing.
  EXPECT_EQ(CoreOf(Gemm(kF32, "compute_type: -1 math_mode: 19")), "yes: math mode tf32_tensor_op");
  EXPECT_EQ(CoreOf(Gemm(kF32, "lt: true compute_type: 77 math_mode: -1")), "yes: compute type 32f_fast_tf32");
  EXPECT_EQ(CoreOf(Gemm(kF32, "lt: true compute_type: 68 math_mode: -1")), "no: compute type 32f keeps f32");
}

TEST(TensorCoreTest, PedanticForbidsThem) {
  EXPECT_EQ(CoreOf(Gemm(kF16, "compute_type: 69 math_mode: 0")), "no: compute type 32f_pedantic");
  EXPECT_EQ(CoreOf(Gemm(kF16, "compute_type: -1 math_mode: 2")), "no: math mode pedantic");
  EXPECT_EQ(CoreOf(Gemm(kF16, "compute_type: 0 math_mode: 18")), "no: math mode pedantic");
  // The call's own cublasComputeType_t decides.
  EXPECT_EQ(CoreOf(Gemm(kF16, "compute_type: 68 math_mode: 2")), "yes: type f16: from compute capability 7.0");
}

TEST(TensorCoreTest, AlignmentIsTold) {
  EXPECT_THAT(CoreOf(Gemm(kF16, "compute_type: 68 alignment_bytes: 2")),
              HasSubstr("yes: type f16: from compute capability 7.0; alignment 2 bytes is below 16"));
  EXPECT_EQ(CoreOf(Gemm(kF16, "compute_type: 68 alignment_bytes: 16")), "yes: type f16: from compute capability 7.0");
  EXPECT_EQ(CoreOf(Gemm(kF32, "compute_type: -1 math_mode: 0 alignment_bytes: 4")), "no: math mode default keeps f32");
}

TEST(CublasNamesTest, AsTheHeadersHaveThem) {
  EXPECT_EQ(GemmAlgorithmName(-1), "gemm_default");
  EXPECT_EQ(GemmAlgorithmName(0), "gemm_algo0");
  EXPECT_EQ(GemmAlgorithmName(23), "gemm_algo23");
  EXPECT_EQ(GemmAlgorithmName(24), "24");
  EXPECT_EQ(GemmAlgorithmName(99), "gemm_default_tensor_op");
  EXPECT_EQ(GemmAlgorithmName(115), "gemm_algo15_tensor_op");
  EXPECT_EQ(GemmAlgorithmName(999), "gemm_autotune");
  EXPECT_EQ(ComputeTypeName(77), "32f_fast_tf32");
  EXPECT_EQ(ComputeTypeName(64), "16f");
  EXPECT_EQ(ComputeTypeName(76), "76");
  EXPECT_EQ(ComputeTypeName(0), "f32");  // cudaDataType, before CUDA 11
  EXPECT_EQ(ComputeTypeName(2), "f16");
  EXPECT_EQ(ComputeTypeName(14), "bf16");
  EXPECT_EQ(ComputeTypeName(33), "f4_e2m1");
  EXPECT_EQ(ComputeTypeName(-1), "");
  EXPECT_EQ(ComputeTypeName(-7), "-7");
  EXPECT_EQ(MathModeName(3), "tf32_tensor_op");
  EXPECT_EQ(MathModeName(16), "default+disallow_reduced_precision_reduction");
  EXPECT_EQ(MathModeName(7), "7");
  EXPECT_EQ(LtTileName(1), "8x8");
  EXPECT_EQ(LtTileName(20), "128x128");
  EXPECT_EQ(LtTileName(36), "8x128");
  EXPECT_EQ(LtTileName(100), "48x576");
  EXPECT_EQ(LtTileName(352), "64x400");
  EXPECT_EQ(LtTileName(353), "64x408");
  EXPECT_EQ(LtTileName(500), "256x144");
  EXPECT_EQ(LtTileName(630), "768x80");
  EXPECT_EQ(LtTileName(634), "512x1024");
  EXPECT_EQ(LtTileName(635), "635");
  EXPECT_EQ(LtTileName(0), "0");
  EXPECT_EQ(NameIn(kStages, 11), "32x5");
  EXPECT_EQ(NameIn(kStages, 29), "29");
  EXPECT_EQ(NameIn(kStages, 38), "768xAUTO");
  EXPECT_EQ(NameIn(kClusters, 2), "1x1x1");
  EXPECT_EQ(NameIn(kClusters, 51), "1x15x1");
  EXPECT_EQ(NameIn(kClusters, 52), "52");
}

TEST(CublasNamesTest, Epilogues) {
  EXPECT_THAT(EpilogueNames(0), IsEmpty());
  EXPECT_THAT(EpilogueNames(1), IsEmpty());
  EXPECT_THAT(EpilogueNames(2), ElementsAre("relu"));
  EXPECT_THAT(EpilogueNames(4), ElementsAre("bias"));
  EXPECT_THAT(EpilogueNames(6), ElementsAre("bias", "relu"));
  EXPECT_THAT(EpilogueNames(134), ElementsAre("bias", "relu_aux"));
  EXPECT_THAT(EpilogueNames(136), ElementsAre("drelu"));
  EXPECT_THAT(EpilogueNames(152), ElementsAre("drelu", "bgrad"));
  EXPECT_THAT(EpilogueNames(36), ElementsAre("bias", "gelu"));
  EXPECT_THAT(EpilogueNames(192), ElementsAre("dgelu"));
  EXPECT_THAT(EpilogueNames(208), ElementsAre("dgelu", "bgrad"));
  EXPECT_THAT(EpilogueNames(256), ElementsAre("bgrada"));
  EXPECT_THAT(EpilogueNames(1024), ElementsAre("epilogue_1024"));
}

TEST(MatrixOpTest, TransposesAndTransforms) {
  const Op geam = DecodeText(
      "function: 'cublasSgeam' family: 'cublas' matrix { kind: GEAM type: F32 trans: 'T' "
      "trans_b: 'N' m: 6 n: 4 lda: 4 ldb: 6 ldc: 6 }");
  EXPECT_EQ(geam.kind, "geam");
  EXPECT_EQ(geam.problem, "m6 n4 TN f32");
  EXPECT_EQ(geam.flops, std::nullopt);
  EXPECT_EQ(geam.bytes, 3 * 4 * 24);
  EXPECT_TRUE(geam.is_asynchronous);
  const Op transform = DecodeText(
      "function: 'cublasLtMatrixTransform' family: 'cublaslt' matrix { kind: TRANSFORM type: S8 "
      "c_type: S32 trans: 'N' m: 6 n: 4 batch: 2 order_a: 1 order_c: 3 }");
  EXPECT_EQ(transform.kind, "transform");
  EXPECT_EQ(transform.problem, "m6 n4 N s8:s32 col->col32 batch2");
  EXPECT_EQ(transform.bytes, 2 * (24 + 4 * 24));
}

TEST(MatrixOpTest, DiagonalAndSparse) {
  const Op dgmm = DecodeText("family: 'cublas' matrix { kind: DGMM type: C32 side: 'R' m: 6 n: 4 }");
  EXPECT_EQ(dgmm.problem, "m6 n4 R c32");
  EXPECT_EQ(dgmm.flops, 6 * 24);
  EXPECT_EQ(dgmm.bytes, 8 * (24 + 24 + 4));
  const Op spmm = DecodeText("family: 'cusparse' matrix { kind: SPMM type: F32 m: 6 n: 4 k: 5 nonzeros: 7 }");
  EXPECT_EQ(spmm.problem, "m6 n4 k5 f32 nonzeros7");
  EXPECT_EQ(spmm.flops, 2 * 7 * 4);
  EXPECT_EQ(spmm.bytes, std::nullopt);
  EXPECT_TRUE(spmm.on_gpu);
  EXPECT_EQ(DecodeText("matrix { kind: SDDMM type: F32 m: 6 n: 4 k: 5 nonzeros: 7 }").flops, 2 * 7 * 5);
  EXPECT_EQ(DecodeText("matrix { kind: SPMV type: F64 m: 6 n: 1 k: 5 nonzeros: 7 }").flops, 14);
  EXPECT_EQ(DecodeText("matrix { kind: SPMV type: F64 m: 6 n: 1 k: 5 }").flops, std::nullopt);
}

}  // namespace
}  // namespace dlhook::analyzer
