// What memory is held for: kinds by hand-made steps, the peak, and what only an allocator's total tells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "analyzer/analysis/memory_use.h"

namespace dlhook::analyzer {
namespace {

// Two steps of 100 ns from 100 on: forward, backward and update of 30 ns each, then nothing.
std::vector<StepTrack> TwoSteps() {
  StepTrack track;
  for (int64_t start : {100, 200}) {
    Step step;
    step.start_ns = start;
    step.end_ns = start + 100;
    step.phases = {{start, start + 30, PhaseKind::kForward},
                   {start + 30, start + 60, PhaseKind::kBackward},
                   {start + 60, start + 90, PhaseKind::kUpdate}};
    track.steps.push_back(step);
  }
  return {track};
}

class Memory : public testing::Test {
 protected:
  Memory() {
    model_.threads.resize(1);
    model_.processes.resize(1);
  }

  void At(int64_t ns, uint64_t address, int64_t bytes, int64_t allocated = 0) {
    MemoryEvent event;
    event.time_ns = ns;
    event.address = address;
    event.bytes = bytes;
    event.allocated_bytes = allocated;
    model_.memory.push_back(event);
  }

  std::map<int64_t, MemoryKind> KindsByBytes(const std::vector<StepTrack>& steps) {
    std::map<int64_t, MemoryKind> kinds;
    const MemoryUse use(model_, {}, steps);
    for (const MemoryBlock& block : use.devices.at(0).blocks) kinds[model_.memory[block.born].bytes] = block.kind;
    return kinds;
  }

  TraceModel model_;
};

TEST_F(Memory, KindsFollowFromBirthAndDeath) {
  At(10, 1, 1000);  // stays
  At(20, 2, 2000);
  At(30, 2, 0);
  At(105, 3, 3000);  // into the backward pass
  At(110, 4, 4000);  // not
  At(115, 4, 0);
  At(120, 10, 8000);  // longer than the next step: a list that grows
  At(135, 5, 5000);   // alive at the end of the backward pass
  At(140, 6, 6000);
  At(145, 6, 0);
  At(150, 3, 0);
  At(165, 7, 7000);  // stays
  At(170, 8, 7500);
  At(175, 8, 0);
  At(195, 9, 9000);  // in no phase
  At(205, 5, 0);
  const std::map<int64_t, MemoryKind> told = {{1000, MemoryKind::kBeforeSteps},    {2000, MemoryKind::kTemporary},
                                              {3000, MemoryKind::kKept},           {4000, MemoryKind::kTemporary},
                                              {5000, MemoryKind::kGradients},      {6000, MemoryKind::kTemporary},
                                              {7000, MemoryKind::kOptimizerState}, {7500, MemoryKind::kTemporary},
                                              {8000, MemoryKind::kOutlivesStep},   {9000, MemoryKind::kNoPhase}};
  EXPECT_EQ(KindsByBytes(TwoSteps()), told);
  for (const auto& [bytes, kind] : KindsByBytes({})) EXPECT_EQ(kind, MemoryKind::kNoSteps) << bytes;
}

TEST_F(Memory, OfTheLastStepNothingShowsThatItLasts) {
  At(205, 1, 1000);
  EXPECT_EQ(KindsByBytes(TwoSteps()).at(1000), MemoryKind::kKept);
}

TEST_F(Memory, PeakWithWhatWasThereBefore) {
  At(110, 1, 1000, 5000);
  At(120, 2, 3000, 8000);
  At(130, 2, 0, 5000);
  At(140, 9, 0, 2000);  // of before
  At(150, 3, 4000, 6000);
  const MemoryUse use(model_, {}, TwoSteps());
  const DeviceMemory& device = use.devices.at(0);
  EXPECT_EQ(device.peak_bytes, 8000);
  EXPECT_EQ(device.peak_unseen_bytes, 4000);
  EXPECT_EQ(device.peak_step_number, 1u);
  EXPECT_EQ(device.peak_phase, PhaseKind::kForward);
  EXPECT_EQ(PeakSentence(model_, {}, device), "tensors on cpu: 7.81 KiB, in step 1, forward");
}

TEST_F(Memory, AddressGivenOutAgain) {
  At(10, 1, 1000);
  At(20, 1, 2000);  // its end was not seen
  const MemoryUse use(model_, {}, {});
  EXPECT_EQ(use.devices.at(0).peak_bytes, 2000);
}

}  // namespace
}  // namespace dlhook::analyzer
