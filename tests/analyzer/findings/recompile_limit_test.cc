// Rule recompile-limit: a function that torch.compile does not compile again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/builders/gpu_program.h"

namespace dlhook::analyzer {
namespace recompile_limit_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Spec {
  int uncompiled = 5;   // of 10 steps, which take 1.5 instead of 1 ms
  bool is_kept = true;  // by PyTorch
};

std::vector<std::string> Find(const Spec& spec, double gain_ns) {
  GpuProgram program;
  std::vector<int64_t> starts = {0};
  for (int step = 0; step < 10; ++step) {
    const bool is_compiled = step >= spec.uncompiled;
    const int64_t start_ns = starts.back(), end_ns = start_ns + (is_compiled ? 1'000'000 : 1'500'000);
    program.Scope(is_compiled ? "Torch-Compiled Region: 3/1" : "aten::mul", start_ns, end_ns - 1000);
    starts.push_back(end_ns);
  }
  program.Steps(starts);
  auto& compiled = program.builder().model().compiled;
  for (const char* region : {"3/0", "3/1", "30/0"})
    compiled.push_back({.kind = CompiledKind::kCompilation, .region = region});
  if (spec.is_kept) {
    compiled.push_back({.kind = CompiledKind::kRecompileLimit,
                        .region = "3/2",
                        .file = "/home/u/net.py",
                        .line = 8,
                        .function = "scale",
                        .text = "3/1: mode == 'b'"});
  }
  program.Build(starts.back());
  const Table table = program.Make(ReportTables().front());
  std::vector<std::string> found;
  for (const size_t row : RowsWhere(table, {{"rule", "recompile-limit"}})) {
    EXPECT_NEAR(Integer(table, row, "gain"), gain_ns, 1000);
    EXPECT_EQ(Text(table, row, "line"), "net.py:8");
    found.push_back(Text(table, row, "finding"));
  }
  return found;
}

TEST(RecompileLimit, GainsWhatUncompiledStepsTakeMore) {
  EXPECT_THAT(
      Find({}, 250'000),
      ElementsAre(AllOf(HasSubstr("for scale after 2 versions"), HasSubstr("The last reason: 3/1: mode == 'b'"),
                        HasSubstr("5 of 10 training steps run none, and take 1.50 ms where the others take 1.00 ms"))));
}
TEST(RecompileLimit, GainIsNotKnownWithoutCompiledSteps) {
  EXPECT_THAT(Find({.uncompiled = 10}, 1'500'000),
              ElementsAre(AllOf(HasSubstr("runs uncompiled"), Not(HasSubstr("run none")))));
}
TEST(RecompileLimit, IsNotGuessed) { EXPECT_THAT(Find({.is_kept = false}, 0), IsEmpty()); }

}  // namespace recompile_limit_test
}  // namespace dlhook::analyzer
