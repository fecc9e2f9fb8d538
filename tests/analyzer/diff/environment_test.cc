// The environments of two sides, reported only if they differ.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/diff/difference.h"

namespace dlhook::analyzer {
namespace {

TraceModel Machine() {
  TraceModel model;
  ProcessInfo& process = model.processes.emplace_back();
  process.tool_version = "1.0";
  process.processors = 2;
  process.processor.name = "EPYC";
  process.settings = {{"OMP_NUM_THREADS", "2"}};
  Mapping& mapping = process.mappings.emplace_back();
  mapping.path = "/lib/libtorch_cpu.so";
  mapping.build_id = "abc";
  process.capabilities = {
      {"python-frames", CapabilityState::kOn, "", "Python 3.11.7"},
      {"record-function-tap", CapabilityState::kOn, "libtorch_cpu.so", "PyTorch 2.13; light: some"}};
  return model;
}

MachineLoad Load(uint32_t threads) {
  MachineLoad load;
  load.is_known = threads != 0;
  load.threads = threads;
  return load;
}

std::string Text(const TraceModel& base, const TraceModel& new_side, uint32_t before = 0, uint32_t after = 0) {
  return EnvironmentText(
      EnvironmentDifferences(EnvironmentOf(base, Load(before)), EnvironmentOf(new_side, Load(after))));
}

TEST(EnvironmentTest, SaysNothingOfWhatIsEqual) { EXPECT_EQ(Text(Machine(), Machine(), 4, 4), ""); }

TEST(EnvironmentTest, ReleasesComeFirstThenTheMachineAndSettings) {
  TraceModel other = Machine();
  ProcessInfo& process = other.processes.front();
  process.capabilities[0].reason = "Python 3.12.1";
  process.capabilities[1].reason = "PyTorch 2.14";
  process.processor.name = "Xeon";
  process.processors = 1;
  process.settings = {{"ONEDNN_MAX_CPU_ISA", "SSE41"}, {"DLHOOK_SCOPES", "light"}};
  process.mappings[0].build_id = "xyz";
  EXPECT_EQ(
      Text(Machine(), other, 4, 2),
      "PyTorch 2.13 -> 2.14; Python 3.11.7 -> 3.12.1; processor EPYC -> Xeon; processors that the program may use 2 "
      "-> 1; threads of the program 4 -> 2; DLHOOK_SCOPES none -> light; 3 more");
}

TEST(EnvironmentTest, WhatOneSideDoesNotKnowIsNotCompared) {
  TraceModel other = Machine();
  other.processes.front().processor.name.clear();
  other.processes.front().capabilities.clear();
  other.processes.front().mappings.clear();
  other.processes.front().processors = 0;
  EXPECT_EQ(Text(Machine(), other, 4, 0), "");
}

TEST(EnvironmentTest, RunsOfASideStandSideBySide) {
  Environment side = EnvironmentOf(Machine(), Load(4));
  TraceModel other = Machine();
  other.processes.front().settings[0].second = "4";
  side.Add(EnvironmentOf(other, Load(4)));
  const std::vector<Difference> differences = EnvironmentDifferences(EnvironmentOf(Machine(), Load(4)), side);
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].words, "OMP_NUM_THREADS 2 -> 2, 4");
}

}  // namespace
}  // namespace dlhook::analyzer
