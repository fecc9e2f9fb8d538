// Rules about processors, for a program that waits for a processor, depending on whose threads used them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/findings/findings_table.h"
#include "analyzer/work/machine_load.h"
#include "tests/analyzer/diff/training_run.h"
#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace processors_test {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr int64_t kLongNs = 4'000'000;
const std::vector<std::string> kOfProcessors = {"processor-quota", "machine-busy", "too-many-threads", "one-thread"};

struct Machine {
  double cpu = 1;  // threads of the program that run
  uint32_t runnable = 1;
  double worker_cpu = 0;  // of another process of the run; 0: none
  uint32_t processors = 2;
  double throttled = 0;  // part of the time
  // Of each of its threads, part of the time in which it runs and waits for a processor; none: nobody looked at them.
  std::vector<std::pair<double, double>> threads = {};
  bool is_pool = false;  // the first of these is known to make the recorded calls
  std::string library;   // of the framework
};

RunSpec Spec(int64_t waiting_ns) {
  RunSpec spec;
  spec.layers = Layers(2);
  for (LayerSpec& layer : spec.layers) layer.forward_ns = layer.backward_ns = kLongNs;
  spec.waiting_ns = waiting_ns;
  spec.threads = 4;
  return spec;
}

void LookAt(const std::vector<std::pair<double, double>>& threads, TraceModel& model) {
  for (const auto& [running, queued] : threads) {
    const auto tid = static_cast<uint32_t>(100 + model.states.size());
    CounterSeries series = {.tid = tid, .thread_name = "python", .kind = CounterKind::kStates};
    series.names = {model.AddName("running"), model.AddName("queued")};
    for (const LoadSample& sample : model.loads) {
      series.time_ns.push_back(sample.time_ns);
      for (const double part : {running, queued})
        series.value.push_back(static_cast<uint64_t>(part * static_cast<double>(sample.time_ns)));
    }
    model.states.push_back(std::move(series));
  }
}

// Findings of the rules about processors.
std::vector<RuleFinding> Find(const RunSpec& spec, const Machine& machine) {
  TrainingRun run(spec);
  std::vector<LoadSample>& loads = run.model().loads;
  for (LoadSample& sample : loads) {
    sample.cpu_ns = static_cast<int64_t>(machine.cpu * static_cast<double>(sample.time_ns));
    sample.runnable = machine.runnable;
    sample.processors = machine.processors;
    sample.throttled_ns = static_cast<int64_t>(machine.throttled * static_cast<double>(sample.time_ns));
  }
  LookAt(machine.threads, run.model());
  if (machine.is_pool) run.model().states.front().thread = 0;
  if (machine.worker_cpu > 0) {
    const std::vector<LoadSample> of_program = loads;
    for (LoadSample sample : of_program) {
      sample.process = 1;
      sample.cpu_ns = static_cast<int64_t>(machine.worker_cpu * static_cast<double>(sample.time_ns));
      loads.push_back(sample);
    }
  }
  ProcessInfo& process = run.model().processes.front();
  process.processors = machine.processors;
  if (!machine.library.empty()) process.capabilities.push_back({.name = "library", .object = machine.library});
  std::vector<RuleFinding> found;
  for (RuleFinding& finding : FindAll(StepFacts(run.model(), run.analyzed().options))) {
    if (testing::Value(kOfProcessors, Contains(finding.rule))) found.push_back(std::move(finding));
  }
  return found;
}

std::vector<std::string> RulesOf(const std::vector<RuleFinding>& findings) {
  std::vector<std::string> rules;
  for (const RuleFinding& found : findings) rules.push_back(found.rule);
  return rules;
}

// It ended before it was looked at.
TEST(ProcessorsTest, AProcessMayHaveNoSamples) {
  TraceModel model;
  model.end_ns = 1'000'000'000;
  model.processes.resize(2);
  model.loads = {{.time_ns = model.end_ns / 2, .processors = 2}};
  ComparedSteps steps;
  for (ProcessIndex process = 0; process < 2; ++process) {
    steps.tracks.push_back({.process = process, .steps = {{.end_ns = model.end_ns}}});
  }
  EXPECT_FALSE(FindLoad(model, steps, {}).is_known);
}

TEST(ProcessorsTest, AnotherProgramHasTheProcessors) {
  const std::vector<RuleFinding> found = Find(Spec(kLongNs), {.cpu = 0.7, .runnable = 5});
  ASSERT_THAT(RulesOf(found), testing::ElementsAre("machine-busy"));
  EXPECT_NEAR(found.front().finding.gain_ns, kLongNs, kLongNs / 20.0);
  EXPECT_THAT(found.front().finding.sentence,
              AllOf(HasSubstr("5.0 threads competed for 2 processors, and this program got 0.7"),
                    HasSubstr("is not known, because thread states were not sampled")));
}

