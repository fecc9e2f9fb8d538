// Which problems of a run are replayed, in which ways, and what is said of the results.
#include "analyzer/whatif/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace replay_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

trace::OpDefinition Primitive(const std::string& rest) {
  return OneDnnDefinition(absl::StrCat("onednn_verbose,v1,primitive,exec,cpu,", rest, ",0.1"));
}

// Of a program whose calls take 1000, 2000, … ns, in this order.
std::vector<ReplayProblem> Problems(const std::vector<trace::OpDefinition>& calls, size_t most = 100,
                                    const std::string& library = "libtorch_cpu.so") {
  ModelBuilder builder;
  for (const trace::OpDefinition& call : calls) {
    const auto ns = static_cast<int64_t>(1000 * (builder.model().ops.size() + 1));
    builder.Call(builder.AddOp(call), builder.now_ns() + ns * ns, ns);
  }
  TraceModel model = builder.Build();
  model.processes.front().capabilities.push_back({.name = "library", .object = library, .reason = ""});
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model);
  return ReplayProblems(StepFacts(model, {.choices = &choices, .totals = &totals, .analysis = &analysis}), most, "");
}

const char kConvolution[] =
    "convolution,jit:avx512_core,backward_weights,src:f32:a:blocked:aBcd16b::f0 wei:f32:a:blocked:ABcd16b16a::f0 "
    "bia:f32:a:blocked:a::f0 dst:f32:a:blocked:aBcd16b::f0,,alg:convolution_direct,"
    "g2mb8_ic16oc32_ih9oh5kh3sh2dh0ph1_iw7ow5kw3sw1dw1pw1";

TEST(ReplayProblems, AreMadeAsTheLibrarySaysThem) {
  const std::vector<ReplayProblem> problems = Problems({Primitive(kConvolution)});
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].reason, "");
  EXPECT_EQ(problems[0].through, "torch");
  EXPECT_EQ(problems[0].call_ns, 1000);
  nlohmann::json spec = nlohmann::json::parse(R"({
      "op": "convolution", "direction": "backward-weights", "type": "float32", "format": "contiguous", "bias": true,
      "transposed": false, "g": 2, "mb": 8, "ic": 16, "oc": 32, "ih": 9, "oh": 5, "kh": 3, "sh": 2, "dh": 0, "ph": 1,
      "iw": 7, "ow": 5, "kw": 3, "sw": 1, "dw": 1, "pw": 1, "tensors": {
          "src": [[8, 16, 9, 7], "f32", "aBcd16b"], "wei": [[2, 16, 8, 3, 3], "f32", "ABcd16b16a"],
          "bia": [[32], "f32", "a"], "dst": [[8, 32, 5, 5], "f32", "aBcd16b"]}})");
  EXPECT_EQ(problems[0].spec, spec);
  // Once more, by the system's library.
  EXPECT_EQ(problems[1].through, "onednn");
  EXPECT_EQ(problems[1].reason, "");
  spec["op"] = "primitive";
  spec["kind"] = "convolution";
  spec.erase("type");
  EXPECT_EQ(problems[1].spec, spec);
}

TEST(ReplayProblems, OfAnInnerProduct) {
  const char kInnerProduct[] =
      "inner_product,x64:gemm:jit,forward_training,src:f32::blocked:ab::f0 wei:f32::blocked:ba::f0 "
      "bia:f32::blocked:a::f0 dst:f32::blocked:ab::f0,,,mb32ic256oc10";
  const std::vector<ReplayProblem> problems = Problems({Primitive(kInnerProduct)}, 100, "libtensorflow_cc.so.2");
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].through, "tensorflow");
  EXPECT_EQ(problems[0].reason, "");
  EXPECT_EQ(problems[0].spec, nlohmann::json::parse(R"({
      "op": "product", "type": "float32", "format": "as recorded", "inner": true, "bias": true, "batch": 1, "m": 32,
      "n": 10, "k": 256, "a": false, "b": false, "tensors": {
          "src": [[32, 256], "f32", "ab"], "wei": [[10, 256], "f32", "ba"], "bia": [[10], "f32", "a"],
          "dst": [[32, 10], "f32", "ab"]}})"));
  EXPECT_EQ(problems[1].spec["kind"], "inner_product");
  EXPECT_THAT(
      Problems({Primitive(absl::StrReplaceAll(kInnerProduct, {{"forward_training", "backward_data"}}))})[0].reason,
      HasSubstr("no function for it alone"));
}

