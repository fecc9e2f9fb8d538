// Where time not seen belongs: by the Python frames at both ends.
#include "analyzer/time/gap_places.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/time/time_division.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

using Frame = ModelBuilder::Frame;

// A program's ops one after another, 10 ns each, with gaps made by `Wait`.
class GapPlaces : public testing::Test {
 protected:
  GapPlaces() {
    net_ = builder_.AddModule("__main__.Net", {""});
    block_ = builder_.AddModule("__main__.Block", {"block"}, net_, net_);
    head_ = builder_.AddModule("torch.nn.modules.linear.Linear", {"head"}, net_, net_);
  }

  static Frame Main(uint32_t line) { return {"/u/train.py", "<module>", line, kNone}; }
  Frame Call(ModuleIndex module) {
    return {"/l/site-packages/torch/nn/modules/module.py", "_wrapped_call_impl", 1700, module};
  }
  static Frame Forward(const std::string& file, uint32_t line) { return {file, "forward", line, kNone}; }
  static constexpr char kBlock[] = "/u/block.py";
  static constexpr char kNet[] = "/u/net.py";

  void Op(const std::vector<Frame>& frames) {
    std::string key;
    for (const Frame& frame : frames) key += absl::StrCat(frame.file, ":", frame.line, ":", frame.module, ";");
    const auto [stack, is_new] = stacks_.try_emplace(key, kNone);
    if (is_new) stack->second = builder_.AddStack(frames);
    builder_.Scope("aten::op", ScopeKind::kFrameworkOp, now_ns_, 10, 0, -1, stack->second);
    now_ns_ += 10;
  }
  void InBlock(uint32_t line, uint32_t main_line = 5) {
    Op({Forward(kBlock, line), Call(block_), Forward(kNet, 20), Call(net_), Main(main_line)});
  }
  void InHead(uint32_t net_line = 21) { Op({Call(head_), Forward(kNet, net_line), Call(net_), Main(5)}); }
  void InMain(uint32_t line) { Op({Main(line)}); }
  void Wait(int64_t ns) { now_ns_ += ns; }

  // Time not seen by "LAYER direction, LINE".
  std::map<std::string, int64_t> NotSeen() {
    const TraceModel model = builder_.Build();
    const Attribution attribution = AttributeToLayers(model, {});
    std::map<std::string, int64_t> sums;
    DivideTime(model, 0, {}, [&](const TimePiece& piece) {
      if (piece.kind != ActivityKind::kNotSeen) return;
      const GapPlace gap = {attribution.PlaceOfGap(piece.gap), attribution.LineOfGap(piece.gap)};
      const bool is_placed = gap.place.layer != kNone;
      const std::string layer = is_placed ? attribution.layers[gap.place.layer].name : "-";
      sums[layer + (is_placed ? std::string(" ") + LayerDirectionName(gap.place.direction) : "") + ", " + gap.line] +=
          piece.share_ns;
    });
    return sums;
  }

  ModelBuilder builder_;
  std::map<std::string, StackIndex> stacks_;  // equal ones are one, as in a run
  ModuleIndex net_ = 0, block_ = 0, head_ = 0;
  int64_t now_ns_ = 0;
};

using Sums = std::map<std::string, int64_t>;

TEST_F(GapPlaces, BelongToTheModuleWhoseCallGoesOn) {
  InMain(3);
  Wait(1);
  InBlock(7);
  Wait(500);
  InBlock(9);
  Wait(20);
  InHead();
  Wait(2);
  InMain(6);
  EXPECT_EQ(NotSeen(), (Sums{{"-, train.py:3 to 5", 1},
                             {"block forward, block.py:7 to 9", 500},
                             {"Net:[not seen] forward, net.py:20 to 21", 20},
                             {"-, train.py:5 to 6", 2}}));
}

// Between a closure's calls, and beside them, the time may be the closure's; between the optimizer's own it is not.
TEST_F(GapPlaces, InTheRangeOfAnOptimizerOnlyWhatItsOwnCallsEncloseIsIts) {
  const Frame step = {"/l/site-packages/torch/optim/adamw.py", "AdamW.step", 200, kNone};
  const Frame base = {"/l/site-packages/torch/optim/optimizer.py", "wrapper", 530, kNone};
  const Frame closure = {"/u/train.py", "closure", 30, kNone}, later = {"/u/train.py", "closure", 31, kNone};
  InMain(5);
  const int64_t start_ns = now_ns_;
  Wait(100);
  Op({closure, step, base, Main(5)});
  Wait(1000);
  Op({later, step, base, Main(5)});
  Wait(200);
  Op({step, base, Main(5)});
  Wait(30);
  Op({step, base, Main(5)});
  builder_.Scope("Optimizer.step#AdamW.step", ScopeKind::kUserRange, start_ns, now_ns_ - start_ns, 0, -1,
                 stacks_.begin()->second);
  EXPECT_EQ(
      NotSeen(),
      (Sums{{"-, train.py:30 to 31", 1000}, {"-, train.py:5", 300}, {"optimizer (AdamW) update, train.py:5", 30}}));
}

// for …: sleep; net(x). The last op of one call and the first op of the next have the same frames.
TEST_F(GapPlaces, BetweenTwoCallsOfTheNetworkBelongToNone) {
  for (int i = 0; i < 4; ++i) {
    InBlock(7);
    Wait(10);
    InBlock(9);
    Wait(1000);
  }
  EXPECT_EQ(NotSeen(), (Sums{{"block forward, block.py:7 to 9", 40}, {"-, train.py:5", 3000}}));
}

