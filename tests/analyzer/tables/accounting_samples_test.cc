// Samples in the tables `accounting` and `layers`: whose code computed in time that is not seen, with sums as without them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/analysis/sample_places.h"
#include "analyzer/tables/tables.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace accounting_samples_test {

constexpr int64_t kMs = 1'000'000;

class AccountingSamples : public testing::Test {
 protected:
  AccountingSamples() {
    library_ = builder_.AddNativeStack({"memcpy"}, "/lib/x86_64-linux-gnu/libc.so.6");
    builder_.model().native_frames.parent[library_] =
        builder_.AddNativeStack({"ort::Run", "main"}, "/v/lib/libonnxruntime.so.1.32.0");
    line_ = builder_.AddStack({{"/home/u/net.py", "Net.forward", 12}});
  }
  // Of 10 ms each, one after another.
  void Samples(int count, FrameIndex frame, StackIndex python = kNone) {
    for (int i = 0; i < count; ++i) builder_.Sample(++at_ * 10 * kMs, 10 * kMs, frame, python);
  }
  // "activity what: ms".
  std::vector<std::string> Rows(int64_t wall_ms) {
    const Table table = RunPass("accounting", builder_.Build(wall_ms * kMs));
    EXPECT_EQ(Sum(table, "wall_share"), wall_ms * kMs);
    std::vector<std::string> rows;
    for (size_t row = 0; row < table.rows.size(); ++row) {
      rows.push_back(Text(table, row, "activity") + " " + Text(table, row, "what") + ": " +
                     std::to_string(Integer(table, row, "wall_share") / kMs));
    }
    return rows;
  }
  ModelBuilder builder_;
  FrameIndex library_ = kNone;
  StackIndex line_ = kNone;
  int64_t at_ = 0;
};

TEST_F(AccountingSamples, NameWhatComputed) {
  Samples(30, library_);
  Samples(10, kNone, line_);
  EXPECT_EQ(Rows(420), (std::vector<std::string>{"sampled libonnxruntime.so: 315", "sampled Python, net.py:12: 105"}));
}

TEST_F(AccountingSamples, WhatHasNoCpuTimeIsNotComputing) {
  Samples(30, library_);
  EXPECT_EQ(Rows(1000),
            (std::vector<std::string>{"sampled libonnxruntime.so: 300", "[unattributed] not computing: 700"}));
}

TEST_F(AccountingSamples, AFewAreNotTold) {
  Samples(8, library_);
  EXPECT_EQ(Rows(80), std::vector<std::string>{"[unattributed] -: 80"});
}

TEST_F(AccountingSamples, RareLinesShareTheRowOfTheirCode) {
  Samples(20, library_);
  for (uint32_t line = 1; line <= 4; ++line) {
    Samples(1, kNone, builder_.AddStack({{"/home/u/net.py", "Net.forward", line}}));
  }
  EXPECT_EQ(Rows(250), (std::vector<std::string>{"sampled libonnxruntime.so: 208", "sampled Python: 41"}));
}

// A row of an op's time, which is measured, and of a wait's: only that is divided.
TEST(LayersSamples, DivideWhatIsNotMeasured) {
  ModelBuilder builder;
  const StackIndex stack = builder.AddStack({{"/home/u/net.py", "Net.forward", 7}});
  const StackIndex other = builder.AddStack({{"/home/u/net.py", "Net.forward", 8}});
  for (const int64_t start_ms : {0, 300}) {
    builder.Scope("aten::relu", ScopeKind::kFrameworkOp, start_ms * kMs, 100 * kMs, 0, -1, stack);
  }
  builder.Scope("wait", ScopeKind::kTraceMe, 100 * kMs, 200 * kMs, 0, -1, stack);
  for (int64_t i = 0; i < 13; ++i) builder.Sample((110 + 10 * i) * kMs, 10 * kMs, kNone, other);
  const TraceModel model = builder.Build(400 * kMs);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model);
  const TableOptions options = {.totals = &totals, .analysis = &analysis, .by = By::kLine};
  const Table table = *LayersTable(model, options);
  EXPECT_EQ(Sum(table, "wall_share"), 400 * kMs);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"line", "net.py:7"}}), "wall_share"), 200 * kMs);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"line", "net.py:8"}}), "wall_share"), 200 * kMs);
}

TEST(CodeOwners, AreShort) {
  EXPECT_EQ(CodeOwner("/v/lib/python3.11/site-packages/cv2/cv2.abi3.so"), "cv2");
  EXPECT_EQ(CodeOwner("/v/lib/python3.11/site-packages/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so"),
            "numpy._core._multiarray_umath");
  EXPECT_EQ(CodeOwner("/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so"), "_json");
  EXPECT_EQ(CodeOwner("/usr/lib/libopencv_dnn.so.406"), "libopencv_dnn.so");
  EXPECT_EQ(CodeOwner("/home/u/net"), "net");
  EXPECT_EQ(CodeOwner(""), "");
}

}  // namespace accounting_samples_test
}  // namespace dlhook::analyzer