TEST(ReplayProblems, OfATransposedConvolution) {
  const std::vector<ReplayProblem> problems =
      Problems({Primitive("deconvolution,jit,forward_training,src:f32::blocked:acdb::f0 wei:f32::blocked:acdb::f0 "
                          "dst:f32::blocked:acdb::f0,,"
                          "alg:deconvolution_direct,mb2_ic16oc8_ih4oh9kh3sh2dh0ph0_iw4ow10kw3sw2dw0pw0")});
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].spec["transposed"], true);
  EXPECT_EQ(problems[0].spec["format"], "channels_last");
  EXPECT_EQ(problems[0].spec["bias"], false);
}

// Column-major C[m,n] is row-major C[n,m], with A and B swapped.
TEST(ReplayProblems, OfBlasAreRowMajor) {
  const std::vector<ReplayProblem> problems = Problems({GemmDefinition(120, 64, 256, "TN")});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].spec, nlohmann::json::parse(R"({
      "op": "product", "type": "float32", "format": "as recorded", "inner": false, "bias": false, "batch": 1, "m": 64,
      "n": 120, "k": 256, "a": false, "b": true, "tensors": null})"));
}

TEST(ReplayProblems, HeaviestFirstAndNotWithoutReason) {
  const std::vector<trace::OpDefinition> calls = {
      GemmDefinition(120, 64, 256, "TN"),
      Primitive("reorder,jit:blk,undef,src:f32::blocked:abcd::f0 dst:f32::blocked:aBcd16b::f0,,,8x64x32x32"),
      Primitive("lrn,jit,forward_training,data:f32::blocked:abcd::f0,,alg:lrn_across_channels,mb1ic3ih4iw4")};
  const std::vector<ReplayProblem> problems = Problems(calls);
  ASSERT_EQ(problems.size(), 4U);
  EXPECT_EQ(problems[0].reason, "there is no replay of the op lrn");
  EXPECT_THAT(problems[1].reason, HasSubstr("converts inside of the framework's op"));
  EXPECT_EQ(problems[2].kind, "gemm");
  EXPECT_EQ(problems[3].through, "onednn");
  EXPECT_EQ(problems[3].spec["kind"], "reorder");
  EXPECT_EQ(Problems(calls, 1).size(), 1U);
  EXPECT_THAT(Problems(calls, 100, "libmxnet.so")[2].reason, HasSubstr("MXNet called it"));
}

std::vector<std::string> Names(const ReplayProblem& problem, const std::vector<std::string>& has, size_t threads) {
  std::vector<std::string> names;
  const std::vector<Variation> listed = {{.name = "ONEDNN_MAX_CPU_ISA=AVX2"},
                                         {.name = "OPENBLAS_CORETYPE=Haswell"},
                                         {.name = "OPENBLAS_NUM_THREADS=1"},
                                         {.name = "TORCH_CUDNN_USE_HEURISTIC_MODE_B=1"},
                                         {.name = "TORCH_BLAS_PREFER_CUBLASLT=1"}};
  for (const ReplayVariant& variant : VariantsOf(problem, {.processors = 4, .has = has}, threads, listed)) {
    names.push_back(variant.name);
    EXPECT_EQ(variant.changes_numerics,
              variant.name == "bfloat16" || variant.name == "float16" || variant.name == "TF32");
  }
  return names;
}

TEST(ReplayVariants, AreWhatTheLibraryOffers) {
  EXPECT_THAT(
      Names(Problems({Primitive(kConvolution)})[0], {"avx512bf16"}, 2),
      ElementsAre("channels_last", "bfloat16", "mkldnn off", "1 thread", "4 threads", "ONEDNN_MAX_CPU_ISA=AVX2"));
  EXPECT_THAT(Names(Problems({GemmDefinition(120, 64, 256, "NN")})[0], {}, 4), ElementsAre("1 thread"));
  EXPECT_THAT(Names(Problems({GemmDefinition(120, 64, 256, "TN", "scipy_sgemm_")})[0], {"avx512bf16"}, 4),
              ElementsAre("contiguous", "1 thread", "OPENBLAS_CORETYPE=Haswell"));
  const ReplayProblem by_tensorflow = Problems({Primitive(kConvolution)}, 1, "libtensorflow_cc.so.2")[0];
  EXPECT_THAT(Names(by_tensorflow, {}, 4), ElementsAre("1 thread", "ONEDNN_MAX_CPU_ISA=AVX2"));
  EXPECT_EQ(VariantsOf(by_tensorflow, {.processors = 4}, 4, {})[0].environment,
            (std::vector<std::pair<std::string, std::string>>{{"TF_NUM_INTRAOP_THREADS", "1"}}));
  EXPECT_THAT(Names(Problems({Primitive(kConvolution)})[1], {"avx512bf16"}, 4), IsEmpty());
}

