// Sentences and columns of the answer screen that the golden runs do not have.
#include "analyzer/answer/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/answer/sentences.h"
#include "tests/analyzer/builders/gpu_program.h"
#include "tests/analyzer/layers/linear_training.h"

namespace dlhook::analyzer {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string AnswerOf(TraceModel model, size_t width = 80) {
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model);
  const StepFacts facts(model, {.choices = &choices, .totals = &totals, .analysis = &analysis});
  return MakeAnswer(facts, {.run = "RUN", .width = width}).value();
}

TEST(AnswerTest, SaysHowManyMuchLongerStepsWereLeftOut) {
  EXPECT_THAT(AnswerOf(LinearTraining({.steps = 30, .wait = {20, 1'000'000}})),
              ContainsRegex("4\\s+rows \\(samples, or their tokens\\): 5128205 rows/s\\. Left out: 1 much "
                            "longer\\s+step\\s+of\\s+1\\.00 ms\\."));
  EXPECT_THAT(AnswerOf(LinearTraining({.steps = 30})), Not(HasSubstr("Left out")));
}

TEST(AnswerTest, SaysHowLongValidationTook) {
  EXPECT_THAT(AnswerOf(LinearTraining({.steps = 30, .validations = 6})),
              ContainsRegex("6\\s+validation\\s+steps\\s+took"));
  EXPECT_THAT(AnswerOf(LinearTraining({.steps = 30})), Not(HasSubstr("validation")));
}

TEST(AnswerTest, WideTerminalsShowTheRangeOfRepeatedLayers) {
  const TraceModel model =
      LinearTraining({.steps = 30, .layers = {"block.0.fc", "block.1.fc", "block.2.fc", "block.3.fc"}});
  EXPECT_THAT(AnswerOf(model), Not(HasSubstr("of one layer")));
  EXPECT_THAT(AnswerOf(model, 120), ContainsRegex("block\\.\\*\\.fc x4 .* [0-9]+ ns to [0-9]+ ns\n"));
}

TEST(AnswerTest, SaysHowBusyGpusAre) {
  GpuProgram program;
  program.Steps({0, 1000, 2000, 3000});
  for (int64_t start_ns : {0, 1000, 2000}) program.Work({.start_ns = start_ns + 100, .end_ns = start_ns + 700});
  program.Build(3000);
  const TableKind remarks = {"remarks", "", [](const TraceModel& model, const TableOptions& options) {
                               Table table;
                               table.notes = StepRemarks(StepFacts(model, options));
                               return absl::StatusOr<Table>(table);
                             }};
  EXPECT_THAT(program.Make(remarks).notes, ElementsAre(HasSubstr("GPUs are busy 60 % of the time")));
}

}  // namespace
}  // namespace dlhook::analyzer
