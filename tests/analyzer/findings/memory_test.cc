// Rules about memory: growth from step to step, activations of one layer, what is reserved beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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
  EXPECT_THAT(found.Of(0, "sentence"),
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
      EXPECT_THAT(found.Of(0, "sentence"), HasSubstr("on gpu 0, 1.46 GiB, PyTorch has reserved 4.00 GiB"));
    }
  }
}

}  // namespace memory_rules_test
}  // namespace dlhook::analyzer
