// Rule growing-steps: what grows from step to step, and where the machine's load must be known to say so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/builders/gpu_program.h"

namespace dlhook::analyzer {
namespace growing_steps_test {

using testing::HasSubstr;
using testing::IsEmpty;

// kTimes: as kPlateaus, of products of one size; kLengths: rows, by more each time; kHistory: rows, by 16 each time.
enum class Grows { kOperation, kNumber, kGap, kPlateaus, kTimes, kLengths, kHistory };

constexpr int64_t kUs = 1000;

// 60 steps of 400 us to 1 580 us: an operation of 300 us, and 20 us more in each step. Others take up to `others_ns` of any of
// them. The finding, its line and advice.
std::string Found(Grows grows, bool is_load_known = true, int64_t others_ns = 0, bool has_threads = false) {
  GpuProgram program;
  ModelBuilder& builder = program.builder();
  const ThreadIndex thread = has_threads ? builder.AddThread() : 0;
  builder.model().processes.front().capabilities.push_back(
      {.name = "library", .object = "libtorch_cpu.so", .reason = ""});
  const StackIndex first = builder.AddStack({{"/home/u/train.py", "<module>", 7}});
  const StackIndex last = builder.AddStack({{"/home/u/train.py", "<module>", 9}});
  std::vector<int64_t> starts = {0};
  for (int64_t step = 0; step < 60; ++step) {
    int64_t now_ns = starts.back();
    const auto add = [&](const char* name, int64_t ns, StackIndex stack) {
      builder.Scope(name, ScopeKind::kFrameworkOp, now_ns, ns, 0, -1, stack);
      now_ns += ns + kUs;
    };
    const int64_t plateau = grows == Grows::kPlateaus || grows == Grows::kTimes ? 1 + step / 15 : 1;
    const int64_t rows = grows == Grows::kPlateaus  ? 16 * plateau
                         : grows == Grows::kLengths ? 32 + step * step / 3
                         : grows == Grows::kHistory ? 32 + 16 * step
                                                    : 16;
    const OpIndex product = builder.AddOp(GemmDefinition(64, rows, 64, "NN"));
    builder.Call(product, now_ns + kUs, 200 * kUs, thread);
    add("aten::linear", 300 * kUs * plateau, first);
    if (grows == Grows::kOperation || rows > 64) add("aten::cat", 20 * step * kUs + 10 * kUs, first);
    for (int64_t i = 0; grows == Grows::kNumber && i < 2 * step; ++i)
      add(i % 3 == 0 ? "aten::mul" : i % 3 == 1 ? "aten::add" : "aten::sub", 9 * kUs, first);
    if (grows == Grows::kGap) now_ns += 20 * step * kUs;
    now_ns += step * 37 % 60 * others_ns / 60;
    add("aten::mean", 20 * kUs, last);
    starts.push_back(now_ns + 50 * kUs);
    if (!is_load_known) continue;
    LoadSample sample;
    sample.time_ns = sample.cpu_ns = sample.first_thread_cpu_ns = starts.back();
    sample.threads = 1;
    sample.runnable = has_threads ? 4 : 1;
    sample.processors = 2;
    builder.model().loads.push_back(sample);
  }
  program.Steps(starts);
  program.Build(starts.back());
  const Table table = program.Make(ReportTables().front());
  const std::vector<size_t> rows = RowsWhere(table, {{"rule", "growing-steps"}});
  std::string text;
  for (const size_t row : rows)
    text += Text(table, row, "where") + " | " + Text(table, row, "line") + " | " + Text(table, row, "finding") +
            Text(table, row, "advice");
  return text;
}

TEST(GrowingSteps, NameTheOperationThatGrows) {
  const std::string found = Found(Grows::kOperation);
  EXPECT_THAT(found, HasSubstr("aten::cat | train.py:7 | "));
  EXPECT_THAT(found, HasSubstr("collect the parts in a list"));
}

TEST(GrowingSteps, NameTheirNumber) {
  const std::string found = Found(Grows::kNumber);
  EXPECT_THAT(found, HasSubstr("number of operations |"));
  EXPECT_THAT(found, HasSubstr("mostly in its operations, which become more: "));
  EXPECT_THAT(found, HasSubstr("for 20 of them a training step in the first third"));
  EXPECT_THAT(found, HasSubstr("for 100 of them in the last"));
}

TEST(GrowingSteps, NameTheirNumberWhereOthersHideItsTime) {
  const std::string found = Found(Grows::kNumber, false, 20'000 * kUs);
  EXPECT_THAT(found, HasSubstr("has more operations than the one before, from "));
  EXPECT_THAT(found, HasSubstr("for 100 of them in the last"));
}

TEST(GrowingSteps, NameTheOperationWhoseOwnTimeGrowsWhereOthersHideTheSteps) {
  const std::string found = Found(Grows::kOperation, false, 10'000 * kUs);
  EXPECT_THAT(found, HasSubstr("aten::cat | train.py:7 | Each training step takes longer in aten::cat than the one"));
  EXPECT_THAT(Found(Grows::kLengths, false, 10'000 * kUs), IsEmpty());
}

TEST(GrowingSteps, NameTheLinesBetweenOperations) {
  EXPECT_THAT(Found(Grows::kGap), HasSubstr("between operations | train.py:7 to 9 | "));
}

// How long threads of a server wait for one of two processors that four want is not known.
TEST(GrowingSteps, AreNotToldOfThreadsThatMayWait) {
  EXPECT_THAT(Found(Grows::kOperation, /*is_load_known=*/true, 0, /*has_threads=*/true), IsEmpty());
}

// On a busy machine the time between operations grows, too.
TEST(GrowingSteps, AreNotToldOfTimeBetweenOperationsWithoutTheLoad) {
  EXPECT_THAT(Found(Grows::kGap, /*is_load_known=*/false), IsEmpty());
  EXPECT_THAT(Found(Grows::kOperation, /*is_load_known=*/false), HasSubstr("aten::cat"));
}

// Texts that are sorted by length; what each step leaves behind grows by the same.
TEST(GrowingSteps, AreNoLargerInputs) {
  EXPECT_THAT(Found(Grows::kLengths), IsEmpty());
  EXPECT_THAT(Found(Grows::kHistory), HasSubstr("Each training step takes longer than the one before"));
}

// Larger inputs from time to time are no leftovers of each step.
TEST(GrowingSteps, AreNoPlateausOfLargerProducts) {
  EXPECT_THAT(Found(Grows::kPlateaus), IsEmpty());
  EXPECT_THAT(Found(Grows::kTimes), HasSubstr("Each training step takes longer than the one before"));
}

}  // namespace growing_steps_test
}  // namespace dlhook::analyzer