TEST(ReplayVariants, OfAGpu) {
  ReplayProblem problem = {.kind = "convolution", .through = "torch", .on_gpu = true};
  problem.spec = {{"op", "convolution"}, {"type", "float32"}, {"format", "contiguous"}, {"kh", 3},
                  {"device", "cuda"},    {"tf32", false}};
  EXPECT_THAT(Names(problem, {}, 4), ElementsAre("channels_last", "bfloat16", "float16", "TF32", "cudnn.benchmark",
                                                 "TORCH_CUDNN_USE_HEURISTIC_MODE_B=1"));
  problem.spec = {{"op", "product"}, {"type", "float32"}, {"format", "as recorded"}, {"inner", false},
                  {"a", true},       {"b", false},        {"device", "cuda"},        {"tf32", true}};
  EXPECT_THAT(Names(problem, {}, 4),
              ElementsAre("contiguous", "bfloat16", "float16", "TunableOp", "TORCH_BLAS_PREFER_CUBLASLT=1"));
}

// Two problems that take 300 and 100 of a step of 1000 ns, and their variants' speeds; 0: not decided, 0.98: no gain.
std::vector<Table> Tables(const std::vector<std::pair<std::string, std::pair<double, double>>>& variants,
                          const std::string& apart = "") {
  ReplayedRun run = {.unit = "training step", .apart = apart, .step_ns = 1000};
  for (const bool is_second : {false, true}) {
    Replayed replayed;
    replayed.problem = {.layers = is_second ? "conv2" : "conv1",
                        .kind = "convolution",
                        .calls = 1,
                        .step_ns = is_second ? 100.0 : 300.0,
                        .call_ns = 20};
    replayed.base.ns = {10, 12};
    for (const auto& [name, speeds] : variants) {
      const double speed = is_second ? speeds.second : speeds.first;
      ReplayVariant tried;
      tried.name = name;
      tried.changes_numerics = name == "bfloat16";
      tried.ns = {10};
      tried.rounds = speed > 0 ? 3 : 0;
      tried.speed.value = speed == 0 ? 1 : speed;
      if (speed > 0) tried.outcome = speed > 1 ? Outcome::kFaster : speed < 0.98 ? Outcome::kSlower : Outcome::kNoGain;
      replayed.variants.push_back(tried);
    }
    run.problems.push_back(replayed);
  }
  run.problems.emplace_back().problem = {.layers = "lstm", .kind = "rnn", .reason = "it is an rnn"};
  return ReplayTables(run);
}

TEST(ReplayTables, PromiseNoMoreThanTheProblemsShares) {
  const std::vector<Table> tables =
      Tables({{"channels_last", {1.5, 0.8}}, {"bfloat16", {2, 2}}, {"mkldnn off", {0.5, 1.2}}});
  // 300 x (1 - 1 / 1.5) = 100 gained, 100 x (1 / 0.8 - 1) = 25 lost.
  EXPECT_EQ(
      tables[0].title,
      "channels_last would make the training step 7.5 % shorter: 1 of 2 problems takes 0.67 of their time, 1 takes "
      "longer; "
      "bfloat16 would make the training step 20.0 % shorter, but it changes numerics: 2 of 2 problems take 0.50 "
      "of their "
      "time");
  EXPECT_EQ(Text(tables[0], 0, "best_other"), "bfloat16, changes numerics");
  EXPECT_EQ(Text(tables[2], 0, "not_replayed"), "not replayed, because it is an rnn");
}

