// Rule warm-up: short runs of which the first steps take much.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/builders/gpu_program.h"

namespace dlhook::analyzer {
namespace warm_up_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;

// One step of warm-up, then steady ones of 100 ms.
struct Spec {
  int64_t warm_up_ns = 4 * kSecond + kSecond / 10;
  int steps = 20;
  bool is_compiled = false;
};

std::vector<std::string> Found(const Spec& spec) {
  GpuProgram program;
  std::vector<int64_t> starts = {0, spec.warm_up_ns};
  for (int step = 0; step < spec.steps; ++step) starts.push_back(starts.back() + kSecond / 10);
  program.Steps(starts);
  program.WarmUp(1);
  if (spec.is_compiled) program.Scope("Torch-Compiled Region: 0/0", 1000, 2000);
  program.Build(starts.back());
  const Table table = program.Make(ReportTables().front());
  std::vector<std::string> found;
  for (const size_t row : RowsWhere(table, {{"rule", "warm-up"}, {"kind", "information"}})) {
    found.push_back(Text(table, row, "finding") + " " + Text(table, row, "advice"));
    // 4 of 6.1 s, in 21 steps.
    EXPECT_NEAR(Real(table, row, "gain_percent"), 65.6, 0.1);
    EXPECT_NEAR(Integer(table, row, "gain"), 4 * kSecond / 21, 1);
  }
  return found;
}

TEST(WarmUp, TakesMostOfAShortRun) {
  EXPECT_THAT(Found({}), ElementsAre(HasSubstr("1 warm-up step takes 4.10 s; all 21 steps of the run take 6.10 s")));
  EXPECT_THAT(Found({.is_compiled = true}), ElementsAre(HasSubstr("without torch.compile")));
}

TEST(WarmUp, IsShortOrTheRunIsLong) {
  EXPECT_THAT(Found({.warm_up_ns = 2 * kSecond}), IsEmpty());
  EXPECT_THAT(Found({.steps = 170}), IsEmpty());  // 19 %
}

}  // namespace warm_up_test
}  // namespace dlhook::analyzer
