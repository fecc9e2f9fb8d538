// Tables `callers` and `stacks`, and `layers` by function, on stacks like those of real frameworks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/layers/functions/askers.h"
#include "analyzer/tables/tables.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

constexpr char kTorchLinear[] = "/v/site-packages/torch/nn/modules/linear.py";
constexpr char kLoop[] = "_PyEval_EvalFrameDefault";

// torch.nn.Linear, as in PyTorch 2.13.
const std::vector<std::string> kAddmm = {"at::native::cpublas::gemm(at::native::TransposeType)",
                                         "at::native::addmm_impl_cpu_(at::Tensor&)",
                                         "at::native::structured_addmm_out_cpu::impl(at::Tensor const&)",
                                         "at::_ops::addmm::call(at::Tensor const&)",
                                         "at::native::linear(at::Tensor const&)",
                                         "torch::autograd::THPVariable_linear(_object*)",
                                         kLoop,
                                         "main"};

struct Program {
  ModelBuilder builder;
  OpIndex gemm = builder.AddOp(GemmDefinition(10, 4, 3456, "TN"));
  OpIndex small = builder.AddOp(GemmDefinition(2, 2, 2, "NN", "dgemm_"));
  StackIndex line14 =
      builder.AddStack({{kTorchLinear, "Linear.forward", 134}, {"/home/u/lenet.py", "LeNet.forward", 14}});

  void Call(OpIndex op, int64_t ns, const std::vector<std::string>& stack, StackIndex python = kNone,
            const std::string& object = "/home/u/lib/libframework.so") {
    builder.Call(op, builder.now_ns() + 10, ns);
    if (!stack.empty()) builder.NativeStackOfLastCall(builder.AddNativeStack(stack, object));
    if (python != kNone) builder.StackOfLastCall(python);
  }
};

Table RunWith(const std::string& name, TraceModel model, std::vector<std::string> functions, By by = By::kLayer) {
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model);
  TableOptions options;
  options.choices = &choices;
  options.totals = &totals;
  options.analysis = &analysis;
  options.functions = std::move(functions);
  options.library_only = name == "stacks";
  options.by = by;
  for (const TableKind& kind : TableKinds()) {
    if (kind.name == name) return *kind.run(model, options);
  }
  return {};
}

TEST(CallersTest, TheFrameworksFunctionAndTheUsersLine) {
  Program program;
  program.Call(program.gemm, 100, kAddmm, program.line14);
  program.Call(program.gemm, 200, kAddmm, program.line14);
  const Table table = RunPass("callers", program.builder.Build());
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Text(table, 0, "kind"), "gemm");
  EXPECT_EQ(Text(table, 0, "asked_by"), "at::native::structured_addmm_out_cpu");
  EXPECT_EQ(Text(table, 0, "line"), "lenet.py:14");
  EXPECT_EQ(Integer(table, 0, "calls"), 2);
  EXPECT_EQ(Integer(table, 0, "self_time"), 300);
  EXPECT_DOUBLE_EQ(Real(table, 0, "time_percent"), 100);
}

TEST(CallersTest, AnOpsComputeAndALayersFunctionComeBeforeWhatTheyCall) {
  Program program;
  program.Call(program.gemm, 10,
               {"Eigen::internal::gemm_functor(X)", "tensorflow::LaunchMatMulCPU<float>::launch(X)",
                "tensorflow::MatMulOp<Eigen::ThreadPoolDevice, float, false>::Compute(tensorflow::OpKernelContext*)",
                "tensorflow::ExecutorState::Process(X)", "start_thread"});
  program.Call(program.gemm, 20,
               {"void caffe::caffe_cpu_gemm<float>(X)", "caffe::BaseConvolutionLayer<float>::forward_cpu_gemm(X)",
                "caffe::ConvolutionLayer<float>::Forward_cpu(X)", "caffe::Net<float>::Forward(float*)", "main"});
  const Table table = RunPass("callers", program.builder.Build());
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Text(table, 0, "asked_by"), "caffe::ConvolutionLayer<float>::Forward_cpu");
  EXPECT_EQ(Text(table, 0, "layer"), "conv1");
  EXPECT_EQ(Text(table, 0, "direction"), "forward");
  EXPECT_EQ(Text(table, 1, "asked_by"), "tensorflow::MatMulOp::Compute");
}

