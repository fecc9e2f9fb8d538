// Tables `accounting`, `phases`, `latency` and the kinds in `steps`, with values computed by hand.
#include <gtest/gtest.h>

#include <string>

#include "analyzer/table/table_ops.h"
#include "analyzer/tables/tables.h"
#include "tests/analyzer/builders/model_builder.h"
#include "tests/analyzer/builders/training_program.h"

namespace dlhook::analyzer {
namespace step_tables_test {

// Scopes with stacks and modules, as the framework's links need them: conv -> loss -> backward -> update, 1000 ns per
// step.
//   0 input 100 | 110 conv2d 200 (call 60..160) | 330 item-like gap | 400 engine{ConvolutionBackward0} 300 (call 100) | 750 step 150
class TorchRun {
 public:
  TorchRun() { Enter(0); }

  void Train(int64_t batch = 8) {
    Scope("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", ScopeKind::kUserRange, 0, 100, -1,
          loop_stack_);
    Scope("aten::conv2d", ScopeKind::kFrameworkOp, 110, 200, link_, forward_stack_);
    Call("forward_training", batch, 170, 100);
    Scope("autograd::engine::evaluate_function: ConvolutionBackward0", ScopeKind::kFrameworkOp, 400, 300, link_,
          loop_stack_);
    Scope("ConvolutionBackward0", ScopeKind::kBackwardNode, 410, 280, link_, kNone);
    Call("backward_weights", batch, 500, 100);
    Scope("Optimizer.step#SGD.step", ScopeKind::kUserRange, 750, 150, -1, loop_stack_);
    ++link_;
    start_ns_ += 1000;
  }

  void Infer(int64_t batch, int64_t length_ns) {
    Scope("aten::conv2d", ScopeKind::kFrameworkOp, 0, length_ns, -1, forward_stack_);
    Call("forward_inference", batch, 10, length_ns - 20);
    start_ns_ += 10000;
  }

  // What follows is done by a process that the first one has started.
  void GoOnInAChild() {
    const ProcessIndex child = builder_.AddProcess();
    builder_.model().processes[child].parent_pid = builder_.model().processes.front().pid;
    thread_ = builder_.AddThread(child);
    Enter(child);
  }

  TraceModel Model() { return builder_.Build(start_ns_); }
  Table Run(const std::string& name) { return RunPass(name, Model()); }

 private:
  void Enter(ProcessIndex process) {
    ModelBuilder& b = builder_;
    root_ = b.AddModule("__main__.Net", {""}, kNone, kNone, process);
    conv_ = b.AddModule("torch.nn.modules.conv.Conv2d", {"conv1"}, root_, root_, process);
    forward_stack_ = b.AddStack({{"/x/torch/nn/modules/module.py", "_wrapped_call_impl", 1775, conv_},
                                 {"/home/u/net.py", "Net.forward", 12, kNone},
                                 {"/x/torch/nn/modules/module.py", "_wrapped_call_impl", 1775, root_},
                                 {"/home/u/net.py", "<module>", 30, kNone}});
    loop_stack_ = b.AddStack({{"/home/u/net.py", "<module>", 31, kNone}});
  }
  void Scope(const std::string& name, ScopeKind kind, int64_t at_ns, int64_t duration_ns, int64_t link,
             StackIndex stack) {
    builder_.Scope(name, kind, start_ns_ + at_ns, duration_ns, thread_, link, stack);
  }
  void Call(const std::string& direction, int64_t batch, int64_t at_ns, int64_t duration_ns) {
    trace::OpDefinition definition = OneDnnDefinition(
        "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core," + direction +
        ",src:f32:a:blocked:abcd::f0 wei:f32:a:blocked:Acdb16a::f0 bia:undef::undef::: dst:f32:a:blocked:aBcd16b::f0,,"
        "alg:convolution_direct,mb" +
        std::to_string(batch) + "_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,0.01");
    builder_.Call(builder_.AddOp(definition), start_ns_ + at_ns, duration_ns, thread_);
  }

