// GPU rules: for each cause a program that loses time by it, and one that does the same while the GPU works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/gpu_program.h"

namespace dlhook::analyzer {
namespace gpu_findings_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr int64_t kStepNs = 1'000'000;
constexpr int kSteps = 6;
constexpr char kItem[] =
    "function: 'cudaMemcpy' family: 'cuda_copy' copy { direction: DEVICE_TO_HOST bytes: 4 host_memory: PAGEABLE }";

std::string AsyncCopy(const std::string& memory, int64_t bytes) {
  return absl::StrCat("function: 'cudaMemcpyAsync' family: 'cuda_copy' copy { direction: HOST_TO_DEVICE bytes: ", bytes,
                      " asynchronous: true host_memory: ", memory, " }");
}

// Each step has one kernel of `kernel_ns`, launched right before it; the test adds what the host does while nothing
// runs.
class GpuFindingsTest : public testing::Test {
 protected:
  void Steps(int64_t kernel_start_ns, int64_t kernel_end_ns, uint32_t graph = 0) {
    std::vector<int64_t> starts;
    for (int step = 0; step <= kSteps; ++step) starts.push_back(step * kStepNs);
    program_.Steps(starts);
    for (int64_t at_ns = 0; at_ns < kSteps * kStepNs; at_ns += kStepNs) {
      program_.Work({.start_ns = at_ns + kernel_start_ns,
                     .end_ns = at_ns + kernel_end_ns,
                     .requested_ns = at_ns + kernel_start_ns - 2000,
                     .call_ns = 1000,
                     .thread = 0,
                     .graph = graph});
    }
  }
  // In each step.
  void Call(const std::string& definition, int64_t start_ns, int64_t end_ns) {
    for (int64_t at_ns = 0; at_ns < kSteps * kStepNs; at_ns += kStepNs) {
      program_.HostCall(definition, at_ns + start_ns, at_ns + end_ns);
      if (stack_ != kNone) program_.builder().StackOfLastCall(stack_);
    }
  }
  void Scope(const std::string& name, int64_t start_ns, int64_t end_ns) {
    for (int64_t at_ns = 0; at_ns < kSteps * kStepNs; at_ns += kStepNs)
      program_.Scope(name, at_ns + start_ns, at_ns + end_ns);
  }
  Table Findings() {
    program_.Build(kSteps * kStepNs);
    return program_.Make(ReportTables().front());
  }
  static std::vector<std::string> Rules(const Table& table) {
    std::vector<std::string> rules;
    for (size_t row = 0; row < table.rows.size(); ++row) rules.push_back(Text(table, row, "rule"));
    return rules;
  }

