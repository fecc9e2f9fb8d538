// Rules faster-form and op-by-op: forms that are in use already, or switched off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/steps/compared_steps.h"
#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace faster_form_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(FasterForm, IsInUse) {
  for (const char* name : {"aten::_scaled_dot_product_attention_math", "aten::softmax"}) {
    CpuProgram program;
    program.UseTorch();
    program.Scope("aten::matmul", 0, 100'000);
    program.Scope(name, 100'000, 300'000);
    program.Scope("aten::matmul", 400'000, 100'000);
    const auto found = program.Find("faster-form");
    ASSERT_THAT(found.rows, SizeIs(1));
    const bool is_used = absl::StrContains(name, "scaled_dot");
    EXPECT_THAT(found.Of(0, "advice"), is_used ? HasSubstr("scaled_dot_product_attention has no fused form for these")
                                               : HasSubstr("torch.nn.functional.scaled_dot_product_attention(q, k, v"));
  }
}

// Attention of so many heads one by one, with or without another operation between two of them.
CpuProgram::Found Heads(int heads, bool between) {
  CpuProgram program;
  program.UseTorch();
  for (int head = 0; head < heads; ++head) {
    const int64_t at_ns = 1000 + head * 100'000;
    program.Scope("aten::matmul", at_ns, 20'000);
    program.Scope("aten::softmax", at_ns + 20'000, 20'000);
    program.Scope("aten::matmul", at_ns + 40'000, 20'000);
    if (between) program.Scope("aten::linear", at_ns + 60'000, 1000);
  }
  program.Scope("aten::linear", 900'000, 1000);
  return program.Find("faster-form");
}

TEST(FasterForm, ComputesAllHeadsAtOnce) {
  const auto found = Heads(8, /*between=*/false);
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Gain(0), 8 * 20'000 + 7 * 40'000);
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("8 times a training step, 7 times right behind another head"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("All heads in one product"));
  const auto layers = Heads(8, /*between=*/true);
  ASSERT_THAT(layers.rows, SizeIs(1));
  EXPECT_EQ(layers.Gain(0), 8 * 20'000);
}

// Steps of four backward passes, with so many reductions of gradients, which take 400 us of 1 ms in all.
std::vector<Finding> Reduced(int reductions) {
  constexpr int kSteps = 10;
  constexpr int64_t kStepNs = 1'000'000;
  ModelBuilder builder;
  StepTrack track;
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at_ns = step * kStepNs;
    track.steps.push_back({.start_ns = at_ns, .end_ns = at_ns + kStepNs, .kind = StepKind::kTraining});
    track.steps.back().micro_steps = 4;
    for (int i = 0; i < reductions; ++i)
      builder.Scope("c10d::allreduce_", ScopeKind::kFrameworkOp, at_ns + i * 100'000, 400'000 / reductions);
  }
  TraceModel model = builder.Build(kSteps * kStepNs);
  model.processes.front().capabilities.push_back({.name = "library", .object = "libtorch_cpu.so", .reason = ""});
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  Attribution attribution;
  attribution.layers.emplace_back().name = "linear";
  while (attribution.of_scope.size() < model.scopes.size())
    attribution.of_scope.push_back({0, LayerDirection::kBackwardWeights});
  const LayerAnalysis analysis(model, std::move(attribution), Judged({track}));
  const StepFacts facts(model, {.choices = &choices, .totals = &totals, .analysis = &analysis});
  std::vector<Finding> findings;
  for (const RuleFinding& found : FindAll(facts)) {
    if (found.rule == "faster-form") findings.push_back(found.finding);
  }
  return findings;
}

TEST(FasterForm, ReducesGradientsOnce) {
  const std::vector<Finding> found = Reduced(8);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_NEAR(found[0].gain_ns, 300'000, 1'000);
  EXPECT_THAT(found[0].sentence, HasSubstr("in each of 4 backward passes before an update, 8 times a training step"));
  EXPECT_THAT(found[0].advice, HasSubstr("model.no_sync()"));
  EXPECT_THAT(Reduced(2), IsEmpty());
}

// So many collective operations in each step of 1 ms, which are called there, with ranges in which the thread waits for other
// ranks: 600 us in all.
// `around`: what they are in.
CpuProgram::Found Communicating(const char* op, int count, const char* around, const char* function = "all_reduce",
                                const char* network = "DistributedDataParallel.forward") {
  CpuProgram program;
  program.UseTorch();
  program.builder().AddName(network);
  const StackIndex line = program.builder().AddStack(
      {{"/v/site-packages/torch/distributed/distributed_c10d.py", function, 99}, {"/home/u/train.py", "<module>", 9}});
  const int64_t ns = 600'000 / count;
  for (int64_t at_ns = 0; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += CpuProgram::kStepNs) {
    const ScopeKind kind = absl::StrContains(around, "Backward") ? ScopeKind::kBackwardNode
                           : absl::StrContains(around, "::")     ? ScopeKind::kFrameworkOp
                                                                 : ScopeKind::kUserRange;
    for (int i = 0; i < count; ++i) {
      if (*around != 0) program.builder().Scope(around, kind, at_ns + 1000 + i * ns, ns);
      program.builder().Scope(op, ScopeKind::kFrameworkOp, at_ns + 1000 + i * ns, ns / 10, 0, -1, line);
      program.builder().Scope("gloo:any", ScopeKind::kUserRange, at_ns + 1000 + i * ns + ns / 10, ns - ns / 10);
    }
    program.builder().Scope("aten::mul", ScopeKind::kFrameworkOp, at_ns + 700'000, 200'000);
  }
  return program.Find("faster-form");
}

TEST(FasterForm, HasFewAndLargeCollectives) {
  constexpr char kBackward[] = "AddmmBackward0", kForward[] = "DistributedDataParallel.forward",
                 kSharded[] = "Optimizer.step#ZeroRedundancyOptimizer.step", kReduce[] = "c10d::allreduce_";
  const auto buckets = Communicating(kReduce, 10, kBackward);
  ASSERT_THAT(buckets.rows, SizeIs(1));
  EXPECT_NEAR(static_cast<double>(buckets.Gain(0)), 0.9 * 600'000, 10'000);
  EXPECT_EQ(buckets.Of(0, "line"), "train.py:9");
  EXPECT_THAT(buckets.Of(0, "advice"), HasSubstr("bucket_cap_mb"));
  EXPECT_THAT(Communicating(kReduce, 2, kBackward).rows, IsEmpty());
  EXPECT_THAT(Communicating(kReduce, 10, kBackward, "all_reduce", "Net.forward").rows, IsEmpty());
  EXPECT_THAT(Communicating("c10d::broadcast_", 1, kForward).Of(0, "advice"), HasSubstr("broadcast_buffers=False"));
  EXPECT_THAT(Communicating("c10d::_allgather_base_", 20, "").Of(0, "advice"), HasSubstr("FSDP"));
  EXPECT_THAT(Communicating("c10d::allgather_", 2, "", "all_gather_object").Of(0, "finding"), HasSubstr("pickled"));
  EXPECT_THAT(Communicating("c10d::allgather_", 2, "", "all_gather").rows, IsEmpty());
  // What DistributedDataParallel does not do itself.
  EXPECT_THAT(Communicating("c10d::broadcast_", 9, kSharded).Of(0, "advice"), HasSubstr("parameters_as_bucket_view"));
  EXPECT_THAT(Communicating("c10d::broadcast_", 9, "").rows, IsEmpty());
  EXPECT_THAT(Communicating(kReduce, 10, "", "all_reduce", "Net.forward").Of(0, "finding"), HasSubstr("one by one"));
  EXPECT_THAT(Communicating(kReduce, 10, "_c10d_functional::all_reduce_").rows, IsEmpty());
}

// Each rank receives so many tensors for so many microbatches, and waits for them in 600 us of 1 ms.
CpuProgram::Found Pipeline(int received, int microbatches) {
  CpuProgram program;
  program.UseTorch();
  for (int64_t at_ns = 0; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += CpuProgram::kStepNs) {
    for (int i = 0; i < microbatches; ++i) {
      program.builder().Scope(absl::StrCat("Forward ", i), ScopeKind::kUserRange, at_ns + 1000 + i * 10'000, 9'000);
    }
    const int64_t ns = 600'000 / received;
    for (int i = 0; i < received; ++i)
      program.builder().Scope("c10d::recv_", ScopeKind::kFrameworkOp, at_ns + 300'000 + i * ns, ns - 10);
    for (int i = 0; i < received; ++i)
      program.builder().Scope("gloo:recv", ScopeKind::kUserRange, at_ns + 300'000 + (i + 1) * ns - 10, 10);
  }
  return program.Find("faster-form");
}

TEST(FasterForm, HasMoreMicrobatchesThanStages) {
  const auto found = Pipeline(6, 4);  // of the first and the last of four 4, of those between 8
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("A pipeline of 4 stages has 4 microbatches a training step"));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("nothing to do in 3 of 7 turns"));
  EXPECT_NEAR(static_cast<double>(found.Gain(0)), 1e6 * 3 / 7 / 2, 1'000);
  EXPECT_THAT(Pipeline(48, 32).rows, IsEmpty());  // 3 of 35
  EXPECT_THAT(Pipeline(5, 4).rows, IsEmpty());    // of no number of stages
}

// A module calls so many of a list, and joins what they return; `differs`: one of them computes something else; `between`: the
// module itself computes between them.
CpuProgram::Found ListOfModules(int members, bool differs = false, bool between = false) {
  CpuProgram program;
  program.UseTorch();
  ModelBuilder& builder = program.builder();
  const ModuleIndex root = builder.AddModule("Net", {""});
  const ModuleIndex around = builder.AddModule("Attention", {"attn"}, root, root);
  const StackIndex own =
      builder.AddStack({{"net.py", "forward", 9, around}, {"net.py", "forward", 20, root}, {"net.py", "<module>", 30}});
  std::vector<StackIndex> stacks;
  for (int i = 0; i < members; ++i) {
    const ModuleIndex member = builder.AddModule("Head", {absl::StrCat("attn.heads.", i)}, root, around);
    stacks.push_back(builder.AddStack({{"net.py", "forward", 4, member},
                                       {"net.py", "forward", 9, around},
                                       {"net.py", "forward", 20, root},
                                       {"net.py", "<module>", 30}}));
  }
  const auto op = [&](const char* name, int64_t start_ns, StackIndex stack) {
    builder.Scope(name, ScopeKind::kFrameworkOp, start_ns, 20'000, 0, -1, stack);
  };
  for (int64_t at_ns = 0; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += CpuProgram::kStepNs) {
    for (int i = 0; i < members; ++i) {
      const int64_t start_ns = at_ns + 1000 + i * 80'000;
      op("aten::linear", start_ns, stacks[static_cast<size_t>(i)]);
      op(differs && i == 1 ? "aten::tanh" : "aten::relu", start_ns + 25'000, stacks[static_cast<size_t>(i)]);
      if (between) op("aten::add", start_ns + 50'000, own);
    }
    op("aten::cat", at_ns + 1000 + members * 80'000, own);
  }
  return program.Find("faster-form");
}

TEST(FasterForm, ComputesEqualModulesTogether) {
  const auto found = ListOfModules(8);
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_NEAR(static_cast<double>(found.Gain(0)), 7.0 / 8 * 8 * 80'000, 1000);
  EXPECT_EQ(found.Of(0, "where"), "attn.heads.*");
  EXPECT_EQ(found.Of(0, "line"), "net.py:9");
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("8 modules of attn.heads run the same operations"));
  EXPECT_THAT(ListOfModules(4).rows, IsEmpty());
  EXPECT_THAT(ListOfModules(8, /*differs=*/true).rows, IsEmpty());
  EXPECT_THAT(ListOfModules(8, /*differs=*/false, /*between=*/true).rows, IsEmpty());
}

TEST(OpByOp, IsSwitchedOn) {
  for (const char* file : {"polymorphic_function.py", "ops.py"}) {
    CpuProgram program;
    program.process().capabilities.push_back({.name = "library", .object = "libtensorflow_cc.so.2", .reason = ""});
    const StackIndex stack = program.builder().AddStack(
        {{"train.py", "step", 12},
         {absl::StrCat("/opt/lib/python3.11/site-packages/tensorflow/python/eager/", file), "__call__", 1},
         {"train.py", "<module>", 17}});
    for (int i = 0; i < 40 * CpuProgram::kSteps; ++i)
      program.builder().Scope("EagerLocalExecute: Mul", ScopeKind::kTraceMe, i * CpuProgram::kStepNs / 40, 10'000, 0,
                              -1, stack);
    const auto found = program.Find("op-by-op");
    ASSERT_THAT(found.rows, SizeIs(1));
    const bool is_function = absl::string_view(file) == "polymorphic_function.py";
    EXPECT_THAT(found.Of(0, "advice"), is_function ? HasSubstr("take out tf.config.run_functions_eagerly(True)")
                                                   : HasSubstr("Put @tf.function"));
  }
}

// So many runs of a compiled program of JAX with one operation of 2 us each, so long after each other.
CpuProgram JaxProgram(int runs, int64_t apart_ns, const std::string& name) {
  CpuProgram program;
  program.builder().model().compiled_ops.push_back({.program = name, .primitive = "mul", .line = "loop.py:9"});
  for (int run = 0; run < runs; ++run)
    program.builder().Scope("mul", ScopeKind::kXlaOp, run * apart_ns, 2000, 0, CompiledLink{0, run + 1}.Encoded());
  return program;
}

TEST(OpByOp, IsProgramsOfJaxThatPythonCalls) {
  const auto found = JaxProgram(100, 100'000, "jit_mul").Find("op-by-op");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Of(0, "line"), "loop.py:9");
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("JAX runs 10 compiled programs of 1.0 operations each in a training"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("Put @jax.jit on the function"));
  EXPECT_THAT(JaxProgram(100, 100'000, "jit_dynamic_slice").Find("op-by-op").Of(0, "advice"),
              HasSubstr("np.asarray(x)"));
  EXPECT_THAT(JaxProgram(60, 160'000, "jit_mul").Find("op-by-op").rows, IsEmpty());
}

// Beside one large program: random numbers and updates outside of jit.
TEST(OpByOp, IsSmallProgramsOfJaxBesideALargeOne) {
  for (const int small : {2, 9}) {
    CpuProgram program;
    for (const char* name : {"jit_grad", "jit__normal"})
      program.builder().model().compiled_ops.push_back({.program = name, .primitive = "mul", .line = "noise.py:9"});
    for (int run = 0; run < CpuProgram::kSteps * (1 + small); ++run) {
      const bool is_large = run % (1 + small) == 0;
      const int64_t start_ns = run * CpuProgram::kStepNs / (1 + small);
      for (int op = 0; op < (is_large ? 60 : 6); ++op)
        program.builder().Scope("mul", ScopeKind::kXlaOp, start_ns + op * 500, 500, 0,
                                CompiledLink{is_large ? 0U : 1U, run + 1}.Encoded());
    }
    const auto found = program.Find("op-by-op");
    ASSERT_THAT(found.rows, SizeIs(small > 8 ? 1 : 0));
    if (small > 8) {
      EXPECT_THAT(found.Of(0, "finding"), HasSubstr("JAX runs 9 compiled programs of 6.0 operations each"));
    }
  }
}

// So many runs of a compiled program of six operations of 0.5 us, one behind the other; each second one of another, or none.
CpuProgram::Found LoopOfJax(int runs, int64_t apart_ns, const char* other, int64_t op_ns = 500) {
  CpuProgram program;
  for (const char* name : {"jit_step", other})
    program.builder().model().compiled_ops.push_back({.program = name, .primitive = "mul", .line = "loop.py:9"});
  for (int run = 0; run < runs; ++run) {
    for (int op = 0; op < 6; ++op)
      program.builder().Scope("mul", ScopeKind::kXlaOp, run * apart_ns + op * op_ns, op_ns, 0,
                              CompiledLink{static_cast<uint32_t>(run % 2), run + 1}.Encoded());
  }
  return program.FindInRun("op-by-op");
}

TEST(OpByOp, IsALoopOfPythonOverOneProgramOfJax) {
  const auto found = LoopOfJax(1000, 10'000, "jit_step");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Gain(0), 999 * 7'000);
  EXPECT_EQ(found.Of(0, "line"), "loop.py:9");
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("Python calls the compiled jit_step 999 times one behind the other"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("jax.lax.scan"));
  EXPECT_THAT(LoopOfJax(1000, 10'000, "jit_other").rows, IsEmpty());
  EXPECT_THAT(LoopOfJax(1000, 4'000, "jit_step").rows, IsEmpty()) << "most of the time is in its operations";
  EXPECT_THAT(LoopOfJax(400, 10'000, "jit_step").rows, IsEmpty());
  EXPECT_THAT(LoopOfJax(1000, 100'000, "jit_step", 4'000).rows, IsEmpty()) << "a training of small steps";
}

// Each run of jit_greater behind one that takes an element.
TEST(OpByOp, IsALoopOfPythonOverElementsOfAnArrayOfJax) {
  CpuProgram program;
  for (const char* name : {"jit_dynamic_slice", "jit_greater"})
    program.builder().model().compiled_ops.push_back({.program = name, .primitive = "gt", .line = "loop.py:9"});
  for (int run = 0; run < 2000; ++run)
    program.builder().Scope("gt", ScopeKind::kXlaOp, run * 5'000, 500, 0,
                            CompiledLink{static_cast<uint32_t>(run % 2), 1 + run / 2 + run % 2 * 1000}.Encoded());
  EXPECT_THAT(program.FindInRun("op-by-op").Of(0, "advice"), HasSubstr("np.asarray(x)"));
}

}  // namespace faster_form_test
}  // namespace dlhook::analyzer
