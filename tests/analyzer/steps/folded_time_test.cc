// Time folded by what pieces are: every sum that a table may ask for is that of the pieces themselves.
#include "analyzer/analysis/folded_time.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/analyzer/builders/model_builder.h"
#include "tests/analyzer/builders/one_processor.h"

namespace dlhook::analyzer {
namespace folded_time_test {

// Two threads that do the same things again and again, for random times; only one of them is in steps of its own.
class RecurringRun {
 public:
  explicit RecurringRun(uint32_t seed) : random_(seed) {
    gemm_ = builder_.AddOp(GemmDefinition(8, 8, 8, "NN"));
    synchronize_ = builder_.AddOp(Definition("function: 'cudaStreamSynchronize' family: 'cuda_sync'"));
    for (uint32_t line : {7, 8}) stacks_.push_back(builder_.AddStack({{"train.py", "<module>", line}}));
    builder_.AddThread();
    for (ThreadIndex thread : {0, 1}) {
      now_ns_ = 5;
      StepTrack& track = tracks_.emplace_back();
      track.thread = thread;
      for (int step = 0; step < kSteps; ++step) AddStep(track);
    }
    model = builder_.Build(now_ns_ + 100);
    Attribution attribution;
    for (CallIndex call = 0; call < model.calls.size(); ++call) attribution.of_call.push_back(AnyPlace());
    for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) attribution.of_scope.push_back(AnyPlace());
    attribution.layers.resize(2);
    analysis.emplace(model, std::move(attribution), tracks_);
  }

  TraceModel model;
  std::optional<LayerAnalysis> analysis;

 private:
  static constexpr int kSteps = 30;

  bool Chance(uint32_t of) { return random_() % of == 0; }
  int64_t Tick() { return now_ns_ += 1 + static_cast<int64_t>(random_() % 20); }
  Place AnyPlace() { return {static_cast<LayerIndex>(random_() % 2), static_cast<LayerDirection>(random_() % 3)}; }

  void AddStep(StepTrack& track) {
    Step step;
    step.start_ns = Tick();
    step.kind = Chance(4) ? StepKind::kValidation : StepKind::kTraining;
    step.is_warm_up = Chance(4);
    step.is_regular = !Chance(4);
    step.has_scopes = !Chance(4);
    step.sort = Chance(3) ? "Net #2" : "";
    step.left_out = Chance(8) ? LeftOut::kMuchLonger : LeftOut::kNot;
    for (PhaseKind phase : {PhaseKind::kForward, PhaseKind::kBackward}) {
      const int64_t start_ns = Tick();
      Work(track.thread, "aten::conv2d", ScopeKind::kFrameworkOp, 2);
      Work(track.thread, "Optimizer.step#SGD.step", ScopeKind::kUserRange, 2);
      step.phases.push_back({start_ns, Tick(), phase});
    }
    Work(track.thread, "enumerate(DataLoader)#x", ScopeKind::kUserRange, 1);
    step.end_ns = Tick();
    track.steps.push_back(step);
  }

  void Work(ThreadIndex thread, const std::string& name, ScopeKind kind, int depth) {
    const int64_t start_ns = Tick();
    if (depth > 0 && !Chance(4)) Work(thread, Chance(2) ? "aten::add" : name, ScopeKind::kFrameworkOp, depth - 1);
    if (Chance(2)) {
      const int64_t call_ns = Tick();
      builder_.Call(Chance(3) ? synchronize_ : gemm_, call_ns, Tick() - call_ns, thread);
      if (Chance(3)) builder_.StackOfLastCall(stacks_[1]);
    }
    builder_.Scope(name, kind, start_ns, Tick() - start_ns, thread, -1, stacks_[random_() % 2]);
  }