TEST(CallersTest, AProgramOfItsOwnWithoutPython) {
  Program program;
  program.Call(program.gemm, 10, {"solver::step(int)", "run_all()", "main"});
  const Table table = RunPass("callers", program.builder.Build());
  EXPECT_EQ(Text(table, 0, "asked_by"), "solver::step");
  EXPECT_EQ(Text(table, 0, "line"), "run_all");
}

TEST(CallersTest, WithoutNativeStacksTheFrameworksOpAsks) {
  Program program;
  program.builder.Scope("aten::addmm", ScopeKind::kFrameworkOp, 5, 10, 0, -1, program.line14);
  program.builder.Call(program.gemm, 6, 8);
  const Table table = RunPass("callers", program.builder.Build());
  EXPECT_EQ(Text(table, 0, "asked_by"), "aten::addmm");
  EXPECT_EQ(Text(table, 0, "line"), "lenet.py:14");
  ASSERT_FALSE(table.notes.empty());
  EXPECT_NE(table.notes[0].find("DLHOOK_STACKS=all"), std::string::npos);
}

TEST(CallersTest, SelfTimesAddUpToTheThreadTimeAndCallsInsideOfTheirKindAreBookedOutside) {
  Program program;
  const OpIndex outer = program.builder.AddOp(GemmDefinition(10, 4, 3456, "TN", "cblas_sgemm"));
  program.builder.Call(outer, 1000, 500);
  program.builder.NativeStackOfLastCall(program.builder.AddNativeStack({"ask()", "main"}));
  program.builder.Call(program.gemm, 1100, 300);
  program.builder.NativeStackOfLastCall(program.builder.AddNativeStack({"cblas_sgemm", "ask()", "main"}));
  program.Call(program.small, 50, {"other()", "main"});
  const Table table = RunPass("callers", program.builder.Build());
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Sum(table, "self_time"), 550);
  EXPECT_EQ(Integer(table, 0, "self_time"), 500);
  EXPECT_EQ(Integer(table, 0, "calls"), 1);
  EXPECT_EQ(Text(table, 0, "functions"), "cblas_sgemm, sgemm_");
}

TEST(CallersTest, OnlyTheFunctionsAskedFor) {
  Program program;
  program.Call(program.gemm, 10, {"a()", "main"});
  program.Call(program.small, 20, {"b()", "main"});
  const TraceModel model = program.builder.Build();
  EXPECT_EQ(RunWith("callers", model, {"dgemm_"}).rows.size(), 1u);
  EXPECT_EQ(Text(RunWith("callers", model, {"dgemm_"}), 0, "asked_by"), "b");
  EXPECT_EQ(RunWith("callers", model, {"gemm"}).rows.size(), 2u);
  EXPECT_EQ(RunWith("stacks", model, {"sgemm_"}).rows.size(), 1u);
  EXPECT_DOUBLE_EQ(Real(RunWith("callers", model, {"dgemm_"}), 0, "time_percent"), 100.0 * 20 / 30);  // of all
}

TEST(CallersTest, AFunctionWithoutNameIsItsLibrarys) {
  Program program;
  program.builder.AddName("x");
  program.Call(program.gemm, 10, {"f()", "main"});
  TraceModel model = program.builder.Build();
  for (NativeSymbol& symbol : model.native_symbols.symbols) symbol.function = kNone;
  EXPECT_EQ(Text(RunPass("callers", model), 0, "asked_by"), "[libframework.so]");
}

