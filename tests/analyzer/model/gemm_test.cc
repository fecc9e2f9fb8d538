// Shapes of matrix products, and the table `gemm`.
#include <gtest/gtest.h>

#include "analyzer/model/gemm_shape.h"
#include "analyzer/ops/decode_op.h"
#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

std::string InnerProduct(const std::string& direction) {
  return "onednn_verbose,v1,primitive,exec,cpu,inner_product,brgemm:avx512_core," + direction +
         ",src:f32:a:blocked:abcd::f0 wei:f32:a:blocked:abcd::f0 bia:f32:a:blocked:a::f0 "
         "dst:f32:a:blocked:ab::f0,attr-scratchpad:user,,mb64ic16ih5iw5oc120,0.1";
}

MatmulShape ShapeOf(const std::string& line) {
  return MatmulShapeOf(DecodeOp(OneDnnDefinition(line))).value_or(MatmulShape());
}

TEST(GemmShapeTest, Blas) {
  const MatmulShape shape = *MatmulShapeOf(DecodeOp(GemmDefinition(120, 64, 256, "TN")));
  EXPECT_EQ(shape, (MatmulShape{120, 64, 256, 1, "TN", "col"}));
}

// cublasLtOrder_t + 1 of A, B and D: 1 by columns, 2 by rows, others tiled for integer tensor cores.
TEST(GemmShapeTest, CublasLtHasTheOrderOfItsResult) {
  const auto order = [](const std::string& orders) {
    const Op op =
        DecodeOp(Definition("function: 'cublasLtMatmul' family: 'cublaslt' gemm { a_type: F32 m: 120 n: 64 k: 256 "
                            "trans_a: 'T' trans_b: 'N' cuda { lt: true " +
                            orders + " } }"));
    const MatmulShape shape = *MatmulShapeOf(op);
    EXPECT_EQ(std::tie(shape.m, shape.n, shape.k, shape.trans), std::make_tuple(120, 64, 256, "TN"));
    return shape.order;
  };
  EXPECT_EQ(order("order_a: 1 order_b: 1 order_d: 1"), "col");
  EXPECT_EQ(order("order_a: 2 order_b: 2 order_d: 2"), "row");
  EXPECT_EQ(order("order_a: 1 order_b: 1 order_d: 2"), "row");
  EXPECT_EQ(order("order_a: 2 order_b: 2 order_d: 1"), "col");
  EXPECT_EQ(order("order_a: 3 order_b: 5 order_d: 3"), "col");
}

TEST(GemmShapeTest, InnerProductDependsOnTheDirection) {
  EXPECT_EQ(ShapeOf(InnerProduct("forward_training")), (MatmulShape{64, 120, 400, 1, "", "row"}));
  EXPECT_EQ(ShapeOf(InnerProduct("backward_data")), (MatmulShape{64, 400, 120, 1, "", "row"}));
  EXPECT_EQ(ShapeOf(InnerProduct("backward_weights")), (MatmulShape{120, 400, 64, 1, "", "row"}));
}

TEST(GemmShapeTest, MatMulTakesTransposesFromFormats) {
  EXPECT_EQ(ShapeOf("onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core,undef,"
                    "src:bf16::blocked:abc::f0 wei:bf16::blocked:acb::f0 dst:f32::blocked:abc::f0,,,"
                    "4x8x16:1x16x10,0.01"),
            (MatmulShape{8, 10, 16, 4, "NT", "row"}));
  EXPECT_EQ(ShapeOf("onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core,undef,"
                    "src:bf16::blocked:ba::f0 wei:bf16:a:blocked:BA16a64b2a::f0 dst:f32::blocked:ab::f0,,,"
                    "8x16:16x10,0.01"),
            (MatmulShape{8, 10, 16, 1, "TP", "row"}));
}

TEST(GemmShapeTest, OtherOpsAreNone) {
  EXPECT_EQ(MatmulShapeOf(Op()), std::nullopt);
  trace::OpDefinition unknown;  // runtime dimensions
  unknown.mutable_onednn()->set_primitive("matmul");
  unknown.mutable_onednn()->set_problem("*x16:16x*");
  EXPECT_TRUE(IsMatrixProduct(DecodeOp(unknown)));
  EXPECT_EQ(MatmulShapeOf(DecodeOp(unknown)), std::nullopt);
}

