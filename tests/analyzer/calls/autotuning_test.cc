// Autotuning recognized by its packs, and choosers: choices.h, choices.h.

#include <gtest/gtest.h>

#include "analyzer/calls/choices.h"
#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

// Executions of plans, 100 ns each, every 1000 ns.
class PlanProgram {
 public:
  // `waited_ns` after its start the thread has finished waiting for it (0: it does not wait).
  void Execute(const PlanCall& call, int64_t waited_ns = 0, ThreadIndex thread = 0) {
    builder_.Call(builder_.AddOp(PlanDefinition(call)), now_ns_, 100, thread);
    if (waited_ns > 0) {
      const OpIndex wait = builder_.AddOp(TimedDefinition("cudaEventSynchronize", "cuda_sync"));
      builder_.Call(wait, now_ns_ + 200, waited_ns - 200, thread);
    }
    now_ns_ += 1000;
  }
  void Execute(int plan, bool pack_seen_before, int64_t waited_ns = 0, ThreadIndex thread = 0) {
    Execute({.number = plan, .engine = plan * 10, .pack_seen_before = pack_seen_before}, waited_ns, thread);
  }
  // Like PyTorch: every plan twice, waiting for each.
  void Benchmark(int plans, int winner) {
    for (int plan = 1; plan <= plans; ++plan) {
      const int64_t time_ns = plan == winner ? 300 : 500 + plan;
      Execute(plan, plan > 1, 900);
      Execute(plan, true, time_ns);
    }
    Execute(winner, false);
  }
  ModelBuilder& builder() { return builder_; }

 private:
  ModelBuilder builder_;
  int64_t now_ns_ = 0;
};

std::vector<PlanSearch> Searches(PlanProgram& program) { return FindPlanSearches(program.builder().Build()); }

TEST(AutotuningTest, PyTorchsBenchmark) {
  PlanProgram program;
  program.Benchmark(3, 2);
  const std::vector<PlanSearch> searches = Searches(program);
  ASSERT_EQ(searches.size(), 1u);
  const PlanSearch& search = searches[0];
  ASSERT_EQ(search.candidates.size(), 3u);
  for (const PlanCandidate& candidate : search.candidates) EXPECT_EQ(candidate.calls.size(), 2u);
  EXPECT_EQ(search.candidates[0].time_ns(), 501);
  EXPECT_EQ(search.candidates[1].time_ns(), 300);
  EXPECT_EQ(search.candidates[2].time_ns(), 503);
  EXPECT_EQ(search.winner, 1u);
  EXPECT_EQ(search.start_ns, 0);
  EXPECT_EQ(search.end_ns, 5000 + 503);
}

TEST(AutotuningTest, FreshPacksAreNoSearch) {
  PlanProgram program;
  for (int i = 0; i < 6; ++i) program.Execute(1 + i % 2, false);
  EXPECT_TRUE(Searches(program).empty());
}

TEST(AutotuningTest, OnePlanWithItsPackUsedAgainIsNoSearch) {
  PlanProgram program;
  for (int i = 0; i < 6; ++i) program.Execute(1, i > 0);
  EXPECT_TRUE(Searches(program).empty());
}

TEST(AutotuningTest, PlansOfAnotherProblemAreNoCandidates) {
  PlanProgram program;
  program.Execute({.number = 1, .engine = 1, .batch = 8});
  program.Execute({.number = 2, .engine = 2, .pack_seen_before = true, .batch = 16});
  program.Execute({.number = 3, .engine = 3, .pack_seen_before = true, .batch = 16});
  EXPECT_TRUE(Searches(program).empty());
}

TEST(AutotuningTest, NotAcrossThreads) {
  PlanProgram program;
  const ThreadIndex other = program.builder().AddThread();
  program.Execute(1, false);
  program.Execute(2, true, 0, other);
  EXPECT_TRUE(Searches(program).empty());
}

TEST(AutotuningTest, WithoutWaitingTheTimeIsNotKnown) {
  PlanProgram program;
  program.Execute(1, false);
  program.Execute(2, true, 400);
  const std::vector<PlanSearch> searches = Searches(program);
  ASSERT_EQ(searches.size(), 1u);
  EXPECT_EQ(searches[0].candidates[0].time_ns(), std::nullopt);
  EXPECT_EQ(searches[0].candidates[1].time_ns(), 400);
  EXPECT_EQ(searches[0].winner, std::nullopt);  // nothing follows
}