TEST(ProcessorsTest, AnotherProgramHasTheProcessorsThatTwoThreadsWouldShare) {
  const Machine machine = {.cpu = 1, .runnable = 4, .threads = {{0.5, 0.5}, {0.5, 0.5}}};
  const std::vector<RuleFinding> found = Find(Spec(kLongNs), machine);
  ASSERT_THAT(RulesOf(found), testing::ElementsAre("machine-busy"));
  EXPECT_NEAR(found.front().finding.gain_ns, kLongNs, kLongNs / 20.0);
  EXPECT_THAT(found.front().finding.sentence,
              HasSubstr("2.0 threads of this program and 2.0 of others competed for 2 processors"));
}

// Twelve threads of the program, which make each other six times as slow, and others that take one of the processors.
TEST(ProcessorsTest, ItsOwnThreadsAreTooManyAlsoBesideOtherPrograms) {
  Machine machine = {.cpu = 1, .runnable = 24, .threads = {12, {1.0 / 12, 11.0 / 12}}};
  const std::vector<RuleFinding> found = Find(Spec(kLongNs), machine);
  ASSERT_THAT(RulesOf(found), testing::ElementsAre("too-many-threads", "machine-busy"));
  EXPECT_NEAR(found[0].finding.gain_ns, kLongNs * (5 + 5 * 2) / 2.0 / 11, kLongNs / 20.0);
  EXPECT_NEAR(found[0].finding.gain_ns + found[1].finding.gain_ns, kLongNs, kLongNs / 20.0);
  EXPECT_THAT(found[0].finding.sentence, HasSubstr("12 threads of 1 process want 12.0 processors, and there are 2"));
  machine.runnable = 12;
  EXPECT_THAT(RulesOf(Find(Spec(kLongNs), machine)), testing::ElementsAre("too-many-threads"));
}

TEST(ProcessorsTest, AnotherProgramHasTheProcessorsOfARunWithoutSteps) {
  for (const uint32_t runnable : {5U, 1U}) {
    CpuProgram program;
    program.Load(0.9, runnable);
    for (LoadSample& sample : program.builder().model().loads) sample.waiting_ns = sample.time_ns / 4;
    const CpuProgram::Found found = program.FindInRun("machine-busy");
    ASSERT_THAT(found.rows, testing::SizeIs(runnable > 1 ? 1 : 0));
    if (runnable == 1) continue;
    EXPECT_NEAR(found.Gain(0), CpuProgram::kSteps * CpuProgram::kStepNs / 4, CpuProgram::kStepNs / 10);
    EXPECT_THAT(found.Of(0, "finding"), HasSubstr("of a 10.0 ms run (25 %)"));
  }
}

// All of the wait is the quota's, so that no other program is blamed for it.
TEST(ProcessorsTest, AQuotaStopsIt) {
  const std::vector<RuleFinding> found = Find(Spec(kLongNs), {.cpu = 0.7, .runnable = 5, .throttled = 1});
  ASSERT_THAT(RulesOf(found), testing::ElementsAre("processor-quota"));
  EXPECT_NEAR(found.front().finding.gain_ns, kLongNs, kLongNs / 20.0);
  EXPECT_THAT(RulesOf(Find(Spec(kLongNs), {.cpu = 0.7, .runnable = 5, .throttled = 0.001})),
              testing::ElementsAre("machine-busy"));
}

TEST(ProcessorsTest, ItsOwnThreadsAreTooMany) {
  const std::vector<RuleFinding> found = Find(Spec(kLongNs), {.cpu = 1.9, .runnable = 16});
  ASSERT_THAT(RulesOf(found), testing::ElementsAre("too-many-threads"));
  EXPECT_NEAR(found.front().finding.gain_ns, kLongNs, kLongNs / 20.0);
  EXPECT_THAT(found.front().finding.advice, HasSubstr("OMP_NUM_THREADS=2"));
}

// The steps are those of the first thread that was looked at, which is not the process's first one.
TEST(ProcessorsTest, ThreadsOfAPoolWaitForEachOther) {
  Machine machine = {.cpu = 1.9, .runnable = 12, .threads = {12, {1.0 / 12, 11.0 / 12}}};
  RunSpec spec = Spec(0);
  EXPECT_THAT(RulesOf(Find(spec, machine)), testing::IsEmpty()) << "the first thread runs them, and does not wait";
  spec.of_thread = true;
  machine.is_pool = true;
  const std::vector<RuleFinding> found = Find(spec, machine);
  ASSERT_THAT(RulesOf(found), testing::ElementsAre("too-many-threads"));
  EXPECT_NEAR(found.front().finding.gain_ns, 4 * kLongNs * 11.0 / 12, kLongNs / 10.0);
  EXPECT_THAT(found.front().finding.sentence,
              HasSubstr("The threads that run the training steps wait for a processor"));
}