  GpuProgram program_;
  StackIndex stack_ = kNone;
};

TEST_F(GpuFindingsTest, AGpuThatIsAlwaysBusyHasNoFindings) {
  Steps(5000, kStepNs + 4000);
  Call(kItem, 100'000, 900'000);
  Call(AsyncCopy("PAGEABLE", 1 << 20), 20'000, 90'000);
  EXPECT_THAT(Rules(Findings()), IsEmpty());
}

TEST_F(GpuFindingsTest, AWaitIsNamedByItsLine) {
  stack_ = program_.builder().AddStack({{.file = "/home/u/train.py", .function = "train", .line = 42}});
  Call("function: 'cudaStreamSynchronize' family: 'cuda_sync'", 300'000, 700'000);
  stack_ = kNone;
  Steps(100'000, 500'000);
  const Table table = Findings();
  const size_t row = RowWhere(table, {{"rule", "gpu-idle"}, {"line", "train.py:42"}});
  EXPECT_THAT(Text(table, row, "finding"), HasSubstr("the program waited for it"));
  EXPECT_GE(Integer(table, row, "gain"), 200'000);
}

TEST_F(GpuFindingsTest, EachCauseOfAnIdleGpuHasItsAdvice) {
  struct Case {
    const char* scope;
    const char* advice;
    int64_t scope_ns = 480'000;
  };
  for (const Case& one :
       {Case{"enumerate(DataLoader)#next", "num_workers"}, Case{"aten::conv2d", "Launch fewer kernels", 24'000},
        Case{"aten::normal_", "Let the GPU do it"}}) {
    program_ = GpuProgram();
    for (int64_t at_ns = 510'000; at_ns < 990'000; at_ns += one.scope_ns) Scope(one.scope, at_ns, at_ns + one.scope_ns);
    Steps(5000, 500'000);
    const Table table = Findings();
    ASSERT_THAT(Rules(table), ElementsAre("gpu-idle")) << one.scope;
    EXPECT_THAT(Text(table, 0, "advice"), HasSubstr(one.advice));
    EXPECT_GE(Integer(table, 0, "gain"), 450'000);
    const bool is_launch = absl::string_view(one.advice) == "Launch fewer kernels";
    EXPECT_EQ(absl::StrContains(Text(table, 0, "evidence"), "for recording was subtracted"), is_launch);
  }
}

TEST_F(GpuFindingsTest, OfSeveralGpusOfAProcessTheMeanCounts) {
  const GpuDeviceIndex other = program_.AddDevice();
  Scope("enumerate(DataLoader)#next", 510'000, 990'000);
  Steps(5000, 500'000);
  for (int64_t at_ns = 0; at_ns < kSteps * kStepNs; at_ns += kStepNs) {
    program_.Work({.start_ns = at_ns + 6000,
                   .end_ns = at_ns + 500'000,
                   .requested_ns = at_ns + 4000,
                   .call_ns = 500,
                   .thread = 0,
                   .device = other});
  }
  const Table table = Findings();
  ASSERT_THAT(Rules(table), ElementsAre("gpu-idle"));
  EXPECT_THAT(Text(table, 0, "finding"), HasSubstr("mean over the GPUs"));
  EXPECT_GE(Integer(table, 0, "gain"), 450'000);
  EXPECT_LE(Integer(table, 0, "gain"), 500'000);
}

TEST_F(GpuFindingsTest, ProgramsOfXlasHaveAdviceOfTheirOwn) {
  program_.builder().model().compiled_ops.push_back({.program = "jit_step"});
  for (int64_t at_ns = 510'000; at_ns < 990'000; at_ns += 24'000) Scope("aten::conv2d", at_ns, at_ns + 24'000);
  Steps(5000, 500'000);
  EXPECT_THAT(Text(Findings(), 0, "advice"), HasSubstr("jax.jit"));
}

TEST_F(GpuFindingsTest, NothingIsAdvisedThatIsDone) {
  const auto advice = [&](const char* framework, const char* scope, uint32_t graph) {
    program_ = GpuProgram();
    if (framework != nullptr)
      program_.builder().model().processes.front().capabilities.push_back({.object = framework});
    for (int64_t at_ns = 510'000; at_ns < 990'000; at_ns += 24'000) Scope(scope, at_ns, at_ns + 24'000);
    Steps(5000, 500'000, graph);
    return Text(Findings(), 0, "advice");
  };
  EXPECT_THAT(advice(nullptr, "step", 0), Not(HasSubstr("torch")));
  EXPECT_THAT(advice("libtorch_cpu.so", "aten::conv2d", 0),
              HasSubstr("torch.compile(model, mode=\"reduce-overhead\"), CUDA"));
  EXPECT_THAT(advice("libtorch_cpu.so", "Torch-Compiled Region: 0/0", 0), HasSubstr("for CUDA graphs, the loss"));
  EXPECT_THAT(advice("libtorch_cpu.so", "Torch-Compiled Region: 0/0", 7), HasSubstr("Part of the work is launched as"));
}

// By time, not by the longest gap; not at all where no line has a quarter of the time.
TEST_F(GpuFindingsTest, IdleTimeIsWhereMostOfItIs) {
  const auto line = [&](int lines) {
    program_ = GpuProgram();
    Steps(5000, 300'000);
    ModelBuilder& builder = program_.builder();
    for (int64_t at_ns = 0; at_ns < kSteps * kStepNs; at_ns += kStepNs) {
      for (int i = 0; i < 10; ++i) {  // gaps of 60 us, the last one of 100
        const int64_t start_ns = at_ns + 360'000 + i * 62'000 + (i == 9 ? 40'000 : 0);
        const auto number = static_cast<uint32_t>(i == 9 ? 99 : 1 + i % lines);
        program_.Work({.start_ns = start_ns,
                       .end_ns = start_ns + 2000,
                       .requested_ns = start_ns - 2000,
                       .call_ns = 1000,
                       .thread = 0,
                       .stack = builder.AddStack({{.file = "/home/u/train.py", .function = "train", .line = number}})});
      }
    }
    return Text(Findings(), 0, "line");
  };
  EXPECT_EQ(line(1), "train.py:1");
  EXPECT_EQ(line(9), "-");
}

TEST_F(GpuFindingsTest, AskingCublasLtBeforeEachProductIsNoSearch) {
  const auto rules = [&](const trace::OpDefinition& search) {
    program_ = GpuProgram();
    Steps(5000, 995'000);
    const OpIndex op = program_.builder().AddOp(search);
    for (int64_t at_ns = 0; at_ns < kSteps * kStepNs; at_ns += kStepNs) {
      program_.builder().Call(op, at_ns + 100'000, 100'000);
    }
    return Rules(Findings());
  };
  trace::OpDefinition question = GemmDefinition(8, 8, 8, "NN");
  question.mutable_gemm()->set_kind(trace::Gemm::HEURISTIC);
  question.mutable_gemm()->mutable_cuda()->set_lt(true);
  EXPECT_THAT(rules(question), IsEmpty());
  EXPECT_THAT(rules(SearchDefinition(true, "candidate { algorithm: 1 time_ns: 900 }")),
              ElementsAre("preparing-in-steps"));
}

TEST_F(GpuFindingsTest, LaunchedWorkThatDoesNotStart) {
  std::vector<int64_t> starts;
  for (int step = 0; step <= kSteps; ++step) starts.push_back(step * kStepNs);
  program_.Steps(starts);
  for (int64_t at_ns = 0; at_ns < kSteps * kStepNs; at_ns += kStepNs) {
    program_.Work({.start_ns = at_ns + 5000,
                   .end_ns = at_ns + 500'000,
                   .requested_ns = at_ns + 3000,
                   .call_ns = 1000,
                   .thread = 0});
    program_.Work({.start_ns = at_ns + 900'000,
                   .end_ns = at_ns + 1'004'000,
                   .requested_ns = at_ns + 490'000,
                   .call_ns = 1000,
                   .thread = 0});
  }
  const Table table = Findings();
  const size_t row = RowWhere(table, {{"rule", "gpu-idle"}});
  EXPECT_THAT(Text(table, row, "finding"), HasSubstr("although they were launched: 380 us"));
  EXPECT_THAT(Text(table, row, "advice"), HasSubstr("nvidia-smi"));
}

TEST_F(GpuFindingsTest, ExposedCommunicationIsIdleTime) {
  Steps(5000, 500'000);
  for (int64_t at_ns = 0; at_ns < kSteps * kStepNs; at_ns += kStepNs)
    program_.Work({.start_ns = at_ns + 500'000, .end_ns = at_ns + 1'004'000, .kernel = "ncclDevKernel_AllReduce"});
  const Table table = Findings();
  ASSERT_THAT(Rules(table), ElementsAre("gpu-idle"));
  EXPECT_THAT(Text(table, 0, "evidence"), HasSubstr("communication"));
}

TEST_F(GpuFindingsTest, PageableCopiesThatTheGpuWaitsFor) {
  Call(AsyncCopy("PAGEABLE", 1 << 20), 510'000, 900'000);
  Steps(5000, 500'000);
  const Table table = Findings();
  EXPECT_EQ(Integer(table, RowWhere(table, {{"rule", "pageable-copies"}}), "gain"), 390'000);
}

TEST_F(GpuFindingsTest, PinnedOrSmallOrHiddenCopiesAreNotPageable) {
  Call(AsyncCopy("PINNED", 1 << 20), 510'000, 600'000);
  Call(AsyncCopy("PAGEABLE", 4096), 610'000, 700'000);
  Call(AsyncCopy("PAGEABLE", 1 << 20), 100'000, 400'000);  // during the kernel
  Steps(5000, 500'000);
  const Table table = Findings();
  EXPECT_THAT(RowsWhere(table, {{"rule", "pageable-copies"}}), IsEmpty());
}

// In each step a copy of 300 us while the GPU computes nothing; its contents are those of `contents`, one step after
// another.
TEST_F(GpuFindingsTest, TheSameContentsCopiedAgain) {
  const auto rules_of = [&](const std::string& memory, const std::vector<uint64_t>& contents) {
    program_ = GpuProgram();
    const OpIndex copy = program_.builder().AddOp(Definition(AsyncCopy(memory, 1 << 20) + " address_count: 4"));
    for (size_t step = 0; step < contents.size(); ++step) {
      const int64_t at_ns = static_cast<int64_t>(step) * kStepNs + 510'000;
      program_.builder().Call(copy, at_ns, 300'000, 0, 0, {0x7000, 0x1000, 0x30, contents[step]});
    }
    Steps(5000, 500'000);
    return Findings();
  };
  const Table table = rules_of("PAGEABLE", {7, 7, 7, 7, 7, 7});
  const size_t row = RowWhere(table, {{"rule", "copied-again"}});
  EXPECT_EQ(Integer(table, row, "gain"), 300'000);
  EXPECT_EQ(Text(table, row, "basis"), "at most");
  EXPECT_EQ(Text(table, row, "confidence"), "medium");
  EXPECT_THAT(Rules(table), Not(Contains("pageable-copies")));  // that time has its rule
  EXPECT_THAT(Rules(table), Not(Contains("gpu-idle")));
  EXPECT_THAT(Rules(rules_of("PINNED", {7, 7, 7, 7, 7, 7})), Contains("copied-again"));
  for (const std::vector<uint64_t>& contents :
       {std::vector<uint64_t>{1, 2, 3, 4, 5, 6}, {7, 7, 7, 1, 2, 3}, {0, 0, 0, 0, 0, 0}}) {
    const Table changing = rules_of("PAGEABLE", contents);
    EXPECT_THAT(Rules(changing), Not(Contains("copied-again")));
    EXPECT_THAT(Rules(changing), Contains("pageable-copies"));
  }
}

TEST_F(GpuFindingsTest, ManySmallCopies) {
  for (int i = 0; i < 20; ++i) Call(AsyncCopy("PAGEABLE", 1000), 510'000 + i * 20'000, 520'000 + i * 20'000);
  Steps(5000, 500'000);
  const Table table = Findings();
  EXPECT_NEAR(Integer(table, RowWhere(table, {{"rule", "small-copies"}}), "gain"), 190'000, 1);
}

TEST_F(GpuFindingsTest, FewSmallCopiesAreNotMany) {
  for (int i = 0; i < 10; ++i) Call(AsyncCopy("PAGEABLE", 1000), 510'000 + i * 20'000, 520'000 + i * 20'000);
  Steps(5000, 500'000);
  EXPECT_THAT(RowsWhere(Findings(), {{"rule", "small-copies"}}), IsEmpty());
}

TEST_F(GpuFindingsTest, SmallCopiesThatTakeLittle) {
  for (int i = 0; i < 20; ++i) Call(AsyncCopy("PAGEABLE", 1000), 510'000 + i * 20'000, 512'500 + i * 20'000);
  Steps(5000, 500'000);
  EXPECT_THAT(RowsWhere(Findings(), {{"rule", "small-copies"}}), IsEmpty());
}

TEST_F(GpuFindingsTest, AllocationsInSteadySteps) {
  Call("function: 'cudaMalloc' family: 'cuda_memory' allocation { kind: DEVICE bytes: 4096 }", 510'000, 530'000);
  Call("function: 'cudaFree' family: 'cuda_memory' allocation { kind: DEVICE is_free: true }", 540'000, 570'000);
  Steps(5000, 500'000);
  const Table table = Findings();
  EXPECT_EQ(Integer(table, RowWhere(table, {{"rule", "gpu-allocations"}}), "gain"), 50'000);
}

// One step in six allocates, which takes 2 % of a mean step.
TEST_F(GpuFindingsTest, AnAllocatorThatStillGrowsNowAndThen) {
  program_.HostCall("function: 'cudaMalloc' family: 'cuda_memory' allocation { kind: DEVICE bytes: 4096 }",
                    3 * kStepNs + 510'000, 3 * kStepNs + 630'000);
  Steps(5000, 500'000);
  EXPECT_THAT(RowsWhere(Findings(), {{"rule", "gpu-allocations"}}), IsEmpty());
}

TEST_F(GpuFindingsTest, OfPoolsTheyAreNone) {
  Call("function: 'cudaMallocAsync' family: 'cuda_memory' allocation { kind: POOL bytes: 4096 }", 510'000, 560'000);
  Steps(5000, 500'000);
  EXPECT_THAT(RowsWhere(Findings(), {{"rule", "gpu-allocations"}}), IsEmpty());
}

// A search before the steps measured `chosen_ns` for the algorithm that each step then executes ten times, and 900 ns
// for another one, which needs 1 MiB more. 1850 ns: less than 1 % of a step could be gained.
TEST_F(GpuFindingsTest, AnAlgorithmThatTheSearchFoundSlower) {
  for (const int chosen_ns : {5900, 1950, 1850}) {
    SCOPED_TRACE(chosen_ns);
    program_ = GpuProgram();
    ModelBuilder& builder = program_.builder();
    builder.Call(builder.AddOp(SearchDefinition(
                     true, absl::StrCat("candidate { algorithm: 1 time_ns: 900 workspace_bytes: 1048576 } "
                                        "candidate { algorithm: 0 time_ns: ",
                                        chosen_ns, " }"))),
                 100, 100);
    Steps(5000, 500'000);
    const OpIndex convolution = builder.AddOp(LegacyDefinition(0));
    for (int call = 0; call < 10 * kSteps; ++call) {
      builder.Call(convolution, call / 10 * kStepNs + 510'000 + call % 10 * 10'000, 1000);
    }
    const Table table = Findings();
    const auto rows = RowsWhere(table, {{"rule", "slower-algorithm"}});
    if (chosen_ns == 1850) {
      EXPECT_THAT(rows, IsEmpty());
      continue;
    }
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(Integer(table, rows[0], "gain"), 10 * (chosen_ns - 900));
    if (chosen_ns != 5900) continue;
    EXPECT_THAT(Text(table, rows[0], "finding"),
                HasSubstr("implicit_precomp_gemm 900 ns where implicit_gemm takes 5.90 us"));
    EXPECT_THAT(Text(table, rows[0], "advice"), HasSubstr("1.00 MiB"));
  }
}

class LateRankTest : public testing::Test {
 protected:
  // Two ranks meet once in each step; `late_ns`: of each rank, in steps that repeat. `longer_ns`: by so much one step is
  // longer, in which the second rank is later by that.
  std::vector<std::string> Found(const std::vector<std::vector<int64_t>>& late_ns, int64_t longer_ns = 0,
                                 int count = kSteps, std::vector<int64_t> no_processor_ns = {}) {
    GpuProgram program;
    const ThreadIndex other = program.builder().AddThread(program.builder().AddProcess());
    std::vector<int64_t> starts;
    for (int step = 0; step <= count; ++step) starts.push_back(step * kStepNs + (step > count / 2 ? longer_ns : 0));
    for (int rank : {0, 1}) program.Steps(starts, static_cast<ProcessIndex>(rank));
    for (uint32_t rank = 0; rank < no_processor_ns.size(); ++rank) {
      for (const size_t step : {size_t{1}, starts.size() - 2}) {
        program.builder().model().loads.push_back({.process = rank,
                                                   .time_ns = starts[step],
                                                   .waiting_ns = static_cast<int64_t>(step) * no_processor_ns[rank]});
      }
    }
    for (int step = 0; step < count; ++step) {
      const int64_t at_ns = starts[step] + 500'000;
      std::vector<int64_t> late = late_ns[step % late_ns.size()];
      late[1] += step == count / 2 ? longer_ns : 0;
      const int64_t last_ns = at_ns + std::max(late[0], late[1]);
      for (int rank : {0, 1}) {
        program.HostCall(absl::StrCat("function: 'MPI_Allreduce' family: 'mpi' collective { kind: ALL_REDUCE bytes: 64 "
                                      "communicator: 1 ranks: 2 rank: ",
                                      rank, " peer: -1 blocking: true }"),
                         at_ns + late[rank], last_ns + 1000, rank == 0 ? 0 : other);
      }
    }
    program.Build(starts.back());
    const Table table = program.Make(ReportTables().front());
    std::vector<std::string> found;
    for (const size_t row : RowsWhere(table, {{"rule", "late-rank"}})) {
      EXPECT_LT(Integer(table, row, "gain"), kStepNs);
      found.push_back(absl::StrCat(Text(table, row, "where"), " ", Integer(table, row, "gain")));
      if (absl::StrContains(Text(table, row, "finding"), "longer for a processor")) found.back() += " starved";
    }
    return found;
  }
};

TEST_F(LateRankTest, OneIsAlwaysLast) {
  EXPECT_THAT(Found({{0, 200'000}, {0, 200'000}}), ElementsAre(HasSubstr("process")));
  EXPECT_THAT(Found({{0, 200'000}, {0, 200'000}}), ElementsAre(HasSubstr(" 200000")));
}
TEST_F(LateRankTest, EachIsLastInTurn) {
  EXPECT_THAT(Found({{0, 200'000}, {200'000, 0}}), ElementsAre("ranks 100000"));
}
TEST_F(LateRankTest, OneIsMostlyLast) {
  EXPECT_THAT(Found({{0, 200'000}, {0, 200'000}, {200'000, 0}}, 0, 200), ElementsAre(HasSubstr("process")));
  EXPECT_THAT(Found({{0, 200'000}, {120'000, 0}}, 0, 200), ElementsAre(HasSubstr("process")));  // 62.5 %
  EXPECT_THAT(Found({{0, 200'000}, {150'000, 0}}, 0, 200), ElementsAre(HasSubstr("ranks")));    // 57.1 %
}
// They wait for processors longer than for each other: that is why one comes after the other.
TEST_F(LateRankTest, ProcessorsAreWhy) {
  EXPECT_THAT(Found({{0, 200'000}, {200'000, 0}}, 0, kSteps, {150'000, 150'000}), IsEmpty());
  EXPECT_THAT(Found({{0, 200'000}, {200'000, 0}}, 0, kSteps, {50'000, 50'000}), ElementsAre("ranks 100000"));
  EXPECT_THAT(Found({{0, 200'000}, {0, 200'000}}, 0, kSteps, {150'000, 150'000}), ElementsAre("process 4712 200000"));
  EXPECT_THAT(Found({{0, 200'000}, {0, 200'000}}, 0, kSteps, {0, 150'000}), ElementsAre("process 4712 200000 starved"));
  EXPECT_THAT(Found({{0, 200'000}, {0, 200'000}}, 0, kSteps, {250'000, 400'000}), IsEmpty());
}
// Two equal ranks: in six steps one of them is the last four times, or once much later, by chance.
TEST_F(LateRankTest, ChanceNamesNobody) {
  EXPECT_THAT(Found({{0, 200'000}, {0, 200'000}, {200'000, 0}}), ElementsAre(HasSubstr("ranks")));
  EXPECT_THAT(Found({{0, 400'000}, {60'000, 0}, {0, 50'000}, {60'000, 0}, {0, 40'000}, {50'000, 0}}),
              ElementsAre(HasSubstr("ranks")));
}
TEST_F(LateRankTest, OneIsMostlyLastButByLittle) {
  const std::vector<std::string> late = Found({{0, 200'000}}, 0, 60),
                                 rarely = Found({{0, 200'000}, {5'000, 0}, {5'000, 0}}, 0, 60);
  ASSERT_THAT(late, SizeIs(1));
  EXPECT_THAT(rarely, ElementsAre(StartsWith(late[0].substr(0, late[0].rfind(' ')))));
}
TEST_F(LateRankTest, MuchLongerStepsWaitNoMoreThanAStep) {
  EXPECT_THAT(Found({{0, 200'000}}, 20 * kStepNs), ElementsAre(HasSubstr("process")));
}
TEST_F(LateRankTest, NobodyWaitsForLong) {
  EXPECT_THAT(Found({{0, 55'000}}), ElementsAre(HasSubstr(" 55000")));
  EXPECT_THAT(Found({{0, 45'000}}), IsEmpty());
}

TEST_F(GpuFindingsTest, SaysWhichRulesCouldNotJudge) {
  program_.Steps({0, kStepNs, 2 * kStepNs});
  for (int step : {0, 1}) program_.HostCall(kItem, step * kStepNs + 100, step * kStepNs + 1000);
  program_.Build(2 * kStepNs);
  const Table table = program_.Make(ReportTables().front());
  EXPECT_THAT(
      table.notes,
      Contains(HasSubstr("Could not judge: copied-again, pageable-copies, small-copies, gpu-allocations, gpu-idle "
                         "(the times of the GPU's kernels are not known)")));
  EXPECT_THAT(table.notes, Not(Contains(HasSubstr("PyTorch"))));
}

}  // namespace gpu_findings_test
}  // namespace dlhook::analyzer