TEST(AutotuningTest, TheTimeBetweenEventsCountsWhereItWasAskedFor) {
  ModelBuilder builder;
  const OpIndex wait = builder.AddOp(TimedDefinition("cudaEventSynchronize", "cuda_sync"));
  const OpIndex elapsed = builder.AddOp(TimedDefinition("cudaEventElapsedTime", "cuda_stream"));
  int64_t at = 0;
  for (int plan = 1; plan <= 2; ++plan) {
    for (int64_t elapsed_ns : {90, 70, 80}) {
      const OpIndex execute =
          builder.AddOp(PlanDefinition({.number = plan, .engine = plan, .pack_seen_before = at > 0}));
      builder.Call(execute, at, 100);
      builder.Call(wait, at + 200, 300);
      builder.Call(elapsed, at + 600, 10, 0, plan == 2 ? 600 : 0, {static_cast<uint64_t>(elapsed_ns)});
      at += 1000;
    }
  }
  const std::vector<PlanSearch> searches = FindPlanSearches(builder.Build());
  ASSERT_EQ(searches.size(), 1u);
  EXPECT_EQ(searches[0].candidates[0].elapsed_ns, 70);
  EXPECT_EQ(searches[0].candidates[0].host_ns, 500);
  EXPECT_EQ(searches[0].candidates[0].time_ns(), 70);
  EXPECT_EQ(searches[0].candidates[1].elapsed_ns, std::nullopt);  // the query failed
  EXPECT_EQ(searches[0].candidates[1].time_ns(), 500);
}

TEST(AutotuningTest, AProgramThatKeepsItsPackStaysWithTheWinner) {
  PlanProgram program;
  program.Execute(1, false);
  program.Execute(2, true);
  program.Execute(3, true);
  for (int i = 0; i < 5; ++i) program.Execute(2, true);
  const std::vector<PlanSearch> searches = Searches(program);
  ASSERT_EQ(searches.size(), 1u);
  EXPECT_EQ(searches[0].winner, 1u);
  EXPECT_EQ(searches[0].candidates[1].calls.size(), 1u);
  EXPECT_EQ(searches[0].end_ns, 2100);
}

TEST(AutotuningTest, AnotherProblemDoesNotHideThatItStayedWithTheWinner) {
  PlanProgram program;
  program.Execute(1, false);
  program.Execute(2, true);
  program.Execute(1, true);
  program.Execute({.number = 3, .engine = 3, .batch = 16});
  program.Execute(1, true);
  const std::vector<PlanSearch> searches = Searches(program);
  ASSERT_EQ(searches.size(), 1u);
  EXPECT_EQ(searches[0].winner, 0u);
  EXPECT_EQ(searches[0].candidates[0].calls.size(), 1u);
}

TEST(AutotuningTest, AWinnerIsKnownWhereverItsPackWasSeen) {
  PlanProgram program;
  program.Execute(1, false);
  program.Execute(2, true);
  program.Execute({.number = 3, .engine = 3, .batch = 16});
  program.Execute(1, true);
  EXPECT_EQ(Searches(program).at(0).winner, 0u);
}

TEST(AutotuningTest, TwoRoundsBeforeAFreshPackAreAllTrials) {
  PlanProgram program;
  for (int i = 0; i < 4; ++i) program.Execute(1 + i % 2, i > 0);
  program.Execute(1, false);
  const std::vector<PlanSearch> searches = Searches(program);
  ASSERT_EQ(searches.size(), 1u);
  EXPECT_EQ(searches[0].winner, 0u);
  EXPECT_EQ(searches[0].candidates[1].calls.size(), 2u);
}

TEST(AutotuningTest, AWinnerBuiltOnceMoreIsKnownByItsEngine) {
  PlanProgram program;
  program.Execute(1, false);
  program.Execute(2, true);
  program.Execute({.number = 9, .engine = 20});
  EXPECT_EQ(Searches(program).at(0).winner, 1u);
}

TEST(AutotuningTest, APlanThatWasNotTriedIsNoWinner) {
  PlanProgram program;
  program.Execute(1, false);
  program.Execute(2, true);
  program.Execute({.number = 9, .engine = 77});
  EXPECT_EQ(Searches(program).at(0).winner, std::nullopt);
}

