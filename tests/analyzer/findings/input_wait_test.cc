// Rule input-wait: how many workers help, by who was late and which processors are there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/builders/gpu_program.h"

namespace dlhook::analyzer {
namespace input_wait_test {

using testing::HasSubstr;

constexpr int kSteps = 40;
constexpr int64_t kMs = 1'000'000;

struct Spec {
  int64_t input_ms = 30;  // of a step of 40 ms
  double cpu = 1;         // threads of the program that run
  uint32_t processors = 2;
};

// The gain in milliseconds, and the advice.
std::pair<int64_t, std::string> Found(const Spec& spec) {
  GpuProgram program;
  ModelBuilder& builder = program.builder();
  const OpIndex product = builder.AddOp(GemmDefinition(64, 64, 64, "NN"));
  std::vector<int64_t> starts = {0};
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at_ns = step * 40 * kMs;
    program.Scope("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at_ns, at_ns + spec.input_ms * kMs);
    builder.Call(product, at_ns + spec.input_ms * kMs, (40 - spec.input_ms) * kMs);
    starts.push_back(at_ns + 40 * kMs);
    LoadSample sample;
    sample.time_ns = at_ns;
    sample.cpu_ns = static_cast<int64_t>(spec.cpu * static_cast<double>(at_ns));
    sample.processors = spec.processors;
    builder.model().loads.push_back(sample);
  }
  builder.model().processes.front().processors = spec.processors;
  program.Steps(starts);
  program.Build(kSteps * 40 * kMs);
  const Table table = program.Make(ReportTables().front());
  const std::vector<size_t> rows = RowsWhere(table, {{"rule", "input-wait"}});
  if (rows.size() != 1) return {};
  return {(Integer(table, rows[0], "gain") + kMs / 2) / kMs, Text(table, rows[0], "advice")};
}

TEST(InputWait, WhatSleepsNeedsNoProcessors) {
  const auto [gain_ms, advice] = Found({.cpu = 0.25});
  EXPECT_EQ(gain_ms, 30);
  EXPECT_THAT(advice, HasSubstr("num_workers=3,"));
}

TEST(InputWait, WhatComputesGetsTheProcessorsThatAreThere) {
  const auto [gain_ms, advice] = Found({.cpu = 1});
  EXPECT_EQ(gain_ms, 20) << "40 ms of processor time on two processors";
  EXPECT_THAT(advice, HasSubstr("num_workers=2,"));
  EXPECT_THAT(advice, HasSubstr("then all processors (2) compute"));
}

TEST(InputWait, WithoutFreeProcessorsWorkersDoNotHelp) {
  const auto [gain_ms, advice] = Found({.cpu = 1, .processors = 1});
  EXPECT_EQ(gain_ms, 30) << "at most all of the wait, by less work";
  EXPECT_THAT(advice, HasSubstr("More workers do not help, as all processors (1) compute"));
}

TEST(InputWait, WorkersAreNotWithoutNumber) {
  const auto [gain_ms, advice] = Found({.input_ms = 39, .cpu = 0.1});
  EXPECT_THAT(advice, HasSubstr("num_workers=16,"));
  EXPECT_EQ(gain_ms, 38) << "39 ms in 16 workers are 2.4 ms a batch";
}

TEST(InputWait, LittleOfItIsNone) { EXPECT_EQ(Found({.input_ms = 1}).second, ""); }

}  // namespace input_wait_test
}  // namespace dlhook::analyzer