  std::mt19937 random_;
  ModelBuilder builder_;
  OpIndex gemm_ = 0, synchronize_ = 0;
  std::vector<StackIndex> stacks_;
  std::vector<StepTrack> tracks_;
  int64_t now_ns_ = 0;
};

std::string PlaceText(const Place& place) { return absl::StrCat(place.layer, "-", static_cast<int>(place.direction)); }

std::string ScopesAround(const RecurringRun& run, ScopeIndex scope) {
  const TraceModel& model = run.model;
  std::string text;
  for (; scope != kNone; scope = model.scopes.parent[scope]) {
    absl::StrAppend(&text, model.names[model.scopes.look[scope].name], ",",
                    static_cast<int>(model.scopes.look[scope].kind), ",", model.scopes.look[scope].stack, ",",
                    PlaceText(run.analysis->attribution().of_scope[scope]), " ");
  }
  return text;
}

std::string CallText(const RecurringRun& run, CallIndex call) {
  const Place& place = run.analysis->attribution().of_call[call];
  return absl::StrCat(run.model.calls.op[call], " ", PlaceText(place), " ", run.model.PythonStackOf(call), " in ",
                      ScopesAround(run, run.model.calls.ScopeOf(call)));
}

// All that a table may ask of a piece, in words.
std::string WordsOf(const RecurringRun& run, const ComparedSteps& main, const TimePiece& piece) {
  std::string text = absl::StrCat(static_cast<int>(piece.kind), " of ", piece.thread, ": ");
  const auto is_in = [&](const auto& span) { return span.start_ns <= piece.start_ns && piece.start_ns < span.end_ns; };
  for (const StepTrack& track : main.tracks) {
    for (const Step& step : track.steps) absl::StrAppend(&text, is_in(step) ? "main " : "");
  }
  for (const StepTrack& track : run.analysis->steps()) {
    for (const Step& step : track.steps) {
      if (!is_in(step)) continue;
      absl::StrAppend(&text, track.thread, " ", StepName(step.kind, step.sort), LeftOutName(step.left_out), " ");
      for (const PhaseInterval& phase : step.phases)
        absl::StrAppend(&text, is_in(phase) ? PhaseKindName(phase.kind) : "");
    }
  }
  if (piece.kind == ActivityKind::kCall || piece.kind == ActivityKind::kWaiting) {
    absl::StrAppend(&text, CallText(run, piece.index));
  } else if (piece.kind == ActivityKind::kScope || piece.kind == ActivityKind::kDataLoading) {
    absl::StrAppend(&text, ScopesAround(run, piece.index));
  } else if (piece.kind == ActivityKind::kNotSeen) {
    absl::StrAppend(&text, piece.gap.before, "-", piece.gap.after, " ", ScopesAround(run, piece.gap.around));
  }
  return text;
}

std::vector<int64_t> AllBoundaries(const RecurringRun& run) {
  std::vector<int64_t> boundaries;
  for (const StepTrack& track : run.analysis->steps()) {
    for (const Step& step : track.steps) {
      boundaries.insert(boundaries.end(), {step.start_ns, step.end_ns});
      for (const PhaseInterval& phase : step.phases)
        boundaries.insert(boundaries.end(), {phase.start_ns, phase.end_ns});
    }
  }
  std::sort(boundaries.begin(), boundaries.end());
  return boundaries;
}

TEST(FoldedTime, HasTheSumsOfThePieces) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const RecurringRun run(seed);
    const FoldedTime& folded = FoldedTime::Of(run.model, *run.analysis);
    const ComparedSteps& main = folded.main_steps();
    EXPECT_GT(main.count(), 2);
    std::map<std::string, int64_t> expected, found;
    size_t pieces = 0, folded_pieces = 0;
    DivideTime(run.model, 0, AllBoundaries(run), [&](const TimePiece& piece) {
      expected[WordsOf(run, main, piece)] += piece.share_ns;
      ++pieces;
    });
    int64_t last_ns = 0;
    folded.ForEach(0, [&](const TimePiece& piece) {
      found[WordsOf(run, main, piece)] += piece.share_ns;
      EXPECT_GE(piece.start_ns, last_ns);
      last_ns = piece.start_ns;
      ++folded_pieces;
    });
    EXPECT_EQ(found, expected) << seed;
    EXPECT_EQ(folded_pieces, found.size()) << seed;
    EXPECT_LT(folded_pieces, pieces);
  }
}

// Everything of the pieces, in their order.
std::string AllOf(const RecurringRun& run) {
  const LayerAnalysis again(run.model, run.analysis->attribution(), run.analysis->steps());
  std::string text;
  FoldedTime::Of(run.model, again).ForEach(0, [&](const TimePiece& piece) {
    absl::StrAppend(&text, piece.start_ns, " ", piece.end_ns, " ", piece.share_ns, " ", static_cast<int>(piece.kind),
                    " ", piece.index, " ", piece.thread, " ", piece.gap.around, "\n");
  });
  return text;
}

TEST(FoldedTime, IsTheSameOnOneProcessor) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const RecurringRun run(seed);
    const std::string on_all = AllOf(run);
    const OneProcessor one;
    EXPECT_EQ(AllOf(run), on_all) << seed;
  }
}

TEST(FoldedTime, CountsScopesWhereTheyBegin) {
  for (uint32_t seed = 0; seed < 5; ++seed) {
    const RecurringRun run(seed);
    const FoldedTime& folded = FoldedTime::Of(run.model, *run.analysis);
    const auto words_of = [&](ScopeIndex scope) {
      TimePiece piece;
      piece.kind = ActivityKind::kScope;
      piece.start_ns = run.model.scopes.start_ns[scope];
      piece.thread = run.model.scopes.thread[scope];
      piece.index = scope;
      return WordsOf(run, folded.main_steps(), piece);
    };
    std::map<std::string, int64_t> expected, found;
    for (ScopeIndex scope = 0; scope < run.model.scopes.size(); ++scope) ++expected[words_of(scope)];
    folded.ForEachScope(
        0, [&](ScopeIndex scope, int64_t count) { EXPECT_TRUE(found.try_emplace(words_of(scope), count).second); });
    EXPECT_EQ(found, expected);
  }
}

#ifndef __SANITIZE_ADDRESS__  // ten times slower
TEST(FoldedTime, PiecesThatAllDifferComeAsTheyAre) {
  constexpr int kScopes = 140'000;
  ModelBuilder builder;
  std::vector<StackIndex> stacks;
  for (uint32_t i = 0; i < 400; ++i) stacks.push_back(builder.AddStack({{"train.py", "<module>", i}}));
  for (int i = 0; i < kScopes; ++i) {
    builder.Scope(absl::StrCat("op", i / 400), ScopeKind::kFrameworkOp, 10 * i, 10, 0, -1, stacks[i % 400]);
  }
  const TraceModel model = builder.Build();
  const LayerAnalysis analysis(model);
  for (int round = 0; round < 2; ++round) {
    ScopeIndex next = 0;
    FoldedTime::Of(model, analysis).ForEach(0, [&](const TimePiece& piece) {
      EXPECT_EQ(piece.index, next++);
      EXPECT_EQ(piece.share_ns, 10);
    });
    EXPECT_EQ(next, kScopes);
    FoldedTime::Of(model, analysis).ForEachScope(0, [&](ScopeIndex scope, int64_t count) { next -= count; });
    EXPECT_EQ(next, 0u);
  }
}
#endif

}  // namespace folded_time_test
}  // namespace dlhook::analyzer
