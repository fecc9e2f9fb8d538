// Rule slow-products: products that take longer than the measured peaks of the machine allow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace products_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// One thread: 100 GFLOP/s, two: 200; memory 20 and 40 GB/s.
Calibration Machine() {
  Calibration calibration;
  calibration.processors = 2;
  calibration.date = "2026-11-23T05:40:00Z";
  for (const uint32_t threads : {1u, 2u}) {
    for (const auto& [what, best] : {std::pair(std::string("f32"), 100.0), {kMemoryRead, 20.0}}) {
      const double all = best * threads;
      calibration.measured.push_back({{all, all, all, all, 9}, what, threads, "", ""});
    }
  }
  return calibration;
}

// 2 * 128^3 FLOPs: at least 42 us by one thread.
CpuProgram Cubes(int64_t ns, double threads = 1, uint32_t runnable = 1) {
  CpuProgram program;
  program.process().processors = 2;
  program.Calls(GemmDefinition(128, 128, 128, "NN"), 1, 1000, ns);
  program.Load(threads, runnable);
  return program;
}

TEST(SlowProducts, AreFarFromTheirBound) {
  const Calibration machine = Machine();
  const auto found = Cubes(200'000).Find("slow-products", &machine);
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_NEAR(found.Gain(0), 200'000 - 2 * 41'943, 2);
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("m128 n128 k128"));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("allow them in 41.9 us"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("dlhook calibrate --show"));
  EXPECT_EQ(found.Of(0, "confidence"), "low");
}

