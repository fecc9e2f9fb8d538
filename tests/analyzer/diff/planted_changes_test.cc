// Changes planted into a training loop, and the first sentence of each diff: it begins with the change, whatever its
// cost.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

#include "absl/strings/match.h"
#include "analyzer/diff/diff_runs.h"
#include "tests/analyzer/builders/model_builder.h"
#include "tests/analyzer/diff/training_run.h"

namespace dlhook::analyzer {
namespace {

struct PlantedChange {
  const char* name;
  std::function<void(RunSpec&)> plant;  // applied to the new run
  const char* sentence;                 // its beginning
  const char* cost;                     // what else it contains
  Gate gate;                            // at 3 %
  const char* environment = "";
  friend std::ostream& operator<<(std::ostream& out, const PlantedChange& change) { return out << change.name; }
};

RunSpec Before() {
  RunSpec spec;
  spec.layers = Layers(3);
  spec.optimizer = "SGD";
  spec.loader = "_SingleProcessDataLoaderIter";
  spec.threads = 5;
  return spec;
}

void MakeSlower(RunSpec& spec, double times) {
  for (LayerSpec& layer : spec.layers) {
    layer.forward_ns = static_cast<int64_t>(static_cast<double>(layer.forward_ns) * times);
    layer.backward_ns = static_cast<int64_t>(static_cast<double>(layer.backward_ns) * times);
  }
}

const PlantedChange kChanges[] = {
    {"Nothing", [](RunSpec&) {}, "no difference beyond noise: 901 us -> 903 us per training step (",
     "CPU time 901 us -> 903 us", Gate::kPasses},
    {"Batch",
     [](RunSpec& spec) {
       spec.batch = 16;
       MakeSlower(spec, 2.4);
     },
     "NEW is 20 % slower per sample (113 us -> 135 us, noise ",
     "per training step): batch 8 -> 16. NEW differs: batch 8", Gate::kFails},
    {"BatchInTwoPasses",
     [](RunSpec& spec) {
       spec.batch = 4;
       spec.micro_steps = 2;
     },
     "NEW is 100 % slower per training step (", ": more calls: forward and backward passes before an update 1 -> 2 in",
     Gate::kFails},
    {"Threads",
     [](RunSpec& spec) {
       spec.threads = 6;
       MakeSlower(spec, 0.6);
     },
     "NEW is 40 % faster per training step (",
     "threads of the program 5 -> 6: the same work takes less time in features.", Gate::kPasses,
     "threads of the program 5 -> 6"},
    {"MoreThanThreadsNeed",
     [](RunSpec& spec) {
       spec.threads = 6;
       MakeSlower(spec, 3);
     },
     "NEW is 200 % slower per training step (", "): the same work takes longer in features.", Gate::kFails,
     "threads of the program 5 -> 6"},
    {"DataType",
     [](RunSpec& spec) {
       spec.dtype = "bf16";
       MakeSlower(spec, 0.5);
     },
     "NEW is 50 % faster per training step (", ": data types: f32 -> bf16 in features.", Gate::kPasses},
    {"ChannelsLast",
     [](RunSpec& spec) {
       spec.format = "acdb";
       spec.layers[1].implementation = "brg_conv_fwd:avx512_core";
     },
     "NEW differs: convolution src:abcd -> src:acdb; convolution jit:avx512 -> brg_conv_fwd:avx512_core. No difference "
     "in time "
     "beyond noise: ",
     "", Gate::kPasses},
    {"ExtraLayer", [](RunSpec& spec) { spec.layers.push_back({.name = "extra", .channels = 99}); },
     "NEW is 33 % slower per training step (", ": layer extra is new, +", Gate::kFails},
    {"ExtraBlock",
     [](RunSpec& spec) {
       for (const char* name : {"block.conv1", "block.conv2", "block.sub.conv"}) {
         spec.layers.push_back({.name = name, .channels = 99, .type = "norm"});
       }
     },
     "NEW is 100 % slower per training step (", ": layer block (3 layers) is new, +", Gate::kFails},
    {"WiderLayer",
     [](RunSpec& spec) {
       spec.layers[2].channels = 64;
       spec.layers[2].backward_ns *= 2;
     },
     "NEW is 22 % slower per training step (",
     ": more work per call: convolution oc 18 -> 64 in features.2 backward-data", Gate::kFails},
    {"Evaluation", [](RunSpec& spec) { spec.validations = 1; },
     "NEW differs: validation passes a step 0 -> 1. No difference in time beyond noise: ", "", Gate::kPasses},
    {"Optimizer", [](RunSpec& spec) { spec.optimizer = "Adam"; },
     "NEW differs: optimizer SGD -> Adam. No difference in time beyond noise: ", "", Gate::kPasses},
    {"Updates", [](RunSpec& spec) { spec.updates = 5; }, "NEW is 0.6 % slower per training step (",
     ". NEW differs: calls of an optimizer's step() in a step 1 -> 5", Gate::kPasses},
    {"Compiled",
     [](RunSpec& spec) {
       spec.is_compiled = true;
       spec.layers.push_back({.name = "compiled region 0/0", .channels = 99});
     },
     "NEW is 34 % slower per training step (", ": torch.compile none -> used, +", Gate::kFails},
    {"CompiledBesideANewLayer",
     [](RunSpec& spec) {
       spec.is_compiled = true;
       spec.layers.push_back({.name = "compiled region 0/0", .forward_ns = 10000, .backward_ns = 20000});
       spec.layers.push_back({.name = "extra", .forward_ns = 400000, .backward_ns = 800000});
     },
     "NEW is ", "layer extra is new, +", Gate::kFails},
    {"LossWithAProduct", [](RunSpec& spec) { spec.products = 2; },
     "NEW differs: gemm 0 -> 2 a step. No difference in time beyond noise: ", "", Gate::kPasses},
    {"InstructionSet",
     [](RunSpec& spec) {
       spec.settings["ONEDNN_MAX_CPU_ISA"] = "SSE41";
       for (LayerSpec& layer : spec.layers) layer.implementation = "jit:sse41";
       MakeSlower(spec, 3);
     },
     "NEW is 200 % slower per training step (",
     ": another implementation: convolution jit:avx512 -> jit:sse41 in features.", Gate::kFails,
     "ONEDNN_MAX_CPU_ISA none -> SSE41"},
    {"Workers", [](RunSpec& spec) { spec.loader = "_MultiProcessingDataLoaderIter"; },
     "NEW differs: data is loaded in the program itself -> in worker processes. No difference in time beyond noise: ",
     "", Gate::kPasses},
    {"Sleep", [](RunSpec& spec) { spec.sleep_ns = 900000; },
     "NEW is 100 % slower per training step (901 us -> 1.80 ms, noise ", "CPU time 901 us -> 90", Gate::kFails},
    {"Python", [](RunSpec& spec) { spec.python_ns = 900000; },
     "NEW is 100 % slower per training step (901 us -> 1.80 ms, noise ", "CPU time 901 us -> 1.80 ms", Gate::kFails},
    {"PythonAtALine",
     [](RunSpec& spec) {
       spec.python_ns = 900000;
       spec.line = 7;
     },
     "NEW is 100 % slower per training step (",
     "): more time between calls (Python or native code), above all at train.py:7", Gate::kFails},
    {"Accumulation", [](RunSpec& spec) { spec.micro_steps = 2; }, "NEW is 100 % slower per training step (",
     ": more calls: forward and backward passes before an update 1 -> 2 in features.", Gate::kFails},
    {"Reorders", [](RunSpec& spec) { spec.layers[0].reorders = 100; }, "NEW is 11 % slower per training step (",
     ": memory formats: conversions of tensors 0 -> 100 a step in features.0 forward, +", Gate::kFails},
    {"OwnLoops",
     [](RunSpec& spec) {
       spec.layers[0].calls_library = false;
       spec.layers[0].forward_ns *= 3;
     },
     "NEW is 22 % slower per training step (",
     ": another implementation: convolution jit:avx512 -> the framework's own loops in features.0", Gate::kFails},
    // 100 us for the one, 3 us for each of the others.
    {"FurtherSmallOps", [](RunSpec& spec) { spec.layers[0].small_ops = 100; }, "NEW is 33 % slower per training step (",
     ": more calls: aten::conv2d 1 -> 101 a step in features.0 forward, +30", Gate::kFails},
    {"Library", [](RunSpec& spec) { spec.library_build = "B"; }, "no difference beyond noise: ", "", Gate::kPasses,
     "another build of libdnnl.so"},
    {"BusyMachine", [](RunSpec& spec) { spec.waiting_ns = 400000; },
     "busy machine (BASE waited 0 ns a step for a processor, NEW 400 us): no difference beyond noise: 901 us -> 1.30 "
     "ms "
     "per training step (+45 %, but it waited for processors, noise ",
     "CPU time 901 us -> 90", Gate::kPasses},
    {"ThreadsThatWaitForEachOther",
     [](RunSpec& spec) {
       spec.waiting_ns = 400000;
       spec.wanting = 6;
     },
     "NEW is 45 % slower per training step (", "): its own threads want more processors than there are, +",
     Gate::kFails},
    {"LayerOnBusyMachine",
     [](RunSpec& spec) {
       spec.waiting_ns = 400000;
       spec.layers.push_back({.name = "extra", .channels = 99});
     },
     "busy machine (BASE waited 0 ns a step for a processor, NEW 400 us): NEW is ", "layer extra is new, +",
     Gate::kFails},
};

class PlantedChangesTest : public testing::TestWithParam<PlantedChange> {};

TEST_P(PlantedChangesTest, IsToldFirst) {
  RunSpec after = Before();
  after.seed = 2;
  GetParam().plant(after);
  const RunsDiff diff = Diff(Before(), after);
  const std::string sentence = Sentence(diff);
  EXPECT_TRUE(absl::StartsWith(sentence, GetParam().sentence)) << sentence;
  EXPECT_TRUE(absl::StrContains(sentence, GetParam().cost)) << sentence;
  EXPECT_EQ(diff.decision.SlowerThan(3), GetParam().gate) << sentence;
  EXPECT_EQ(diff.environment, GetParam().environment);
  // Verdict, notes and differences must agree with the sentence.
  const Table& differences = TableOf(diff, "differences");
  EXPECT_EQ(differences.rows.empty(), diff.environment.empty() && !absl::StrContains(sentence, "NEW differs: "));
  // Causes add up, to the nanosecond.
  const Table& causes = TableOf(diff, "causes");
  int64_t sum_ns = 0;
  for (size_t row = 0; row < causes.rows.size(); ++row) sum_ns += Integer(causes, row, "change");
  const Table& verdict = diff.tables.front();
  EXPECT_EQ(sum_ns, Integer(verdict, RowWhere(verdict, {{"what", "training step"}}), "change"));
  std::string notes;
  for (const std::string& note : diff.tables.front().notes) notes += note;
  const bool is_seen = !absl::StrContains(sentence, "above all at train.py:7");  // what Python did there is not known
  EXPECT_EQ(absl::StrContains(notes, "the same work in the same way"), differences.rows.empty() && is_seen) << notes;
  const bool is_noise = absl::StrContains(sentence, "o difference ");
  EXPECT_EQ(StepVerdict(diff) == "noise", is_noise) << sentence;
  EXPECT_TRUE(!absl::StrContains(notes, "counts as noise") || is_noise) << notes;
  EXPECT_TRUE(!is_noise || GetParam().gate == Gate::kPasses);
}

INSTANTIATE_TEST_SUITE_P(Planted, PlantedChangesTest, testing::ValuesIn(kChanges),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace dlhook::analyzer