TEST(ProcessorsTest, AdvisesNoNumberOfThreadsThatIsSet) {
  for (const char* set : {"2", "1", "8"}) {
    RunSpec spec = Spec(kLongNs);
    spec.settings = {{"OMP_NUM_THREADS", set}};
    const std::vector<RuleFinding> found = Find(spec, {.cpu = 1.9, .runnable = 16});
    ASSERT_THAT(RulesOf(found), testing::ElementsAre("too-many-threads"));
    const std::string& advice = found.front().finding.advice;
    if (std::string(set) != "8") {
      EXPECT_THAT(advice, HasSubstr("OMP_NUM_THREADS is that small already: fewer threads that the program starts"));
    } else {
      EXPECT_THAT(advice, HasSubstr("OMP_NUM_THREADS=2"));
    }
  }
}

TEST(ProcessorsTest, PoolsOfFrameworksHaveTheirOwnVariables) {
  const auto advice = [](const std::string& library, const std::map<std::string, std::string>& settings) {
    RunSpec spec = Spec(kLongNs);
    spec.settings = settings;
    Machine machine = {.cpu = 1.9, .runnable = 16};
    machine.library = library;
    return Find(spec, machine).at(0).finding.advice;
  };
  const std::string tensorflow = "libtensorflow_cc.so.2", jax = "libjax_common.so";
  EXPECT_THAT(advice(tensorflow, {{"OMP_NUM_THREADS", "1"}}), HasSubstr("TF_NUM_INTRAOP_THREADS=2 and TF_NUM_INTEROP"));
  EXPECT_THAT(advice(tensorflow, {{"TF_NUM_INTRAOP_THREADS", "2"}}),
              HasSubstr("TF_NUM_INTRAOP_THREADS is that small already: TF_NUM_INTEROP_THREADS=1, fewer threads"));
  EXPECT_THAT(advice(jax, {{"OMP_NUM_THREADS", "1"}}), HasSubstr("PJRT_NPROC=2 (the size of XLA's pools)"));
  EXPECT_THAT(advice(jax, {{"NPROC", "2"}}), testing::StartsWith("NPROC is that small already"));
  EXPECT_THAT(advice(jax, {{"PJRT_NPROC", "8"}, {"NPROC", "2"}}), HasSubstr("PJRT_NPROC=2"));
}

TEST(ProcessorsTest, WorkersOfTheLoaderAreNoOtherProgram) {
  EXPECT_THAT(RulesOf(Find(Spec(kLongNs), {.cpu = 0.8, .runnable = 5, .worker_cpu = 1.1})),
              testing::ElementsAre("too-many-threads"));
}

TEST(ProcessorsTest, WhoWaitsLittleHearsNothing) {
  EXPECT_THAT(RulesOf(Find(Spec(kLongNs / 40), {.cpu = 0.7, .runnable = 5})), testing::IsEmpty());
  EXPECT_THAT(RulesOf(Find(Spec(kLongNs / 40), {.cpu = 1.9, .runnable = 16})), testing::IsEmpty());
}

TEST(ProcessorsTest, OneThreadComputesWhileProcessorsAreFree) {
  RunSpec spec = Spec(0);
  spec.settings = {{"OMP_NUM_THREADS", "1"}};
  const std::vector<RuleFinding> found = Find(spec, {.cpu = 1, .runnable = 1});
  ASSERT_THAT(RulesOf(found), testing::ElementsAre("one-thread"));
  EXPECT_THAT(found.front().finding.advice, HasSubstr("OMP_NUM_THREADS=1 is set"));
  EXPECT_EQ(found.front().finding.basis, GainBasis::kUpperBound);
}

TEST(ProcessorsTest, OneThreadIsEnoughWhereOthersComputeOrCallsAreShort) {
  EXPECT_THAT(RulesOf(Find(Spec(0), {.cpu = 1, .runnable = 2})), testing::IsEmpty());
  EXPECT_THAT(RulesOf(Find(Spec(0), {.cpu = 1.8, .runnable = 2})), testing::IsEmpty());
  EXPECT_THAT(RulesOf(Find(Spec(0), {.cpu = 1, .runnable = 1, .processors = 1})), testing::IsEmpty());
  RunSpec brief = Spec(0);
  for (LayerSpec& layer : brief.layers) layer.forward_ns = layer.backward_ns = 200'000;
  EXPECT_THAT(RulesOf(Find(brief, {.cpu = 1, .runnable = 1})), testing::IsEmpty());
}

}  // namespace processors_test
}  // namespace dlhook::analyzer