// Of the system's oneDNN: what it has besides its choice; no promise for the program, which has another library.
TEST(ReplayTables, NameImplementations) {
  ReplayedRun run = {.unit = "training step", .library = "oneDNN 2.6.3", .step_ns = 1000};
  Replayed& replayed = run.problems.emplace_back();
  replayed.problem = {.layers = "conv1",
                      .kind = "convolution",
                      .direction = "forward",
                      .through = "onednn",
                      .calls = 1,
                      .step_ns = 300};
  replayed.base.ns = {10, 12};
  replayed.base.implementation = "jit:avx512_core";
  replayed.variants.resize(2);
  replayed.variants[0] = {.name = "jit_wino_4x3:avx512_core", .ns = {5}, .formats = "own", .outcome = Outcome::kFaster};
  replayed.variants[0].speed.value = 2;
  replayed.variants[0].changes_numerics = true;
  replayed.variants[1] = {.name = "x64:gemm:jit", .ns = {20}, .outcome = Outcome::kSlower};
  const std::vector<Table> tables = ReplayTables(run);
  EXPECT_EQ(
      tables[0].title,
      "no other way was tried through the run's framework; oneDNN 2.6.3 alone has something faster than its choice for "
      "1 of 1 problem, at most 2.00 times: jit_wino_4x3:avx512_core in its own formats, which changes numerics, for "
      "convolution "
      "forward conv1");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(tables[0], 0, "gain")));
  ASSERT_EQ(tables[1].name, "candidates");
  ASSERT_EQ(tables[1].rows.size(), 3U);
  EXPECT_EQ(Text(tables[1], 0, "candidate"), "jit:avx512_core");
  EXPECT_EQ(Text(tables[1], 0, "outcome"), "taken");
  EXPECT_EQ(Text(tables[1], 2, "outcome"), "slower");
}

// What is no gain is mostly a small loss: 100 x (1 / 0.98 - 1) = 2.
TEST(ReplayTables, SumWhatIsNoGain) {
  const std::vector<Table> tables = Tables({{"channels_last", {1.5, 0.98}}});
  EXPECT_EQ(tables[0].title,
            "channels_last would make the training step 9.8 % shorter: 1 of 2 problems takes 0.67 of their time");
  EXPECT_EQ(Text(tables[1], 1, "outcome"), "no gain or slower");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(Tables({{"channels_last", {0, 0}}})[1], 0, "times_as_fast")));
  EXPECT_EQ(Text(tables[0], 0, "best_other"), "channels_last");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(tables[0], 1, "best_other")));
}

TEST(ReplayTables, SayWhatThreadsNeed) {
  EXPECT_EQ(
      Tables({{"2 threads", {2, 1}}})[0].title,
      "2 threads would make the training step 15.0 % shorter, if no other program has the processors: 1 of 2 problems "
      "takes 0.50 of their time");
}

// Of another machine: the run's times make no sum with those of this one.
TEST(ReplayTables, DoNotCompareTimesOfAnotherMachine) {
  const std::vector<Table> tables =
      Tables({{"channels_last", {1.5, 0.8}}, {"bfloat16", {2, 2}}}, "machine: A, 64 processors; here B, 2");
  EXPECT_THAT(tables[0].title, HasSubstr("bfloat16 is faster on this machine, but it changes numerics: 2 of 2"));
  EXPECT_THAT(tables[0].title, Not(HasSubstr("training step")));
  EXPECT_EQ(tables[0].notes.front(),
            "times of the run are of another machine: A, 64 processors; here B, 2; they are not compared with those "
            "measured here.");
  const std::vector<Table> of_this = Tables({{"bfloat16", {2, 2}}});
  for (const char* column : {"in_run", "share", "gain"}) {
    EXPECT_TRUE(std::holds_alternative<std::monostate>(At(tables[0], 0, column))) << column;
    EXPECT_FALSE(std::holds_alternative<std::monostate>(At(of_this[0], 0, column))) << column;
  }
  EXPECT_EQ(Integer(tables[0], 0, "alone"), 11);
  EXPECT_THAT(of_this[0].notes, IsEmpty());
}

TEST(ReplayMachine, IsAnotherOneByItsProcessor) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(GemmDefinition(120, 64, 256, "TN")), 0, 1000);
  TraceModel model = builder.Build();
  ProcessInfo& process = model.processes.front();
  process.processors = 2;
  process.processor = {.vendor = "V", .name = "A"};
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model);
  const StepFacts facts(model, {.choices = &choices, .totals = &totals, .analysis = &analysis});
  EXPECT_EQ(OtherMachine(facts, {.vendor = "V", .name = "A"}, 2), "");
  EXPECT_EQ(OtherMachine(facts, {.vendor = "V", .name = "B"}, 2), "A, 2 processors; here B, 2");
  EXPECT_EQ(OtherMachine(facts, {.vendor = "V", .name = "A"}, 4), "A, 2 processors; here A, 4");
  process.processors = 0;
  process.processor = {};  // an older trace: not known
  EXPECT_EQ(OtherMachine(facts, {.vendor = "V", .name = "B"}, 4), "");
}

