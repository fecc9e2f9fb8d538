// Columns about bounds in the tables gemm, ops and layers, and the table `convolutions`, on calls whose times are chosen by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "analyzer/peaks/peaks.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

using testing::Contains;
using testing::HasSubstr;

// One thread: 100 GFLOP/s of f32, 10 GB/s.
Calibration OneThread() {
  Calibration calibration;
  calibration.processors = 1;
  calibration.date = "2026-11-23T05:40:00Z";
  const auto add = [&](const char* what, double best) {
    calibration.measured.push_back({{best, best, best, best, 9}, what, 1, "", ""});
  };
  add("f32", 100);
  add(kMemoryRead, 10);
  return calibration;
}

class Bounds : public testing::Test {
 protected:
  Table Make(const std::string& table, bool has_peaks = true) {
    if (!model_) model_ = builder_.Build();
    TraceModel model = *model_;
    model.processes.front().processors = 1;
    const Peaks peaks(model, &calibration_);
    return RunPass(table, std::move(model), has_peaks ? &peaks : nullptr);
  }
  static bool HasColumn(const Table& table, const std::string& name) {
    return std::any_of(table.columns.begin(), table.columns.end(),
                       [&](const Column& column) { return column.name == name; });
  }

  Calibration calibration_ = OneThread();
  ModelBuilder builder_;
  std::optional<TraceModel> model_;
};

constexpr int64_t kMicrosecond = 1000;