TEST(SlowProducts, AreNoneAtAThirdOfTheBound) {
  const Calibration machine = Machine();
  EXPECT_THAT(Cubes(126'000).Find("slow-products", &machine).rows, IsEmpty());
}

// Beside a product that takes 50 us for 67 MFLOP.
CpuProgram BesideAFastOne(const trace::OpDefinition& definition, int64_t ns) {
  CpuProgram program;
  program.Calls(GemmDefinition(128, 512, 512, "NN"), 1, 1000, 50'000);
  program.Calls(definition, 1, 100'000, ns);
  return program;
}

TEST(SlowProducts, AreSlowForTheirKind) {
  const trace::OpDefinition like = GemmDefinition(128, 512, 256, "NN");  // half of it
  const auto found = BesideAFastOne(like, 500'000).Find("slow-products");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("20 times slower, which its shape does not explain"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("Denormal values"));
  EXPECT_NEAR(found.Gain(0), 450'000, 1000);
  EXPECT_THAT(BesideAFastOne(like, 240'000).Find("slow-products").rows, IsEmpty());  // 9.6 times
  EXPECT_THAT(BesideAFastOne(GemmDefinition(8, 512, 512, "NN"), 500'000).Find("slow-products").rows, IsEmpty());
  EXPECT_THAT(BesideAFastOne(GemmDefinition(32, 32, 32, "NN"), 500'000).Find("slow-products").rows, IsEmpty());
}

TEST(SlowProducts, AreNotJudgedByStatedPeaks) {
  CpuProgram program = Cubes(200'000);
  program.process().processor = {"AuthenticAMD", "AMD EPYC 7763", 25, 1, 1, 2, 1};
  program.process().clock = ClockKind::kTsc;
  program.process().ticks_per_second = 2'000'000'000;
  EXPECT_THAT(program.Find("slow-products").rows, IsEmpty());
}

TEST(SlowProducts, AreNotJudgedWhileOthersCompute) {
  const Calibration machine = Machine();
  EXPECT_THAT(Cubes(200'000, 1, 3).Find("slow-products", &machine).rows, IsEmpty());
  CpuProgram waiting = Cubes(200'000);
  for (LoadSample& sample : waiting.builder().model().loads) sample.waiting_ns = sample.time_ns / 20;
  EXPECT_THAT(waiting.Find("slow-products", &machine).rows, IsEmpty());
}

// The other thread must have run during most of them.
TEST(SlowProducts, AreJudgedByTheThreadsThatMustHaveRun) {
  const Calibration machine = Machine();
  const auto products = [](int count, double threads) {
    CpuProgram program;
    program.process().processors = 2;
    program.Calls(GemmDefinition(128, 128, 128, "NN"), count, 1000, 126'000);
    program.Load(threads, 2);
    return program;
  };
  EXPECT_THAT(products(7, 1.9).Find("slow-products", &machine).rows, SizeIs(1));
  EXPECT_THAT(products(1, 1.9).Find("slow-products", &machine).rows, IsEmpty());  // it may have run beside them
  CpuProgram told = products(7, 1.9);
  told.process().settings = {{"OPENBLAS_NUM_THREADS", "1"}};
  EXPECT_THAT(told.Find("slow-products", &machine).rows, IsEmpty());
}

// Each at a third of the bound of one thread, in two threads at a time: in the wall shares each takes half its time.
TEST(SlowProducts, OfSeveralThreadsAreComputedByOneEach) {
  const Calibration machine = Machine();
  const auto region = [](int64_t ns) {
    CpuProgram program;
    program.process().processors = 2;
    const ThreadIndex other = program.builder().AddThread();
    const OpIndex op = program.builder().AddOp(GemmDefinition(128, 128, 128, "NN"));
    for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
      for (int call = 0; call < 4; ++call) {
        for (const ThreadIndex thread : {ThreadIndex{0}, other}) {
          program.builder().Call(op, step_ns + 1000 + call * ns, ns, thread);
        }
      }
    }
    program.Load(2, 2);
    return program;
  };
  EXPECT_THAT(region(126'000).Find("slow-products", &machine).rows, IsEmpty());
  EXPECT_THAT(region(200'000).Find("slow-products", &machine).rows, SizeIs(1));
}

TEST(SlowProducts, SayWhatIsWrongWithTheShape) {
  struct Case {
    int64_t m, n, k;
    int count;
    const char* advice;
  };
  for (const Case& one : {Case{2, 256, 256, 1, "more rows at once"},
                          {256, 4, 256, 1, "more rows at once"},
                          {256, 256, 4, 1, "inner dimension"},
                          {64, 64, 64, 8, "torch.bmm"}}) {
    const Calibration machine = Machine();
    CpuProgram program = Cubes(60'000);  // as fast as it can be
    program.Calls(GemmDefinition(one.m, one.n, one.k, "NN"), one.count, 100'000, 800'000 / one.count);
    const auto found = program.Find("slow-products", &machine);
    ASSERT_EQ(found.rows.size(), 1u) << one.advice;
    EXPECT_THAT(found.Of(0, "advice"), HasSubstr(one.advice));
    EXPECT_THAT(found.Of(0, "finding"), Not(HasSubstr("and others")));
  }
}

TEST(SlowProducts, OneByOneAreClaimedOnce) {
  const Calibration machine = Machine();
  CpuProgram program = Cubes(60'000);
  program.Calls(GemmDefinition(2, 256, 256, "NN"), 8, 100'000, 100'000);
  const auto found = program.Find("slow-products", &machine);
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("8 equal products of 2 rows"));
}

// Requests of 1 ms, one product of m512 n1 k512 in 0.8 of it: what a batch would share.
TEST(SlowProducts, OfOneRowInEachRequestCouldBeABatch) {
  const auto requests = [](StepKind kind, int64_t rows, int64_t ns) {
    CpuProgram program(kind);
    program.Calls(GemmDefinition(512, rows, 512, "TN"), 1, 100'000, ns);
    return program;
  };
  const auto found = requests(StepKind::kInference, 1, 800'000).Find("slow-products");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_NEAR(found.Gain(0), 700'000, 1000);
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("Requests of 1 row follow one another"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("one batch"));
  EXPECT_THAT(requests(StepKind::kInference, 5, 800'000).Find("slow-products").rows, IsEmpty());
  EXPECT_THAT(requests(StepKind::kInference, 1, 400'000).Find("slow-products").rows, IsEmpty());
  EXPECT_THAT(requests(StepKind::kTraining, 1, 800'000).Find("slow-products").rows, IsEmpty());
  CpuProgram one_output = requests(StepKind::kInference, 1, 800'000);
  one_output.Batch(512);  // its short side is not the rows
  EXPECT_THAT(one_output.Find("slow-products").rows, IsEmpty());
}

TEST(SlowProducts, WithNarrowVectorsHaveAnotherCause) {
  const Calibration machine = Machine();
  CpuProgram program;
  program.process().processors = 2;
  program.process().processor = {"AuthenticAMD", "AMD EPYC 7763", 25, 1, 1, 2, 1};
  program.process().settings = {{"OPENBLAS_CORETYPE", "Nehalem"}};
  program.Calls(GemmDefinition(128, 128, 128, "NN", "scipy_cblas_sgemm64_"), 1, 1000, 200'000);
  program.Load(1, 1);
  EXPECT_THAT(program.Find("slow-products", &machine).rows, IsEmpty());
}

}  // namespace products_test
}  // namespace dlhook::analyzer