// The first call does more, so that it does not show how the others begin: only the line going backwards in the
// network's own code does.
TEST_F(GapPlaces, WhereALineGoesBackInAModuleItMayBeItsNextCall) {
  Op({Forward(kNet, 10), Call(net_), Main(5)});
  for (int i = 0; i < 3; ++i) {
    Op({Forward(kNet, 12), Call(net_), Main(5)});
    Op({Forward(kNet, 14), Call(net_), Main(5)});
    Wait(1000);
  }
  EXPECT_EQ(NotSeen(), (Sums{{"-, train.py:5", 2000}}));
}

// for layer in layers: x = layer(x). A call of the network never begins with the second layer.
TEST_F(GapPlaces, InALoopOverLayersBelongToTheNetwork) {
  for (int i = 0; i < 3; ++i) {
    InMain(4);
    Op({Forward(kBlock, 7), Call(block_), Forward(kNet, 21), Call(net_), Main(5)});
    Wait(30);
    InHead();
    Wait(1);
  }
  EXPECT_EQ(NotSeen(), (Sums{{"Net:[not seen] forward, net.py:21", 90}, {"-, train.py:5 to 4", 2}}));
}

// A function without a module, called in a loop: two calls.
TEST_F(GapPlaces, BetweenTwoCallsOfAFunctionBelongToTheLoop) {
  for (int i = 0; i < 3; ++i) {
    Op({{"/u/train.py", "step", 30, kNone}, Main(5)});
    Wait(7);
    Op({{"/u/train.py", "step", 31, kNone}, Main(5)});
    Wait(100);
  }
  EXPECT_EQ(NotSeen(), (Sums{{"-, train.py:30 to 31", 21}, {"-, train.py:5", 200}}));
}

TEST_F(GapPlaces, OfALibraryStandInTheProgramsLine) {
  const Frame library = {"/l/site-packages/torch/nn/modules/container.py", "forward", 240, kNone};
  InMain(3);
  Op({Call(head_), library, Main(5)});
  Wait(40);
  Op({Call(block_), library, Main(5)});
  EXPECT_EQ(NotSeen(), (Sums{{"-, train.py:5", 40}}));
}

TEST_F(GapPlaces, InAnOptimizersStepAreTheOptimizers) {
  InMain(4);
  const int64_t start_ns = now_ns_;
  const StackIndex stack = builder_.AddStack({Main(6)});
  Wait(5);
  InMain(6);
  Wait(5);
  builder_.Scope("Optimizer.step#SGD.step", ScopeKind::kUserRange, start_ns, now_ns_ - start_ns, 0, -1, stack);
  EXPECT_EQ(NotSeen(), (Sums{{"optimizer (SGD) update, train.py:6", 10}}));
}

// torch.compile runs the network's lines on tensors without data: neither these ops nor the gaps between them belong to
// the network.
TEST_F(GapPlaces, InACompilationAreTheCompilations) {
  const Frame compiler = {"/l/site-packages/torch/_dynamo/symbolic_convert.py", "run", 900, kNone};
  const Frame wrapper = {"/l/site-packages/torch/_dynamo/eval_frame.py", "compile_wrapper", 700, kNone};
  InMain(4);
  Wait(5);
  Op({compiler, wrapper, Call(net_), Main(5)});
  Wait(1000);
  Op({compiler, wrapper, Call(net_), Main(5)});
  Wait(3);
  Op({wrapper, Call(net_), Main(5)});
  Wait(7);
  InMain(6);
  const std::map<std::string, int64_t> sums = NotSeen();
  int64_t compilation_ns = 0;
  for (const auto& [label, ns] : sums) compilation_ns += label.find("compilation (torch.compile)") == 0 ? ns : 0;
  EXPECT_EQ(compilation_ns, 5 + 1000 + 3);
  const Table summary = RunPass("summary", builder_.model());
  EXPECT_EQ(Integer(summary, RowWhere(summary, {{"metric", "compilation"}}), "value"), 5 + 1000 + 3 + 2 * 10);
}

TEST_F(GapPlaces, WithoutEvidenceOfTheFrameworkOnlyLinesAreKnown) {
  InBlock(7);
  Wait(500);
  InBlock(9);
  const TraceModel model = builder_.Build();
  const Attribution attribution = AttributeToLayers(model, {.use_framework_evidence = false});
  std::vector<std::string> lines;
  for (const auto& [stacks, gap] : attribution.of_gap) {
    EXPECT_EQ(gap.place.layer, kNone);
    lines.push_back(gap.line);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"block.py:7 to 9"}));
}

TEST_F(GapPlaces, RowsOfModulesStandBehindTheirLayers) {
  InMain(3);
  InBlock(7);
  Wait(500);
  InBlock(9);
  Wait(10);
  Op({Forward(kNet, 21), Call(net_), Main(5)});
  builder_.Scope("Optimizer.step#SGD.step", ScopeKind::kUserRange, now_ns_, 10);
  std::vector<std::string> names;
  for (const Layer& layer : AttributeToLayers(builder_.Build(), {}).layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"block", "Net:op", "Net:[not seen]", "optimizer (SGD)"}));
}

}  // namespace
}  // namespace dlhook::analyzer
