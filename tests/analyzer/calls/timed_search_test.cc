// Autotuning recognized by operands and events: choices.h.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/calls/choices.h"
#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace timed_search_test {

// Like XLA: a pack for every execution, so only operands and events identify a search.
class TimedProgram {
 public:
  static constexpr uint64_t kSameOperands = 0x1000;

  // Executions of plan N run engine 10 * N; one per 1000 ns.
  void Execute(int plan, uint64_t operands = kSameOperands, int64_t batch = 8, int32_t status = 0) {
    const PlanCall call = {.number = plan, .engine = plan * 10, .batch = batch};
    Execute(PlanDefinition(call), operands, status);
  }
  void Execute(const trace::OpDefinition& definition, uint64_t operands, int32_t status = 0) {
    now_ns_ += 1000;
    builder_.Call(builder_.AddOp(definition), now_ns_, 100, thread, status, {operands, operands + 64, operands + 128});
  }
  void RecordEvent() { Call("cuEventRecord", "cuda_stream", 200); }
  void Wait() { Call("cuEventSynchronize", "cuda_sync", 300); }
  void AskTime(int64_t elapsed_ns) {
    Call("cuEventElapsedTime", "cuda_stream", 400, {static_cast<uint64_t>(elapsed_ns)});
  }
  void Try(int plan, int64_t elapsed_ns, uint64_t operands = kSameOperands, int64_t batch = 8) {
    Execute(plan, operands, batch);
    RecordEvent();
    Wait();
    AskTime(elapsed_ns);
  }
  void Call(const std::string& function, const std::string& family, int64_t at_ns,
            std::vector<uint64_t> operands = {}) {
    builder_.Call(builder_.AddOp(TimedDefinition(function, family)), now_ns_ + at_ns, 50, thread, 0,
                  std::move(operands));
  }
  void Multiply() {
    builder_.Call(builder_.AddOp(CudaGemmDefinition("cublasSgemm_v2", 8, 8, 8, "")), now_ns_ + 500, 50, thread);
  }
  ModelBuilder& builder() { return builder_; }

  ThreadIndex thread = 0;

 private:
  ModelBuilder builder_;
  int64_t now_ns_ = 0;
};

// Engine and number of trials of each candidate, and the winner's engine.
std::string Text(const PlanSearch& search, const TraceModel& model) {
  const auto engine = [&](size_t i) {
    const std::string& configuration = model.ops[search.candidates[i].op].plan()->configuration;
    return configuration.substr(0, configuration.find(' '));
  };
  std::string text;
  for (size_t i = 0; i < search.candidates.size(); ++i) {
    absl::StrAppend(&text, engine(i), "*", search.candidates[i].calls.size(), "@",
                    search.candidates[i].time_ns().value_or(-1), " ");
  }
  return absl::StrCat(text, "-> ", search.winner ? engine(*search.winner) : "?");
}

std::vector<std::string> Texts(const TraceModel& model) {
  std::vector<std::string> texts;
  for (const PlanSearch& search : FindPlanSearches(model)) texts.push_back(Text(search, model));
  return texts;
}

std::vector<std::string> Texts(TimedProgram& program) { return Texts(program.builder().Build()); }

using TextList = std::vector<std::string>;

TEST(TimedSearchTest, XlasCandidatesBetweenEvents) {
  TimedProgram program;
  program.Try(1, 500);
  program.Try(2, 300);
  program.Try(3, 400);
  program.Execute(2);  // with the operands of the trials
  for (int i = 1; i < 4; ++i) program.Execute(2, 0x9000 + 0x1000 * static_cast<uint64_t>(i));
  const TraceModel model = program.builder().Build();
  const std::vector<PlanSearch> searches = FindPlanSearches(model);
  ASSERT_EQ(searches.size(), 1u);
  EXPECT_EQ(searches[0].start_ns, 1000);
  EXPECT_EQ(searches[0].end_ns, 3350);
  EXPECT_EQ(searches[0].candidates[1].elapsed_ns, 300);
  EXPECT_EQ(searches[0].candidates[1].host_ns, 350);
  EXPECT_EQ(Texts(model), TextList{"10*1@500 20*1@300 30*1@400 -> 20"});
}

TEST(TimedSearchTest, ExecutionsToWarmUpAreTrials) {
  TimedProgram program;
  for (int plan = 1; plan <= 2; ++plan) {
    program.Execute(plan);
    program.Try(plan, 500 - plan);
    program.Try(plan, 700);
  }
  for (int i = 0; i < 3; ++i) program.Execute(2);
  EXPECT_EQ(Texts(program), TextList{"10*3@499 20*3@498 -> 20"});
}

TEST(TimedSearchTest, AnEventAndWaitingForItAreEnough) {
  TimedProgram program;
  for (int plan = 1; plan <= 2; ++plan) {
    program.Execute(plan);
    program.RecordEvent();
    program.Wait();
  }
  program.Execute(1, 0x8000);
  EXPECT_EQ(Texts(program), TextList{"10*1@350 20*1@350 -> 10"});
}