Table TableOf(const char* name, const std::vector<const char*>& columns, const std::vector<const char*>& texts = {}) {
  Table table = {.name = name};
  for (const char* column : columns) table.columns.push_back({.name = column});
  if (!texts.empty()) table.rows.emplace_back(texts.begin(), texts.end());
  return table;
}

// In the tables of its run, and of no other.
TEST(ReplayTables, AreKeptForTheRunsOwn) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(GemmDefinition(120, 64, 256, "TN")), 0, 1000);
  TraceModel model = builder.Build();
  model.processes.front().path = testing::TempDir() + "/1.dlh";
  ReplayedRun run = {.unit = "training step", .library = "oneDNN 2.6.3", .step_ns = 1000};
  for (const char* through : {"torch", "onednn"}) {
    Replayed& replayed = run.problems.emplace_back();
    replayed.problem = {.kind = "convolution",
                        .direction = "forward",
                        .problem = "mb1",
                        .types = "f32",
                        .formats = "nhwc",
                        .implementation = "jit",
                        .through = through};
    replayed.base = {.ns = {2000}, .library_ns = {1000}, .implementation = "jit", .formats = "own"};
    replayed.variants = {{.name = "bad\tname", .ns = {500}, .outcome = Outcome::kFaster, .speed = {4}},
                         {.name = "open", .ns = {100}, .speed = {9}},
                         {.name = "failed", .failure = "it does"}};
  }
  ASSERT_TRUE(KeepReplay(ReplayFileOf(model), run, "by torch 2").ok());
  const std::vector<const char*> keys = {"kind", "direction", "problem", "types", "formats", "chosen"};
  const Table algorithms = TableOf("algorithms", keys, {"convolution", "forward", "mb1", "f32", "nhwc", "jit"});
  Table kept = algorithms, other = TableOf("algorithms", keys, {"convolution", "forward", "mb2", "f32", "nhwc", "jit"});
  AddReplayed(model, &kept);
  EXPECT_EQ(Integer(kept, 0, "alone"), 1000);
  EXPECT_EQ(Text(kept, 0, "best_other"), "bad name");
  EXPECT_EQ(At(kept, 0, "times_as_fast"), Cell(4.0));
  EXPECT_THAT(kept.notes,
              ElementsAre("alone, best_other and times_as_fast are measured by dlhook replay, by torch 2."));
  AddReplayed(model, &other);
  EXPECT_EQ(At(other, 0, "alone"), Cell());
  Table candidates = TableOf("candidates", {"kind", "direction", "problem", "candidate", "time", "source", "notes"});
  AddReplayed(model, &candidates);
  ASSERT_EQ(candidates.rows.size(), 6U);
  EXPECT_EQ(Text(candidates, 0, "candidate"), "jit");
  EXPECT_EQ(Text(candidates, 0, "notes"), "oneDNN's primitive in an op of torch");
  EXPECT_EQ(Text(candidates, 1, "notes"), "op of torch");
  EXPECT_EQ(Integer(candidates, 1, "time"), 500);
  EXPECT_EQ(Text(candidates, 3, "notes"), "oneDNN 2.6.3, formats: own");
  EXPECT_EQ(Text(candidates, 5, "source"), "replay");
  std::ofstream file(ReplayFileOf(model).path, std::ios::app);  // lines that are none
  file << "a\tb\n\n1\t2\t3\t4\t5\t6\t7\t8\t9\tinf\t1\n1\t2\t3\t4\t5\t6\t7\t8\t9\t1\tnan\n";
  file.close();
  candidates.rows.clear();
  AddReplayed(model, &candidates);
  EXPECT_EQ(candidates.rows.size(), 6U);
  model.processes.front().start_ns += 2'000'000'000;  // a later run, whose trace has the same name
  kept = algorithms;
  AddReplayed(model, &kept);
  EXPECT_EQ(kept.columns.size(), algorithms.columns.size());
}

TEST(ReplayTables, SayThatTheChoiceIsTheBest) {
  EXPECT_EQ(Tables({{"mkldnn off", {0.5, 1}}})[0].title, "the chosen implementations are the best of those tried");
  EXPECT_EQ(Tables({{"channels_last", {1.02, 1.01}}})[0].title,
            "nothing tried is shown to make the training step 1 % shorter");
  EXPECT_EQ(Tables({{"mkldnn off", {0.5, 0}}})[0].title,
            "nothing tried is shown to be faster than the chosen implementations; not decided: 1 of 2 variants");
}

}  // namespace replay_test
}  // namespace dlhook::analyzer