TEST(AutotuningTest, CapturedExecutionsAreNoTrials) {
  PlanProgram program;
  for (int plan = 1; plan <= 2; ++plan) {
    trace::OpDefinition definition = PlanDefinition({.number = plan, .engine = plan, .pack_seen_before = plan > 1});
    definition.set_captured(true);
    program.builder().Call(program.builder().AddOp(definition), plan * 1000, 100);
  }
  EXPECT_TRUE(Searches(program).empty());
}

// Choosers of all executions that are not trials, in order of time.
std::vector<Chooser> Choosers(TraceModel model) {
  ResolveChoices(&model);
  std::vector<Chooser> choosers;
  for (OpIndex index : model.calls.op) {
    const Op& op = model.ops[index];
    if (!op.is_trial && op.subject.empty() && op.family != "cuda_sync") choosers.push_back(op.chooser);
  }
  return choosers;
}

using ChooserList = std::vector<Chooser>;

TEST(ChoicesTest, TrialsGetOpsOfTheirOwn) {
  PlanProgram program;
  program.Benchmark(2, 1);
  program.Execute(1, false);
  TraceModel model = program.builder().Build();
  ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  int64_t trials = 0, trial_ns = 0, uses = 0;
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    if (!IsPlanExecution(model.ops[i])) continue;
    (model.ops[i].is_trial ? trials : uses) += totals.ops[i].calls;
    trial_ns += model.ops[i].is_trial ? totals.ops[i].wall_share_ns : 0;
  }
  EXPECT_EQ(trials, 4);
  EXPECT_EQ(trial_ns, 400);
  EXPECT_EQ(uses, 2);
}

TEST(ChoicesTest, AWinnerIsProfiledOthersAreAsRecorded) {
  PlanProgram program;
  program.Execute({.number = 7, .engine = 7, .batch = 32});
  program.Benchmark(2, 1);
  program.Execute(1, false);
  EXPECT_EQ(Choosers(program.builder().Build()),
            (ChooserList{Chooser::kHeuristic, Chooser::kProfiled, Chooser::kProfiled}));
}

TEST(ChoicesTest, PlansAfterFailuresAndOfTheFallbackHeuristicsAreFallbacks) {
  PlanProgram program;
  program.Execute({.number = 1, .engine = 1, .failed_before = 2});
  program.Execute({.number = 2, .engine = 2, .batch = 16, .heuristic_mode = 2});
  EXPECT_EQ(Choosers(program.builder().Build()), (ChooserList{Chooser::kFallback, Chooser::kFallback}));
}

TEST(ChoicesTest, LegacyConvolutionsAreAsTheSearchBeforeThem) {
  ModelBuilder builder;
  const OpIndex algorithm_1 = builder.AddOp(LegacyDefinition(1));
  const OpIndex algorithm_6 = builder.AddOp(LegacyDefinition(6));
  const OpIndex get = builder.AddOp(SearchDefinition(false, "candidate { algorithm: 6 } candidate { algorithm: 1 }"));
  const OpIndex find = builder.AddOp(
      SearchDefinition(true, "candidate { algorithm: 1 time_ns: 900 } candidate { algorithm: 6 status: 8 }"));
  builder.Call(algorithm_1, 0, 10);  // fixed: there was no query
  builder.Call(get, 100, 10);
  builder.Call(algorithm_1, 200, 10);  // heuristic
  builder.Call(find, 300, 10);
  builder.Call(algorithm_1, 400, 10);  // profiled
  builder.Call(algorithm_6, 500, 10);  // Find could not use it: still the heuristics'
  EXPECT_EQ(Choosers(builder.Build()),
            (ChooserList{Chooser::kFixed, Chooser::kHeuristic, Chooser::kProfiled, Chooser::kHeuristic}));
}

TEST(ChoicesTest, ASearchInAnotherProcessDecidesNothing) {
  ModelBuilder builder;
  const ThreadIndex other = builder.AddThread(builder.AddProcess());
  builder.Call(builder.AddOp(SearchDefinition(true, "candidate { algorithm: 1 time_ns: 9 }")), 0, 10, other);
  const OpIndex convolution = builder.AddOp(LegacyDefinition(1));
  builder.Call(convolution, 100, 10);
  builder.Call(convolution, 100, 10, other);
  EXPECT_EQ(Choosers(builder.Build()), (ChooserList{Chooser::kFixed, Chooser::kProfiled}));
}