TEST(TimedSearchTest, WaitingOnlyOrAnEventOnlyIsNotTiming) {
  TimedProgram waits, records, waits_first;
  for (int i = 0; i < 6; ++i) {
    for (TimedProgram* program : {&waits, &records, &waits_first}) program->Execute(1 + i % 2);
    waits.Wait();
    records.RecordEvent();
    waits_first.Call("cuStreamSynchronize", "cuda_sync", 100);
    waits_first.RecordEvent();  // the beginning of the next one
  }
  EXPECT_EQ(Texts(waits), TextList());
  EXPECT_EQ(Texts(records), TextList());
  EXPECT_EQ(Texts(waits_first), TextList());
}

TEST(TimedSearchTest, WhereTimesAreAskedWaitingIsUse) {
  TimedProgram program;
  program.Try(1, 300);
  program.Try(2, 200);
  for (int i = 0; i < 3; ++i) {
    program.Execute(2);
    program.RecordEvent();
    program.Wait();
  }
  EXPECT_EQ(Texts(program), TextList{"10*1@300 20*1@200 -> 20"});
}

TEST(TimedSearchTest, APlanThatIsNotTimedEndsIt) {
  TimedProgram program;
  program.Try(1, 300);
  program.Try(2, 200);
  program.Execute(3);
  program.Try(1, 300);
  EXPECT_EQ(Texts(program), TextList{"10*1@300 20*1@200 -> ?"});
}

TEST(TimedSearchTest, PlansInTurnWithoutTimesAreNoSearch) {
  TimedProgram program;
  for (int i = 0; i < 8; ++i) program.Execute(1 + i % 2);
  EXPECT_EQ(Texts(program), TextList());
}

TEST(TimedSearchTest, OnePlanThatIsTimedIsNoSearch) {
  TimedProgram program;
  for (int i = 0; i < 4; ++i) program.Try(1, 300);
  program.Execute(2);
  EXPECT_EQ(Texts(program), TextList());
}

TEST(TimedSearchTest, OtherOrUnknownOperandsAreNoSearch) {
  TimedProgram others, unknown;
  for (int plan = 1; plan <= 4; ++plan) {
    others.Try(plan, 300, 0x1000 * static_cast<uint64_t>(plan));
    unknown.Try(plan, 300, 0);
  }
  EXPECT_EQ(Texts(others), TextList());
  EXPECT_EQ(Texts(unknown), TextList());
}

TEST(TimedSearchTest, NotAcrossAnotherProblemOrThread) {
  TimedProgram problems, products, threads;
  const ThreadIndex other = threads.builder().AddThread();
  for (int plan = 1; plan <= 2; ++plan) {
    problems.Try(plan, 300);
    problems.Try(3, 300, TimedProgram::kSameOperands, 16);
    products.Try(plan, 300);
    products.Multiply();
    threads.Try(plan, 300);
    threads.thread = other;
  }
  EXPECT_EQ(Texts(problems), TextList());
  EXPECT_EQ(Texts(products), TextList());
  EXPECT_EQ(Texts(threads), TextList());
}

TEST(TimedSearchTest, CapturedExecutionsAreNoTrials) {
  TimedProgram program;
  for (int plan = 1; plan <= 2; ++plan) {
    trace::OpDefinition definition = PlanDefinition({.number = plan, .engine = plan});
    definition.set_captured(true);
    program.Execute(definition, TimedProgram::kSameOperands);
    program.RecordEvent();
    program.Wait();
    program.AskTime(300);
  }
  EXPECT_EQ(Texts(program), TextList());
}

TEST(TimedSearchTest, APlanThatCannotBeExecutedIsPassedOver) {
  TimedProgram program;
  program.Try(1, 300);
  program.Execute(2, TimedProgram::kSameOperands, 8, 5000);
  program.Try(3, 200);
  program.Execute(4, TimedProgram::kSameOperands, 8, 5000);
  program.Execute(3);
  EXPECT_EQ(Texts(program), TextList{"10*1@300 20*1@-1 30*1@200 40*1@-1 -> 30"});
}

TEST(TimedSearchTest, AFailureAfterATimedPlanIsNoSearch) {
  TimedProgram program;
  program.Try(1, 300);
  program.Execute(2, TimedProgram::kSameOperands, 8, 5000);
  program.Execute(1);
  EXPECT_EQ(Texts(program), TextList());
}

TEST(TimedSearchTest, ASearchBesideOneByItsPack) {
  TimedProgram program;
  program.Try(1, 300);
  program.Try(2, 200);
  for (int plan = 3; plan <= 5; ++plan) {
    const PlanCall call = {.number = plan, .engine = plan * 10, .pack_seen_before = plan > 3};
    program.Execute(PlanDefinition(call), TimedProgram::kSameOperands);
  }
  program.Execute(2);
  EXPECT_EQ(Texts(program), (TextList{"10*1@300 20*1@200 -> 20", "30*1@-1 40*1@-1 50*1@-1 -> ?"}));
}

TEST(TimedSearchTest, AProgramThatTimesEverythingStaysWithTheWinner) {
  TimedProgram program;
  program.Try(1, 200);
  program.Try(2, 300);
  for (int i = 0; i < 5; ++i) program.Try(1, 210);
  EXPECT_EQ(Texts(program), TextList{"10*1@200 20*1@300 -> 10"});
}

}  // namespace timed_search_test
}  // namespace dlhook::analyzer
