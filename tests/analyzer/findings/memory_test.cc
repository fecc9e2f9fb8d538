// Rules about memory: growth from step to step, activations of one layer, what is reserved beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "analyzer/findings/rules.h"
#include "analyzer/steps/compared_steps.h"
#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace memory_rules_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kMiB = 1 << 20;

void Allocate(CpuProgram* program, int64_t ns, uint64_t address, int64_t bytes, uint32_t device = 0,
              int64_t reserved = 0) {
  MemoryEvent event;
  event.time_ns = ns;
  event.address = address;
  event.bytes = bytes;
  event.device = device;
  event.reserved_bytes = reserved;
  program->builder().model().memory.push_back(event);
}

// Each step allocates this, and frees what the step `lag` steps ago did.
CpuProgram Keeping(int lag, int64_t bytes) {
  CpuProgram program;
  program.Scope("aten::linear", 1000, 1000);
  for (int step = 0; step < CpuProgram::kSteps; ++step) {
    Allocate(&program, step * CpuProgram::kStepNs + 1500, 64 + static_cast<uint64_t>(step), bytes);
    if (step >= lag) Allocate(&program, step * CpuProgram::kStepNs + 5000, 64 + static_cast<uint64_t>(step - lag), 0);
  }
  return program;
}

TEST(GrowingMemory, IsWhatEachStepKeeps) {
  const auto found = Keeping(CpuProgram::kSteps, kMiB).Find("growing-memory");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.Of(0, "finding"),
              HasSubstr("Memory on cpu grows by 1.00 MiB a training step, from 3.00 MiB to 10.0 MiB over 8 of them"));
}

TEST(GrowingMemory, IsNotWhatTheNextStepsFree) {
  EXPECT_THAT(Keeping(2, kMiB).Find("growing-memory").rows, IsEmpty());
  EXPECT_THAT(Keeping(CpuProgram::kSteps, kMiB / 16).Find("growing-memory").rows, IsEmpty());  // little
}

TEST(FragmentedMemory, IsReservedBesideThePeak) {
  for (const int64_t reserved : {2048, 4096}) {
    CpuProgram program;
    Allocate(&program, 1500, 64, 1500 * kMiB, 1, reserved * kMiB);
    const auto found = program.Find("fragmented-memory");
    ASSERT_THAT(found.rows, SizeIs(reserved == 4096 ? 1 : 0));
    if (reserved == 4096) {
      EXPECT_THAT(found.Of(0, "finding"), HasSubstr("on gpu 0, 1.46 GiB, PyTorch has reserved 4.00 GiB"));
    }
  }
}

// What one layer keeps of a peak of 2000 MiB on a GPU.
std::vector<Finding> OfLayerKeeping(int64_t mib) {
  ModelBuilder builder;
  builder.Scope("aten::linear", ScopeKind::kFrameworkOp, 100, 100);
  for (const auto& [address, bytes, scope] :
       {std::tuple(64, mib * kMiB, 0u), std::tuple(128, (2000 - mib) * kMiB, kNone)}) {
    MemoryEvent event;
    event.time_ns = 150;
    event.address = static_cast<uint64_t>(address);
    event.bytes = bytes;
    event.device = 1;
    event.scope = scope;
    builder.model().memory.push_back(event);
  }
  const TraceModel model = builder.Build(1000);
  Attribution attribution;
  attribution.layers.push_back({.name = "attention"});
  attribution.of_call.resize(model.calls.size());
  attribution.of_scope.Fill(model.scopes.size(), {0, LayerDirection::kForward});
  Step step;
  step.end_ns = 1000;
  step.kind = StepKind::kTraining;
  step.phases = {{0, 500, PhaseKind::kForward}, {500, 1000, PhaseKind::kBackward}};
  const LayerAnalysis analysis(model, attribution, {StepTrack{.steps = {step}}});
  TableOptions options;
  options.analysis = &analysis;
  const StepFacts facts(model, options);
  return FindKeptActivations(facts);
}

TEST(KeptActivations, AreMostOfALargePeak) {
  const std::vector<Finding> found = OfLayerKeeping(1200);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].sentence, "attention keeps 1.17 GiB for the backward pass, of a peak of 1.95 GiB on gpu 0.");
  EXPECT_THAT(OfLayerKeeping(800), IsEmpty());
}

}  // namespace memory_rules_test
}  // namespace dlhook::analyzer