TEST(ChoicesTest, WhatASearchDecidedIsTheNextExecution) {
  ModelBuilder builder;
  const OpIndex find = builder.AddOp(SearchDefinition(true, "candidate { algorithm: 1 }"));
  const OpIndex convolution = builder.AddOp(LegacyDefinition(1));
  builder.Call(find, 0, 10);
  builder.Call(find, 100, 10);
  builder.Call(convolution, 200, 10);
  builder.Call(find, 300, 10);
  TraceModel model = builder.Build();
  const Choices choices = ResolveChoices(&model);
  ASSERT_EQ(choices.algorithm_searches.size(), 3u);
  EXPECT_EQ(choices.algorithm_searches[0].next_execution, std::nullopt);
  EXPECT_EQ(choices.algorithm_searches[1].next_execution, convolution);
  EXPECT_EQ(choices.algorithm_searches[2].next_execution, std::nullopt);
}

class GemmFallbackTest : public ::testing::Test {
 protected:
  OpIndex Lt() { return builder_.AddOp(CudaGemmDefinition("cublasLtMatmul", 64, 32, 16, "chooser: HEURISTIC")); }
  OpIndex Gemm(int64_t m = 64) {
    return builder_.AddOp(CudaGemmDefinition("cublasSgemm_v2", m, 32, 16, "chooser: LIBRARY"));
  }
  OpIndex Ask(int results) {
    return builder_.AddOp(CudaGemmDefinition("cublasLtMatmulAlgoGetHeuristic", 64, 32, 16,
                                             "heuristic_requested: 1 heuristic_results: " + std::to_string(results),
                                             "kind: HEURISTIC"));
  }
  ModelBuilder builder_;
};

TEST_F(GemmFallbackTest, AProductAfterItsLtCallFailed) {
  builder_.Call(Lt(), 0, 10, 0, 15);
  builder_.Call(Gemm(), 100, 10);
  builder_.Call(Gemm(), 200, 10);
  TraceModel model = builder_.Build();
  const Choices choices = ResolveChoices(&model);
  ASSERT_EQ(choices.fallbacks.size(), 1u);
  EXPECT_EQ(choices.fallbacks[0].status, 15);
  EXPECT_EQ(choices.fallbacks[0].calls, 1);
  EXPECT_EQ(model.ops[choices.fallbacks[0].refused].function, "cublasLtMatmul");
  EXPECT_EQ(model.ops[model.calls.op[1]].chooser, Chooser::kFallback);
  EXPECT_EQ(model.ops[model.calls.op[2]].chooser, Chooser::kLibrary);
}

TEST_F(GemmFallbackTest, AProductForWhichNothingWasOffered) {
  builder_.Call(Ask(0), 0, 10);
  builder_.Call(Gemm(), 100, 10);
  TraceModel model = builder_.Build();
  const Choices choices = ResolveChoices(&model);
  ASSERT_EQ(choices.fallbacks.size(), 1u);
  EXPECT_EQ(choices.fallbacks[0].status, 0);
}

TEST_F(GemmFallbackTest, OtherProductsThreadsAndSuccessAreNone) {
  const ThreadIndex other = builder_.AddThread();
  builder_.Call(Lt(), 0, 10, 0, 15);
  builder_.Call(Gemm(), 100, 10, other);
  builder_.Call(Gemm(9), 100, 10);
  builder_.Call(Gemm(), 200, 10);  // another product in between
  builder_.Call(Ask(1), 300, 10);
  builder_.Call(Lt(), 400, 10);
  builder_.Call(Gemm(), 500, 10);
  TraceModel model = builder_.Build();
  EXPECT_TRUE(ResolveChoices(&model).fallbacks.empty());
}

TEST_F(GemmFallbackTest, AFailureInsideAProductIsThatProductsOwn) {
  builder_.Call(Gemm(), 0, 100);
  builder_.Call(Lt(), 10, 10, 0, 15);
  builder_.Call(Gemm(), 200, 10);
  TraceModel model = builder_.Build();
  EXPECT_TRUE(ResolveChoices(&model).fallbacks.empty());
}

}  // namespace
}  // namespace dlhook::analyzer
