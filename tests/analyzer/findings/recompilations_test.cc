// Rule recompilations: functions that are compiled again in steady steps, by their numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace recompilations_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kTorch[] = "Torch-Compiled Region: 0/";
constexpr char kTensorFlow[] = "EagerLocalExecute: __inference_train_step_";

struct Spec {
  std::string function = kTorch;
  int64_t compiling_ns = 2'000'000;  // more than the 1 ms of other steps
  int last_size = 4;                 // of 5, each for 8 steps
  int64_t before_ns = 500'000;       // from a step's beginning to the function's
  std::vector<std::string> reasons = {};
};

// The findings, and the gain of a mean step of 40.
std::vector<std::string> Find(const Spec& spec, int64_t gain_ns = 0) {
  GpuProgram program;
  std::vector<int64_t> starts = {0};
  for (int step = 0; step < 40; ++step) {
    const int size = std::min(step / 8, spec.last_size);
    const bool is_new = step % 8 == 0 && step / 8 == size;
    // What a step begins with was compiled in the one before.
    if (is_new && spec.before_ns == 0) starts.back() += spec.compiling_ns;
    const int64_t start_ns = starts.back() + spec.before_ns + (is_new && spec.before_ns > 0 ? spec.compiling_ns : 0);
    program.Scope(absl::StrCat(spec.function, size * 56), start_ns, start_ns + 300'000);
    starts.push_back(start_ns - spec.before_ns + 1'000'000);
  }
  program.Steps(starts);
  for (const std::string& reason : spec.reasons) {
    program.builder().model().compiled.push_back({.kind = CompiledKind::kCompilation,
                                                  .file = "/home/u/net.py",
                                                  .line = 6,
                                                  .function = "forward",
                                                  .text = reason});
  }
  program.WarmUp(1);
  program.Build(starts.back());
  const Table table = program.Make(ReportTables().front());
  std::vector<std::string> found;
  for (const size_t row : RowsWhere(table, {{"rule", "recompilations"}})) {
    EXPECT_NEAR(Integer(table, row, "gain"), gain_ns, 1000);
    found.push_back(absl::StrCat(Text(table, row, "where"), ": ", Text(table, row, "finding")));
  }
  return found;
}

constexpr int64_t kGainNs = 4 * 2'000'000 / 39;  // the first step is warm-up

TEST(Recompilations, OfTorchCompile) {
  EXPECT_THAT(Find({}, kGainNs), ElementsAre(HasSubstr("torch.compile compiles again in 4 of 39 training steps")));
}
TEST(Recompilations, HaveTheMostFrequentReason) {
  EXPECT_THAT(Find({.reasons = {"0/0: size 4, not 5", "0/1: k == 1", "0/2: size 5, not 6"}}, kGainNs),
              ElementsAre(HasSubstr("PyTorch's reason: forward (net.py:6): 0/2: size 5, not 6")));
}
TEST(Recompilations, OfTensorFlowsFunctions) {
  EXPECT_THAT(Find({.function = kTensorFlow}, kGainNs),
              ElementsAre(HasSubstr("tf.function: tf.function traces train_step again")));
}
TEST(Recompilations, AreInTheStepBeforeTheOneThatBeginsWithThem) {
  EXPECT_THAT(Find({.function = kTensorFlow, .before_ns = 0}, kGainNs), ElementsAre(HasSubstr("in 4 of 39")));
}
TEST(Recompilations, OfFewSizesAreSoonDone) { EXPECT_THAT(Find({.last_size = 2}), IsEmpty()); }
TEST(Recompilations, MayTakeNextToNothing) { EXPECT_THAT(Find({.compiling_ns = 400'000}), IsEmpty()); }
TEST(Recompilations, AreNotOfFunctionsWithoutNumbers) { EXPECT_THAT(Find({.function = "step"}), IsEmpty()); }

// XLA's, of 2 ms each, in the 20 ms after ten steps of 1 ms or after none; the first one begins at `first_ns`.
struct XlaSpec {
  int64_t first_ns = 22'000'000;
  bool has_steps = true;
  bool has_sizes = true;  // that change
  int64_t gain_ns = 8'000'000 / 22;
};
std::vector<std::string> FindXlas(int compilations, const XlaSpec& spec = {}) {
  GpuProgram program;
  std::vector<int64_t> starts;
  for (int64_t ns = 0; ns <= 10'000'000; ns += 1'000'000) starts.push_back(ns);
  if (spec.has_steps) program.Steps(starts);
  for (int i = 0; i < compilations; ++i) {
    program.builder().Scope("XLA compiles jit(train_step)", ScopeKind::kXlaCompilation, spec.first_ns + i * 2'000'000,
                            2'000'000);
    program.builder().model().compiled_programs.push_back(
        {0, "jit_train_step", {absl::StrCat("x f32[", spec.has_sizes ? i : 5, ",8]"), "y s32[]"}});
  }
  program.Build(30'000'000);
  const Table table = program.Make(ReportTables().front());
  std::vector<std::string> found;
  for (const size_t row : RowsWhere(table, {{"rule", "recompilations"}})) {
    EXPECT_NEAR(Integer(table, row, "gain"), spec.gain_ns, 1000);
    found.push_back(absl::StrCat(Text(table, row, "where"), ": ", Text(table, row, "finding")));
  }
  return found;
}

TEST(Recompilations, OfJax) {
  EXPECT_THAT(
      FindXlas(4),
      ElementsAre("train_step: XLA compiles train_step again 4 times after the first training step, 2.00 ms each: "
                  "8.00 ms, 27 % of the time since then, without JAX's tracing. Its arguments change: x f32[0,8], "
                  "f32[1,8], f32[2,8] and 1 more."));
  EXPECT_THAT(FindXlas(4, {.has_sizes = false}), ElementsAre(HasSubstr("shapes that it was compiled for before.")));
}
TEST(Recompilations, OfJaxNeedNoSteps) {
  EXPECT_THAT(FindXlas(5, {.first_ns = 20'000'000, .has_steps = false, .has_sizes = false, .gain_ns = 8'000'000}),
              ElementsAre("train_step: XLA compiles train_step again 4 times after the first time, 2.00 ms each: 8.00 "
                          "ms, 80 % of the time since then, without JAX's tracing. Its arguments have shapes that "
                          "it was compiled for before."));
}
// Without what the compiled programs are: their advice, by who called jit and by sizes of products.
std::string AdviceForXlas(const char* file, int sizes) {
  GpuProgram program;
  const StackIndex stack =
      program.builder().AddStack({{"/opt/lib/python3.11/site-packages/jax/_src/pjit.py", "cache_miss", 1},
                                  {file, "f", 2},
                                  {"serve.py", "step", 5}});
  for (int i = 0; i < 5; ++i)
    program.builder().Scope("XLA compiles jit(multiply)", ScopeKind::kXlaCompilation, 20'000'000 + i * 2'000'000,
                            2'000'000, 0, -1, stack);
  for (int size = 0; size < sizes; ++size)
    program.builder().Call(program.builder().AddOp(GemmDefinition(64, 8 + size, 64, "NN")), size * 1'000, 1'000);
  program.Build(30'000'000);
  const Table table = program.Make(ReportTables().front());
  return Text(table, RowWhere(table, {{"rule", "recompilations"}}), "advice");
}

TEST(Recompilations, OfJaxWithoutPrograms) {
  constexpr char kJit[] = "/opt/lib/python3.11/site-packages/jax/_src/traceback_util.py";
  EXPECT_THAT(AdviceForXlas(kJit, 2), testing::StartsWith("If its arguments have the same shapes each time"));
  EXPECT_THAT(AdviceForXlas(kJit, 9), testing::StartsWith("Pad the input to few sizes"));
  EXPECT_THAT(AdviceForXlas("/opt/lib/python3.11/site-packages/jax/_src/numpy/ufuncs.py", 9),
              testing::StartsWith("JAX compiles what runs outside of jax.jit by itself"));
}

TEST(Recompilations, OfJaxAreSoonDone) {
  EXPECT_THAT(FindXlas(2), IsEmpty());
  EXPECT_THAT(FindXlas(4, {.first_ns = 1'000'000}), IsEmpty());
}

// Compiled once, for 3 s of 6, with so many equal operations of one line.
TEST(WarmUp, IsAProgramOfJaxWithAnUnrolledLoop) {
  for (const int equal : {0, 100, 300}) {
    GpuProgram program;
    program.builder().Scope("XLA compiles jit(step)", ScopeKind::kXlaCompilation, 1'000'000, 3'000'000'000);
    for (int i = 0; i < equal; ++i)
      program.builder().model().compiled_ops.push_back(
          {.program = "jit_step", .primitive = "tanh", .line = "rnn.py:7"});
    program.Build(6'000'000'000);
    const Table table = program.Make(ReportTables().front());
    const size_t row = RowWhere(table, {{"rule", "warm-up"}});
    EXPECT_THAT(Text(table, row, "finding"), HasSubstr(" for 3.00 s, 50 % of the time"));
    EXPECT_EQ(Text(table, row, "kind"), equal == 300 ? "loss" : "information");
    if (equal < 300) continue;
    EXPECT_THAT(Text(table, row, "finding"), HasSubstr("300 operations (tanh) are of one line, rnn.py:7"));
    EXPECT_THAT(Text(table, row, "advice"), testing::StartsWith("jax.lax.scan"));
  }
}

TEST(WarmUp, OfJaxIsShort) {
  GpuProgram program;
  program.builder().Scope("XLA compiles jit(step)", ScopeKind::kXlaCompilation, 1'000'000, 3'000'000'000);
  program.Build(60'000'000'000);
  EXPECT_THAT(RowsWhere(program.Make(ReportTables().front()), {{"rule", "warm-up"}}), IsEmpty());
}

// Sessions of TensorFlow that run an operation in each step, of a name of its own or not.
TEST(MadeAnew, IsTheGraphThatGrows) {
  for (const bool grows : {true, false}) {
    CpuProgram program;
    program.process().capabilities.push_back({.name = "library", .object = "libtensorflow_cc.so.2", .reason = ""});
    const StackIndex line = program.builder().AddStack({{"/home/u/train.py", "<module>", 7}});
    for (int64_t ns = 0; ns < CpuProgram::kSteps * CpuProgram::kStepNs; ns += CpuProgram::kStepNs)
      program.builder().Scope("SessionRun", ScopeKind::kTraceMe, ns, 100'000, 0, -1, line);
    for (int step = 0; step < CpuProgram::kSteps; ++step)
      program.builder().Scope(absl::StrCat("Assign_", grows ? step : 0, ":AssignVariableOp"), ScopeKind::kGraphNode,
                              step * CpuProgram::kStepNs + 1000, 50'000);
    const auto found = program.Find("made-anew");
    ASSERT_EQ(found.rows.size(), grows ? 1u : 0u);
    if (grows) {
      EXPECT_THAT(found.Of(0, "finding"), HasSubstr("9 of 9 run a new one, as Assign_8:AssignVariableOp"));
    }
  }
}

// Processes of 100 ms one behind the other, or all at once, that call first after so long.
TEST(MadeAnew, AreProcesses) {
  const auto found = [](int64_t apart_ns, int64_t before_ns) {
    GpuProgram program;
    ModelBuilder& builder = program.builder();
    const OpIndex op = builder.AddOp(GemmDefinition(64, 64, 64, "NN"));
    for (uint32_t i = 0; i < 8; ++i) {
      const ProcessIndex process = i == 0 ? 0 : builder.AddProcess();
      ProcessInfo& info = builder.model().processes[process];
      info.pid = 10 + i;
      info.parent_pid = 7;
      info.start_ns = i * apart_ns;
      const int64_t start_ns = info.start_ns;
      builder.Call(op, start_ns + before_ns, 100'000'000 - before_ns, i == 0 ? 0 : builder.AddThread(process));
    }
    program.Build(1'000'000'000);
    const Table table = program.Make(ReportTables().front());
    std::vector<std::string> sentences;
    for (const size_t row : RowsWhere(table, {{"rule", "made-anew"}})) sentences.push_back(Text(table, row, "finding"));
    return sentences;
  };
  EXPECT_THAT(
      found(100'000'000, 60'000'000),
      ElementsAre(HasSubstr("8 processes begin one behind the other, 1 at a time at most: each takes 100 ms until its "
                            "last recorded call, 60.0 ms of it until the first one")));
  EXPECT_THAT(found(1'000'000, 60'000'000), IsEmpty());   // a pool
  EXPECT_THAT(found(100'000'000, 1'000'000), IsEmpty());  // they compute most of the time
}

// Keras's predict for each request of 10 ms: the pipeline's first operation begins after 2 ms, its iterator is there after 7.
std::vector<std::string> FindPipelines(int every) {
  GpuProgram program;
  std::vector<int64_t> starts;
  for (int64_t ns = 0; ns <= 200'000'000; ns += 10'000'000) starts.push_back(ns);
  program.Steps(starts, 0, StepKind::kInference);
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    if (i % static_cast<size_t>(every) != 0) continue;
    for (const auto& [op, ms] : {std::pair{"TensorDataset", 2}, {"OptionsDataset", 4}, {"MakeIterator", 6}}) {
      program.builder().Scope(absl::StrCat("EagerLocalExecute: ", op), ScopeKind::kTraceMe, starts[i] + ms * 1'000'000,
                              1'000'000);
    }
  }
  program.Build(200'000'000);
  const Table table = program.Make(ReportTables().front());
  std::vector<std::string> found;
  for (const size_t row : RowsWhere(table, {{"rule", "made-anew"}})) found.push_back(Text(table, row, "finding"));
  return found;
}

TEST(MadeAnew, IsEachRequestsPipeline) {
  EXPECT_THAT(FindPipelines(1), ElementsAre(HasSubstr("makes a new pipeline of tf.data 1 times a request, 5.00 ms each "
                                                      "from its first operation until its iterator is there: 5.00 ms "
                                                      "of 10.0 ms from one request to the next (50 %).")));
  EXPECT_THAT(FindPipelines(5), IsEmpty());  // an epoch's
}

}  // namespace recompilations_test
}  // namespace dlhook::analyzer