  ModelBuilder builder_;
  ModuleIndex root_ = kNone;
  ModuleIndex conv_ = kNone;
  StackIndex forward_stack_ = kNone;
  StackIndex loop_stack_ = kNone;
  ThreadIndex thread_ = 0;
  int64_t link_ = 5;
  int64_t start_ns_ = 0;
};

TEST(AccountingTableTest, AddsUpToTheStepsExactly) {
  TorchRun run;
  for (int i = 0; i < 7; ++i) run.Train();
  const Table table = run.Run("accounting");
  // Steps begin 1000 ns apart; nothing ends the last one: it does not count.
  EXPECT_EQ(Sum(table, "wall_share"), 6 * 1000);
  const size_t library = RowWhere(table, {{"activity", "library"}, {"what", "convolution"}});
  EXPECT_EQ(Integer(table, library, "wall_share"), 6 * 200);
  EXPECT_EQ(Integer(table, library, "time"), 200);
  EXPECT_EQ(Integer(table, library, "forward"), 100);
  EXPECT_EQ(Integer(table, library, "backward"), 100);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"what", "aten::conv2d"}}), "wall_share"), 6 * 100);
  // The time of the engine's scope around the node belongs to the node, too.
  EXPECT_EQ(Integer(table, RowWhere(table, {{"what", "ConvolutionBackward0"}}), "wall_share"), 6 * 200);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"activity", "data loading"}}), "wall_share"), 6 * 100);
  ASSERT_EQ(table.notes.size(), 1u);
}

TEST(AccountingTableTest, PhasesOfARowAddUpToIt) {
  TorchRun run;
  for (int i = 0; i < 7; ++i) run.Train();
  const Table table = run.Run("accounting");
  for (size_t row = 0; row < table.rows.size(); ++row) {
    int64_t sum_ns = 0;
    for (const char* phase : {"forward", "backward", "update", "input", "other"}) {
      if (const auto* value = std::get_if<int64_t>(&At(table, row, phase))) sum_ns += *value;
    }
    EXPECT_NEAR(sum_ns, Integer(table, row, "time"), 3) << row;  // means are rounded
  }
}

TEST(PhasesTableTest, AddUpToTheStepsExactly) {
  TorchRun run;
  for (int i = 0; i < 7; ++i) run.Train();
  for (int i = 0; i < 2; ++i) run.Train(3);
  const Table table = run.Run("phases");
  const auto time = [&](const std::string& phase) {
    return Integer(table, RowWhere(table, {{"step", "training"}, {"phase", phase}}), "time");
  };
  EXPECT_EQ(time("input"), 100);
  EXPECT_EQ(time("forward"), 290);  // until the backward pass begins
  EXPECT_EQ(time("backward"), 300);
  EXPECT_EQ(time("update"), 150);
  EXPECT_EQ(time("other"), 160);
  EXPECT_EQ(Sum(table, "total_time"), 7000);
  const size_t forward = RowWhere(table, {{"phase", "forward"}});
  EXPECT_EQ(Integer(table, forward, "steps"), 7);
  EXPECT_DOUBLE_EQ(Real(table, forward, "calls"), 1.0);
  EXPECT_DOUBLE_EQ(Real(table, forward, "percent"), 29.0);
  ASSERT_EQ(table.notes.size(), 1u);
  EXPECT_NE(table.notes[0].find("7 steady training steps of 9. Left out: 2 unlike the others."), std::string::npos)
      << table.notes[0];
}

TEST(LatencyTableTest, TellsPercentilesByBatch) {
  TorchRun run;
  for (int i = 1; i <= 101; ++i) run.Infer(1, 100 + i);  // 101 … 201 ns
  for (int i = 0; i < 10; ++i) run.Infer(4, 500);
  const Table table = run.Run("latency");
  const size_t one = RowWhere(table, {{"batch", "1"}});
  EXPECT_EQ(Integer(table, one, "requests"), 101);
  EXPECT_EQ(Integer(table, one, "p50"), 151);
  EXPECT_EQ(Integer(table, one, "p90"), 191);
  EXPECT_EQ(Integer(table, one, "p95"), 196);
  EXPECT_EQ(Integer(table, one, "p99"), 200);
  EXPECT_EQ(Integer(table, one, "max"), 201);
  EXPECT_EQ(Text(table, one, "model"), "Net");
  EXPECT_NEAR(Real(table, one, "throughput"), 1e9 / 151, 1);
  const size_t four = RowWhere(table, {{"batch", "4"}});
  EXPECT_EQ(Integer(table, four, "p99"), 500);
  EXPECT_NEAR(Real(table, four, "throughput"), 4e9 / 500, 1);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"batch", "all"}}), "requests"), 111);
}

