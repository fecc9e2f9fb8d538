// Rules spinning-threads and one-thread, by the processor time of a program's first thread and of its others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace threads_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// In a step of 1 ms, operations of PyTorch run for `working` of it; threads that ran on average.
struct Threads {
  double working = 0.3;
  double first = 1;
  double all = 2;
  uint32_t runnable = 4;
  double waiting = 0;
  bool of_first_thread = true;
};

CpuProgram Program(const Threads& threads) {
  CpuProgram program;
  program.UseTorch();
  program.process().processors = 2;
  program.Scope("aten::mul", 1000, static_cast<int64_t>(threads.working * CpuProgram::kStepNs));
  program.Load(threads.all, threads.runnable);
  for (LoadSample& sample : program.builder().model().loads) {
    sample.first_thread_cpu_ns = static_cast<int64_t>(threads.first * static_cast<double>(sample.time_ns));
    sample.waiting_ns = static_cast<int64_t>(threads.waiting * static_cast<double>(sample.time_ns));
  }
  if (!threads.of_first_thread) program.builder().model().threads.front().tid += 1;
  return program;
}

TEST(SpinningThreads, AreInformationWithoutALoss) {
  const auto found = Program({}).Find("spinning-threads");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Of(0, "kind"), "information");
  EXPECT_NEAR(found.Gain(0), 700'000, 1000);  // the second thread, while nothing runs
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("Of 2.00 ms of CPU time per training step"));
}

TEST(SpinningThreads, AreALossIfTheFirstThreadWaitsForThem) {
  CpuProgram program = Program({.first = 0.8, .all = 1.8, .waiting = 0.2});
  const auto found = program.Find("spinning-threads");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Of(0, "kind"), "loss");
  EXPECT_NEAR(found.Gain(0), 200'000, 1000);
  EXPECT_THAT(RowsWhere(found.table, {{"rule", "too-many-threads"}}), IsEmpty());
}

TEST(SpinningThreads, OwnOnlyThatMuchOfTheWait) {
  // The second thread runs for 0.95 ms; operations run for 0.5.
  CpuProgram program = Program({.working = 0.5, .first = 0.8, .all = 1.75, .waiting = 0.6});
  const auto found = program.Find("spinning-threads");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_NEAR(found.Gain(0), 450'000, 1000);
  const std::vector<size_t> rest = RowsWhere(found.table, {{"rule", "too-many-threads"}});
  ASSERT_THAT(rest, SizeIs(1));
  EXPECT_NEAR(Integer(found.table, rest.front(), "gain"), 150'000, 1000);
}

TEST(SpinningThreads, MayHaveWorked) {
  EXPECT_THAT(Program({.working = 0.9}).Find("spinning-threads").rows, IsEmpty());
  EXPECT_THAT(Program({.all = 1.3}).Find("spinning-threads").rows, IsEmpty());
}

TEST(SpinningThreads, CostNobodyWhereProcessorsAreFree) {
  EXPECT_THAT(Program({.runnable = 2}).Find("spinning-threads").rows, IsEmpty());
}

TEST(SpinningThreads, AreNoneIfTheySleep) {
  CpuProgram program = Program({});
  program.process().settings = {{"OMP_WAIT_POLICY", "PASSIVE"}};
  EXPECT_THAT(program.Find("spinning-threads").rows, IsEmpty());
}

TEST(SpinningThreads, AreNotJudgedWhereOthersCallOperations) {
  const auto found = Program({.of_first_thread = false}).Find("spinning-threads");
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_THAT(found.table.notes,
              testing::Contains(HasSubstr("spinning-threads (other threads than the first call operations)")));
}

// Products of 0.9 ms on the first thread of a machine of 8.
CpuProgram Products(double first, double all, double of_workers, const std::string& function = "sgemm_") {
  CpuProgram program;
  program.process().processors = 8;
  program.Calls(GemmDefinition(1024, 1024, 1024, "NN", function), 1, 1000, 900'000);
  program.Load(all, 1);
  std::vector<LoadSample>& loads = program.builder().model().loads;
  for (LoadSample& sample : loads) {
    sample.first_thread_cpu_ns = static_cast<int64_t>(first * static_cast<double>(sample.time_ns));
  }
  if (of_workers == 0) return program;
  const ProcessIndex worker = program.builder().AddProcess();
  const std::vector<LoadSample> of_program = loads;
  for (LoadSample sample : of_program) {
    sample.process = worker;
    sample.cpu_ns = static_cast<int64_t>(of_workers * static_cast<double>(sample.time_ns));
    loads.push_back(sample);
  }
  return program;
}

TEST(OneThread, BesideWorkersOfALoader) {
  const auto found = Products(1, 1, 3).Find("one-thread");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_NEAR(found.Gain(0), 900'000 * (1 - 1.0 / 5), 100);
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("OMP_NUM_THREADS=5"));
}

TEST(OneThread, IsAllThatIsLeftByTheWorkers) { EXPECT_THAT(Products(1, 1, 6.5).Find("one-thread").rows, IsEmpty()); }

TEST(OneThread, IsNotAloneIfOthersOfItsProcessRun) {
  EXPECT_THAT(Products(1, 2, 1).Find("one-thread").rows, IsEmpty());
}

// Others run, but need not run beside the products.
TEST(OneThread, ComputesProductsIfOpenBlasWasToldSo) {
  const auto told = [](double all) {
    CpuProgram program = Products(1, all, 1, "scipy_cblas_sgemm64_");
    program.process().settings = {{"OPENBLAS_NUM_THREADS", "1"}};
    for (LoadSample& sample : program.builder().model().loads) sample.threads = 8;
    return program;
  };
  CpuProgram program = Products(1, 1.5, 1, "scipy_cblas_sgemm64_");
  EXPECT_THAT(program.Find("one-thread").rows, IsEmpty());
  program = told(1.5);
  const auto found = program.Find("one-thread");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_NEAR(found.Gain(0), 900'000 * (1 - 1.0 / 7), 100);  // one of 8 is the worker's
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("OPENBLAS_NUM_THREADS=1 is set"));
  program = Products(1, 1.5, 1);  // of another library
  program.process().settings = {{"OPENBLAS_NUM_THREADS", "1"}};
  EXPECT_THAT(program.Find("one-thread").rows, IsEmpty());
  // In a parallel region, the others of which are busy all the time, too; or three of them are.
  EXPECT_THAT(told(6.9).Find("one-thread").rows, IsEmpty());
  program = told(1 + 3 * 0.9 + 0.7);
  EXPECT_THAT(program.Find("one-thread").Of(0, "advice"), HasSubstr("OMP_NUM_THREADS=4"));
}

}  // namespace threads_test
}  // namespace dlhook::analyzer
