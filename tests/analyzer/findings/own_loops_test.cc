// Rule own-loops: products and convolutions of PyTorch in which no library is called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace own_loops_test {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

CpuProgram Program(const std::string& op, int64_t ns, StepKind kind = StepKind::kTraining) {
  CpuProgram program(kind);
  program.UseTorch();
  program.Scope(op, 1000, ns);
  return program;
}

TEST(OwnLoops, AreALossInTraining) {
  const auto found = Program("aten::mm", 400'000).Find("own-loops");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Gain(0), 400'000);
  EXPECT_EQ(found.Of(0, "kind"), "loss");
  EXPECT_EQ(found.Of(0, "basis"), "at most");
  EXPECT_EQ(found.Of(0, "numerics"), "changes");
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("PyTorch computes aten::mm in its own loops"));
}

// Names of functions that samples met are no operations.
TEST(OwnLoops, AreALossBesideSymbolsOfSamples) {
  CpuProgram program = Program("aten::mm", 400'000);
  program.builder().AddName("mkl_sparse_d_mv");
  EXPECT_THAT(program.Find("own-loops").rows, SizeIs(1));
  program.Scope("aten::_sparse_mm", 500'000, 1000);
  EXPECT_THAT(program.Find("own-loops").rows, IsEmpty());
}

TEST(OwnLoops, OfProductsAreInformationInInference) {
  const auto product = Program("aten::addmm", 400'000, StepKind::kInference).Find("own-loops");
  ASSERT_THAT(product.rows, SizeIs(1));
  EXPECT_EQ(product.Of(0, "kind"), "information");
  EXPECT_THAT(product.Of(0, "finding"), HasSubstr("With one or two rows"));
  const auto convolution = Program("aten::_slow_conv2d_forward", 400'000, StepKind::kInference).Find("own-loops");
  ASSERT_THAT(convolution.rows, SizeIs(1));
  EXPECT_EQ(convolution.Of(0, "kind"), "loss");
}

TEST(OwnLoops, AreNoneWithALibraryInside) {
  CpuProgram program = Program("aten::mm", 400'000);
  program.Calls(GemmDefinition(256, 256, 256, "NN"), 1, 2000, 390'000);
  EXPECT_THAT(program.Find("own-loops").rows, IsEmpty());
}

TEST(OwnLoops, AreLeftAloneWhereTheyAreShortOrSparse) {
  EXPECT_THAT(Program("aten::mm", 29'000).Find("own-loops").rows, IsEmpty());
  EXPECT_THAT(Program("aten::bmm", 400'000).Find("own-loops").rows, IsEmpty());
  CpuProgram small(StepKind::kTraining);
  small.UseTorch();
  for (int i = 0; i < 20; ++i) small.Scope("aten::mm", 1000 + 20'000 * i, 19'000);
  EXPECT_THAT(small.Find("own-loops").rows, IsEmpty());
  CpuProgram sparse = Program("aten::addmm", 400'000);
  sparse.Scope("aten::_sparse_mm", 500'000, 1000);
  EXPECT_THAT(sparse.Find("own-loops").rows, IsEmpty());
}

TEST(OwnLoops, AreNotJudgedWhereCallsWereLeftOut) {
  CpuProgram filtered = Program("aten::mm", 400'000), imported = Program("aten::mm", 400'000);
  filtered.process().settings = {{"DLHOOK_CAPTURE", "-blas"}};
  imported.process().capabilities.push_back(
      {.name = "library-calls", .state = CapabilityState::kAbsent, .object = "", .reason = ""});
  for (CpuProgram* program : {&filtered, &imported}) {
    const auto found = program->Find("own-loops");
    EXPECT_THAT(found.rows, IsEmpty());
    EXPECT_THAT(found.table.notes, Contains(HasSubstr("own-loops (not every call of a library was recorded)")));
  }
}

}  // namespace own_loops_test
}  // namespace dlhook::analyzer