TEST(LatencyTableTest, ATrainingHasNone) {
  TorchRun run;
  for (int i = 0; i < 4; ++i) run.Train();
  EXPECT_TRUE(run.Run("latency").rows.empty());
}

TEST(LatencyTableTest, ALoadersWorkersServeNobody) {
  TorchRun run;
  for (int i = 0; i < 4; ++i) run.Train();
  run.GoOnInAChild();
  for (int i = 0; i < 10; ++i) run.Infer(4, 500);
  EXPECT_TRUE(run.Run("latency").rows.empty());
  EXPECT_EQ(RowsWhere(run.Run("steps"), {{"kind", "inference"}}).size(), 0u);
}

// Readings of what the first thread has done, so many nanoseconds apart: it runs half of the time, and is blocked in a lock else.
Table StepsLookedAtEvery(int64_t apart_ns) {
  TorchRun run;
  for (int i = 0; i < 6; ++i) run.Train();
  TraceModel model = run.Model();
  CounterSeries series = {.thread = 0, .tid = model.processes.front().pid, .kind = CounterKind::kStates};
  for (const char* name : {"running", "queued", "lock"}) {
    series.names.push_back(model.AddName(name));
  }
  for (int64_t at_ns = 0; at_ns <= 6000; at_ns += apart_ns) {
    series.time_ns.push_back(at_ns);
    for (const int64_t done_ns : {at_ns / 2, int64_t{0}, at_ns - at_ns / 2})
      series.value.push_back(static_cast<uint64_t>(done_ns));
  }
  model.states.push_back(std::move(series));
  return RunPass("steps", model);
}

TEST(StepsTableTest, TellsWhatTheThreadDidInSingleSteps) {
  const Table table = StepsLookedAtEvery(40);
  EXPECT_EQ(Integer(table, 2, "running"), 500);
  EXPECT_EQ(Integer(table, 2, "no_processor"), 0);
  EXPECT_EQ(Integer(table, 2, "blocked"), 500);
}

TEST(StepsTableTest, TellsNothingWhereTheLooksAreTooFarApart) {
  const Table table = StepsLookedAtEvery(900);
  for (const char* column : {"running", "no_processor", "blocked"})
    EXPECT_TRUE(std::holds_alternative<std::monostate>(table.rows[2][*FindColumn(table, column)])) << column;
  EXPECT_NE(table.notes.back().find("is not known: these steps are shorter than the sampling interval"),
            std::string::npos);
}

TEST(StepsTableTest, TellsKindBatchAndMicroSteps) {
  TorchRun run;
  for (int i = 0; i < 6; ++i) run.Train(i == 5 ? 3 : 8);
  const Table table = run.Run("steps");
  ASSERT_EQ(table.rows.size(), 6u);
  EXPECT_EQ(Text(table, 0, "kind"), "training");
  EXPECT_EQ(Integer(table, 0, "batch"), 8);
  EXPECT_EQ(Integer(table, 0, "micro_steps"), 1);
  EXPECT_EQ(Text(table, 0, "model"), "Net");
  EXPECT_EQ(Integer(table, 0, "calls"), 2);
  EXPECT_EQ(Integer(table, 0, "duration"), 1000);
  EXPECT_EQ(Text(table, 4, "phase"), "steady");
  EXPECT_EQ(Text(table, 5, "phase"), "other");
  EXPECT_EQ(Integer(table, 5, "batch"), 3);
}

TEST(StepsTableTest, MakesNoMoreRowsThanAreWanted) {
  TorchRun run;
  for (int i = 0; i < 6; ++i) run.Train();
  const TraceModel model = run.Model();
  const LayerAnalysis analysis(model);
  for (const size_t wanted : {2, 6, 9}) {
    const absl::StatusOr<Table> table = StepsTable(model, {.analysis = &analysis, .first_rows = wanted});
    ASSERT_TRUE(table.ok());
    EXPECT_EQ(table->rows.size(), std::min<size_t>(wanted, 6));
    EXPECT_EQ(table->notes.back() == "The first 2 of 6 rows.", wanted == 2);
  }
}

}  // namespace step_tables_test
}  // namespace dlhook::analyzer