TEST(CallersTest, WithoutAnythingItSaysHowToGetIt) {
  Program program;
  program.Call(program.gemm, 10, {});
  for (const char* name : {"callers", "stacks"}) {
    const Table table = RunWith(name, program.builder.Build(), {});
    EXPECT_TRUE(table.rows.empty());
    ASSERT_EQ(table.notes.size(), 1u);
    EXPECT_NE(table.notes[0].find("DLHOOK_STACKS=all"), std::string::npos);
  }
}

TEST(StacksTest, WholeStackAndWhatPeopleReadOfIt) {
  Program program;
  program.Call(program.gemm, 100, kAddmm, program.line14);
  TraceModel model = program.builder.Build();
  for (PythonStack& stack : model.python_stacks) stack.frames.back().is_entry = true;
  const Table table = RunWith("stacks", model, {});
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(
      Text(table, 0, "stack"),
      "sgemm_ < at::native::cpublas::gemm < at::native::addmm_impl_cpu_ < at::native::structured_addmm_out_cpu::impl < "
      "at::_ops::addmm::call < at::native::linear < torch::autograd::THPVariable_linear < Linear.forward "
      "(linear.py:134) < "
      "LeNet.forward (lenet.py:14) < main");
  EXPECT_EQ(Text(table, 0, "path"), "sgemm_ < structured_addmm_out_cpu < linear < LeNet.forward (lenet.py:14) < main");
}

TEST(StacksTest, OfTheWholeStepAreShortenedInTheMiddle) {
  Program program;
  const StackIndex deep = program.builder.AddStack(
      {{"f.py", "inner", 1}, {"f.py", "middle", 2}, {"f.py", "outer", 3}, {"f.py", "<module>", 4}});
  program.Call(program.gemm, 100, {}, deep);
  const Table table = RunPass("stacks", program.builder.Build());
  const size_t row = RowWhere(table, {{"kind", "library"}});
  EXPECT_EQ(Integer(table, row, "time"), 100);
  EXPECT_EQ(Text(table, row, "path"), "sgemm_ m10 n4 k3456 TN f32 < inner (f.py:1) < ... < <module> (f.py:4)");
}

TEST(StacksTest, LayersByFunctionAndByStackAddUpAsLayersDo) {
  Program program;
  for (int step = 0; step < 6; ++step) {
    program.Call(program.gemm, 100, kAddmm, program.line14);
    program.Call(program.small, 50, {"other()", "main"});
    program.Call(program.small, 20, {});
  }
  const TraceModel model = program.builder.Build();
  const Table by_function = RunWith("layers", model, {}, By::kFunction);
  const Table by_stack = RunWith("layers", model, {}, By::kStack);
  EXPECT_GT(Sum(by_function, "wall_share"), 6 * (100 + 50));
  EXPECT_EQ(Sum(by_stack, "wall_share"), Sum(by_function, "wall_share"));
  EXPECT_EQ(Text(by_function, 0, "function"), "at::native::structured_addmm_out_cpu");
  RowWhere(by_function, {{"function", "other"}});
  RowWhere(by_function, {{"function", "[function not known]"}});
  RowWhere(by_stack, {{"stack", "dgemm_ < other < main"}});
}

TEST(AskersTest, LibrariesAndTheirHelpersAsk) {
  for (const char* name :
       {"cblas_sgemm", "sgemm_", "dgemm_64_", "dnnl::primitive::execute", "at::native::cpublas::gemm",
        "caffe::caffe_cpu_gemm<float>", "syrk", "ideep::tensor::reorder_to"}) {
    EXPECT_TRUE(IsLibraryFunction(name)) << name;
  }
  for (const char* name : {"at::native::linear", "tensorflow::MatMulOp::Compute", "cblas", "main", "my_gemm", "f_"}) {
    EXPECT_FALSE(IsLibraryFunction(name)) << name;
  }
}

}  // namespace
}  // namespace dlhook::analyzer