TEST(GemmTableTest, OneRowForEachShape) {
  ModelBuilder builder;
  const OpIndex large = builder.AddOp(GemmDefinition(100, 50, 20, "NN"));
  trace::OpDefinition other_leading_dimension = GemmDefinition(100, 50, 20, "NN");
  other_leading_dimension.mutable_gemm()->set_lda(128);
  const OpIndex large_too = builder.AddOp(other_leading_dimension);
  const OpIndex small = builder.AddOp(GemmDefinition(2, 2, 2, "NN"));
  const OpIndex matmul = builder.AddOp(OneDnnDefinition(InnerProduct("forward_training")));
  builder.Call(large, 0, 1000);
  builder.Call(large_too, 1000, 3000);
  builder.Call(small, 5000, 100);
  builder.Call(matmul, 6000, 900);
  const Table table = RunPass("gemm", builder.Build(10000));

  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(Integer(table, 0, "m"), 100);
  EXPECT_EQ(Integer(table, 0, "n"), 50);
  EXPECT_EQ(Integer(table, 0, "k"), 20);
  EXPECT_EQ(Integer(table, 0, "calls"), 2);
  EXPECT_EQ(Integer(table, 0, "total_time"), 4000);
  EXPECT_DOUBLE_EQ(Real(table, 0, "gemm_percent"), 80.0);  // 4000 of 5000
  EXPECT_DOUBLE_EQ(Real(table, 0, "rate"), 2.0 * 2 * 100 * 50 * 20 / 4000);
  EXPECT_EQ(Integer(table, 0, "wall_share"), 4000);
  EXPECT_DOUBLE_EQ(Real(table, 0, "wall_percent"), 40.0);
  EXPECT_EQ(Text(table, 1, "kind"), "inner_product");
  EXPECT_EQ(Text(table, 1, "direction"), "forward");
  EXPECT_EQ(Integer(table, 2, "total_time"), 100);
}

TEST(GemmTableTest, AProductInsideAProductCountsOnce) {
  ModelBuilder builder;
  trace::OpDefinition row_major = GemmDefinition(64, 120, 256, "NT", "cblas_sgemm");
  row_major.mutable_gemm()->set_row_major(true);
  const OpIndex outer = builder.AddOp(row_major);
  const OpIndex inner = builder.AddOp(GemmDefinition(120, 64, 256, "TN", "sgemm_"));
  for (int i = 0; i < 3; ++i) {
    builder.Call(outer, i * 2000, 1000);
    builder.Call(inner, i * 2000 + 100, 800);
  }
  const Table table = RunPass("gemm", builder.Build(10000));
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Integer(table, 0, "m"), 64);
  EXPECT_EQ(Text(table, 0, "order"), "row");
  EXPECT_EQ(Integer(table, 0, "calls"), 3);
  EXPECT_EQ(Integer(table, 0, "total_time"), 3000);
  EXPECT_EQ(Integer(table, 0, "wall_share"), 3000);
  EXPECT_EQ(Text(table, 0, "functions"), "cblas_sgemm, sgemm_");
}

TEST(GemmTableTest, CublasTellsMore) {
  ModelBuilder builder;
  const OpIndex lt = builder.AddOp(
      CudaGemmDefinition("cublasLtMatmul", 128, 64, 256, "compute_type: 68 epilogue: 6 chooser: HEURISTIC"));
  const OpIndex ask =
      builder.AddOp(CudaGemmDefinition("cublasLtMatmulAlgoGetHeuristic", 128, 64, 256, "", "kind: HEURISTIC"));
  for (int i = 0; i < 3; ++i) {
    builder.Call(ask, i * 1000, 50);  // not a product
    builder.Call(lt, i * 1000 + 100, 200, 0, i == 2 ? 14 : 0);
  }
  const Table table = RunPass("gemm", builder.Build(10000));
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Integer(table, 0, "calls"), 3);
  EXPECT_EQ(Integer(table, 0, "failed"), 1);
  EXPECT_EQ(Integer(table, 0, "m"), 128);
  EXPECT_EQ(Text(table, 0, "order"), "col");
  EXPECT_EQ(Text(table, 0, "row_major").substr(0, 14), "m64 n128 k256 ");
  EXPECT_EQ(Text(table, 0, "compute_type"), "32f");
  EXPECT_EQ(Text(table, 0, "epilogue"), "bias+relu");
  EXPECT_EQ(Text(table, 0, "functions"), "cublasLtMatmul");
  // The call only requests the product.
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, 0, "rate")));
}

TEST(GemmTableTest, CublasLtInsideCublasCountsOnce) {
  ModelBuilder builder;
  const OpIndex outer = builder.AddOp(CudaGemmDefinition("cublasSgemm_v2", 64, 32, 16, "chooser: LIBRARY"));
  const OpIndex inner = builder.AddOp(CudaGemmDefinition("cublasLtMatmul", 64, 32, 16, "chooser: HEURISTIC"));
  for (int i = 0; i < 3; ++i) {
    builder.Call(outer, i * 1000, 500);
    builder.Call(inner, i * 1000 + 100, 300);
  }
  const Table table = RunPass("gemm", builder.Build(10000));
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Integer(table, 0, "calls"), 3);
  EXPECT_EQ(Integer(table, 0, "total_time"), 1500);
  EXPECT_EQ(Integer(table, 0, "wall_share"), 1500);
  EXPECT_EQ(Text(table, 0, "functions"), "cublasLtMatmul, cublasSgemm_v2");
}

}  // namespace
}  // namespace dlhook::analyzer
