// Rule graph-breaks: time between compiled graphs of a function.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/builders/gpu_program.h"

namespace dlhook::analyzer {
namespace graph_breaks_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Spec {
  int64_t between_ns = 200'000;  // of the 1 ms of a step
  bool is_broken = true;         // a second graph, inside the first one's region
  bool is_kept = true;           // by PyTorch
};

std::vector<std::string> Find(const Spec& spec) {
  GpuProgram program;
  std::vector<int64_t> starts;
  for (int64_t start_ns = 0; start_ns < 10'000'000; start_ns += 1'000'000) {
    starts.push_back(start_ns);
    const int64_t second_ns = start_ns + 300'000 + spec.between_ns;
    program.Scope("Torch-Compiled Region: 0/0", start_ns, second_ns + 300'000);
    program.Scope("CompiledFunction", start_ns, start_ns + 300'000);
    if (spec.is_broken) program.Scope("Torch-Compiled Region: 1/0", second_ns, second_ns + 300'000);
    program.Scope("CompiledFunction", second_ns, second_ns + 300'000);
  }
  starts.push_back(10'000'000);
  program.Steps(starts);
  if (spec.is_kept) {
    program.builder().model().compiled.push_back({.kind = CompiledKind::kGraphBreak,
                                                  .file = "/home/u/net.py",
                                                  .line = 8,
                                                  .count = 1,
                                                  .function = "forward",
                                                  .text = "Tensor.item() is not compiled. PyTorch: Leave it out."});
  }
  program.Build(starts.back());
  const Table table = program.Make(ReportTables().front());
  std::vector<std::string> found;
  for (const size_t row : RowsWhere(table, {{"rule", "graph-breaks"}})) {
    EXPECT_NEAR(Integer(table, row, "gain"), spec.between_ns, 1000);
    EXPECT_EQ(Text(table, row, "line"), "net.py:8");
    EXPECT_EQ(Text(table, row, "advice"), "PyTorch suggests: Leave it out.");
    found.push_back(Text(table, row, "finding"));
  }
  return found;
}

TEST(GraphBreaks, TakeWhatPassesBetweenGraphs) {
  EXPECT_THAT(Find({}), ElementsAre(AllOf(HasSubstr(
                            "breaks the graph of forward at net.py:8: Tensor.item() is not "
                            "compiled. The time between its graphs is 200 us of a 1.00 ms training step (20 %)."))));
}
TEST(GraphBreaks, MayTakeNextToNothing) { EXPECT_THAT(Find({.between_ns = 20'000}), IsEmpty()); }
TEST(GraphBreaks, AreNotInOneGraph) { EXPECT_THAT(Find({.is_broken = false}), IsEmpty()); }
TEST(GraphBreaks, AreNotGuessed) { EXPECT_THAT(Find({.is_kept = false}), IsEmpty()); }

// Without gradients there is no CompiledFunction, and PyTorch keeps no reason.
TEST(GraphBreaks, InInferenceTakeTheLookUpsOfGraphs) {
  GpuProgram program;
  std::vector<int64_t> starts;
  for (int64_t start_ns = 0; start_ns <= 10'000'000; start_ns += 1'000'000) {
    starts.push_back(start_ns);
    program.Scope("Torch-Compiled Region: 0/0", start_ns, start_ns + 900'000);
    program.Scope("TorchDynamo Cache Lookup", start_ns + 400'000, start_ns + 450'000);
    program.Scope("Torch-Compiled Region: 1/0", start_ns + 500'000, start_ns + 800'000);
  }
  program.Steps(starts);
  program.builder().model().compiled.push_back(
      {.file = "/home/u/net.py", .line = 8, .function = "torch_dynamo_resume_in_forward_at_8"});
  program.Build(starts.back());
  const Table table = program.Make(ReportTables().front());
  const size_t row = RowWhere(table, {{"rule", "graph-breaks"}});
  EXPECT_EQ(Integer(table, row, "gain"), 50'000);
  EXPECT_EQ(Text(table, row, "line"), "net.py:8");
  EXPECT_THAT(Text(table, row, "finding"), HasSubstr("why was not kept"));
  EXPECT_THAT(Text(table, row, "finding"), HasSubstr("looking these up takes 50.0 us"));
}

}  // namespace graph_breaks_test
}  // namespace dlhook::analyzer