TEST_F(Bounds, OfProducts) {
  // 2 x 1000^3 FLOPs at 100 GFLOP/s: 20 ms. 3 x 4 MB at 10 GB/s: 1.2 ms.
  const OpIndex large = builder_.AddOp(GemmDefinition(1000, 1000, 1000, "NN"));
  // 2 x 1000^2 FLOPs: 20 us; 4 MB: 400.8 us.
  const OpIndex thin = builder_.AddOp(GemmDefinition(1000, 1, 1000, "NN"));
  builder_.Call(large, 0, 25'000 * kMicrosecond);
  builder_.Call(large, 30'000 * kMicrosecond, 55'000 * kMicrosecond);
  builder_.Call(thin, 90'000 * kMicrosecond, 501 * kMicrosecond);
  for (const char* name : {"gemm", "ops"}) {
    const Table table = Make(name);
    EXPECT_EQ(Text(table, 0, "bound"), "compute") << name;
    EXPECT_DOUBLE_EQ(Real(table, 0, "bound_percent"), 50);
    EXPECT_EQ(Integer(table, 0, "lost_time"), 40'000 * kMicrosecond);
    EXPECT_NEAR(Real(table, 0, "intensity"), 2e9 / 12e6, 1e-9);
    EXPECT_EQ(Text(table, 1, "bound"), "memory");
    EXPECT_DOUBLE_EQ(Real(table, 1, "bound_percent"), 80);
    EXPECT_THAT(table.notes, Contains(HasSubstr("dlhook calibrate measured on 2026-11-23")));
  }
}

TEST_F(Bounds, AreNoneWhereCallsTookLess) {
  builder_.Call(builder_.AddOp(GemmDefinition(1000, 1000, 1000, "NN")), 0, 19'000 * kMicrosecond);
  for (const char* name : {"gemm", "ops"}) {
    for (const char* column : {"bound", "bound_percent", "lost_time"}) {
      EXPECT_TRUE(std::holds_alternative<std::monostate>(At(Make(name), 0, column))) << name << ' ' << column;
    }
  }
}

// A function that calls another one for the same work counts once.
TEST_F(Bounds, OfNestedCallsAreOfTheOuterOne) {
  builder_.Call(builder_.AddOp(GemmDefinition(1000, 1000, 1000, "NN", "cblas_sgemm")), 0, 40'000 * kMicrosecond);
  builder_.Call(builder_.AddOp(GemmDefinition(1000, 1000, 1000, "NN", "sgemm_")), 10, 39'000 * kMicrosecond);
  const Table table = Make("gemm");
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(Real(table, 0, "bound_percent"), 50);
}

TEST_F(Bounds, ThatAreNotKnownHaveNoColumns) {
  builder_.Call(builder_.AddOp(GemmDefinition(10, 10, 10, "NN")), 0, kMicrosecond);
  for (const char* name : {"gemm", "ops", "layers"}) {
    EXPECT_TRUE(HasColumn(Make(name), "bound")) << name;
    EXPECT_FALSE(HasColumn(Make(name, false), "bound")) << name;
    EXPECT_FALSE(HasColumn(Make(name, false), "lost_time")) << name;
  }
}

// A real log of a training.
TEST_F(Bounds, OfLayersAreSumsOfTheirCalls) {
  builder_.Log(ReadTestData("cnn_plain.log"), 5000);
  for (Measurement& measured : calibration_.measured) measured.best *= 100;  // so that none took less
  const Table table = Make("layers");
  size_t bounded = 0;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    if (std::holds_alternative<std::monostate>(At(table, row, "flops"))) continue;
    ++bounded;
    EXPECT_GT(Real(table, row, "bound_percent"), 0);
    EXPECT_LT(Integer(table, row, "lost_time"), Integer(table, row, "time") + 1);
  }
  EXPECT_EQ(bounded, 2u);
}

std::string Convolution(const std::string& implementation, const std::string& milliseconds) {
  return "onednn_verbose,v1,primitive,exec,cpu,convolution," + implementation +
         ",forward_training,src:f32:a:blocked:aBcd16b::f0 wei:f32:a:blocked:ABcd16b16a::f0 bia:undef::undef::: "
         "dst:f32:a:blocked:aBcd16b::f0,attr-scratchpad:user,alg:convolution_direct,"
         "mb1_ic64oc64_ih112oh112kh3sh1dh0ph1_iw112ow112kw3sw1dw0pw1," +
         milliseconds + "\n";
}

// 0.925 GFLOP in 5 ms are 185 GFLOP/s on a machine of 100: Winograd's F(4,3) did 48.9 of them.
TEST_F(Bounds, ARateBeyondThePeakIsExplained) {
  builder_.Log(Convolution("jit_wino_4x3:avx512_core", "5") + Convolution("jit:avx512_core", "10"), 1000);
  const Table table = Make("convolutions");
  const size_t winograd = RowWhere(table, {{"algorithm", "Winograd F(4,3)"}}),
               direct = RowWhere(table, {{"algorithm", "direct"}});
  const double flops = 2.0 * 64 * 64 * 112 * 112 * 9;
  EXPECT_EQ(Integer(table, winograd, "direct_flops"), static_cast<int64_t>(flops));
  EXPECT_NEAR(Real(table, winograd, "effective_rate"), flops / 5e6, 0.01);
  EXPECT_NEAR(Real(table, winograd, "done_rate"),
              static_cast<double>(Integer(table, winograd, "winograd4_flops")) / 5e6, 0.01);
  EXPECT_LT(Real(table, winograd, "done_rate"), 100);
  EXPECT_EQ(Real(table, direct, "effective_rate"), Real(table, direct, "done_rate"));
  EXPECT_EQ(Integer(table, direct, "direct_least"), static_cast<int64_t>(flops / 100));
  EXPECT_LT(Integer(table, direct, "winograd4_least"), Integer(table, direct, "winograd2_least"));
  EXPECT_EQ(Integer(table, direct, "im2col_bytes"), 2 * 4 * 112 * 112 * 9 * 64);
  EXPECT_THAT(table.notes, Contains(testing::ContainsRegex(
                               "runs at 185 GFLOP/s by the direct count, above the peak of 100: Winograd "
                               "F\\(4,3\\) does 48[.]9 GFLOP/s")));
}

TEST_F(Bounds, AnUnknownAlgorithmIsNotGuessed) {
  builder_.Log(Convolution("wino:other", "5"), 1000);
  const Table table = Make("convolutions");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, 0, "done_rate")));
  EXPECT_THAT(table.notes,
              Contains(HasSubstr("an algorithm with fewer operations, Winograd F(2,3) or Winograd F(4,3)")));
  EXPECT_FALSE(HasColumn(Make("convolutions", false), "direct_least"));
}

}  // namespace
}  // namespace dlhook::analyzer
