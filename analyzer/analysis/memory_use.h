// What memory was held for: the blocks that a framework's allocator gave out, by what is known of when each was allocated and freed.
#pragma once

#include "analyzer/layers/attribution.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline analysis {

enum class MemoryKind : uint8_t {
  kWeights,
  kGradients,
  kOptimizerState,
  kKept,  // for backward
  kTemporary,
  kInput,
  kBeforeSteps,
  kBeforeRecording,
  kOutlivesStep,
  kNoPhase,
  kNoSteps,
  kReserved
};
const char* MemoryKindName(MemoryKind kind);  // "kept for backward"; "not told apart" for several
const char* MemoryKindRule(MemoryKind kind);  // what makes memory one of the kind

struct MemoryBlock {
  size_t born = 0;         // of model.memory
  size_t died = SIZE_MAX;  // likewise; SIZE_MAX: is not freed
  MemoryKind kind = MemoryKind::kNoSteps;
  LayerIndex layer = kNone;
  NameIndex op = kNone;      // that asked for it: the outermost of the framework; kNone: not known
  StackIndex stack = kNone;  // of Python
};

// A device as one process used it.
struct DeviceMemory {
  ProcessIndex process = 0;
  uint32_t device = 0;  // as in MemoryEvent
  std::vector<MemoryBlock> blocks;
  size_t peak = 0;  // of model.memory: after this most was held
  int64_t peak_bytes = 0;
  int64_t peak_unseen_bytes = 0;    // of these, allocated before the recording
  int64_t peak_reserved_bytes = 0;  // by the allocator, at that time; 0: not known
  const Step* peak_step = nullptr;  // null: outside of the steps, or none are known
  size_t peak_step_number = 0;      // from 1
  PhaseKind peak_phase = PhaseKind::kUnknown;
  MemoryBlock peak_place;  // of which only layer, op and stack are set

  bool IsAtPeak(const MemoryBlock& block) const { return block.born <= peak && peak < block.died; }
};

// Of some blocks of a device.
struct MemorySum {
  int64_t at_peak_bytes = 0;
  int64_t most_bytes = 0;  // held at once at any time
  int64_t now_bytes = 0;   // while they are followed
  int64_t blocks = 0;
  const MemoryBlock* largest = nullptr;
};

// `key_of`: which sum a block belongs to, an optional Key.
template <typename Key, typename KeyOf>
std::map<Key, MemorySum> SumMemory(const TraceModel& model, const DeviceMemory& device, const KeyOf& key_of) {
  std::map<Key, MemorySum> sums;
  std::vector<std::tuple<size_t, int64_t, MemorySum*>> changes;
  for (const MemoryBlock& block : device.blocks) {
    const std::optional<Key> key = key_of(block);
    if (!key) continue;
    MemorySum& sum = sums[*key];
    const int64_t bytes = model.memory[block.born].bytes;
    ++sum.blocks;
    if (device.IsAtPeak(block)) sum.at_peak_bytes += bytes;
    if (sum.largest == nullptr || bytes > model.memory[sum.largest->born].bytes) sum.largest = &block;
    changes.emplace_back(block.born, bytes, &sum);
    if (block.died != SIZE_MAX) changes.emplace_back(block.died, -bytes, &sum);
  }
  absl::c_sort(changes);  // what is freed first: an event may do both
  for (const auto& [event, bytes, sum] : changes) {
    sum->now_bytes += bytes;
    sum->most_bytes = std::max(sum->most_bytes, sum->now_bytes);
  }
  return sums;
}

// What is kept for backward, by layers that are known.
std::map<LayerIndex, MemorySum> KeptByLayer(const TraceModel& model, const DeviceMemory& device);

struct MemoryUse {
  // `steps` must outlive it.
  MemoryUse(const TraceModel& model, const Attribution& attribution, const std::vector<StepTrack>& steps);
  std::vector<DeviceMemory> devices;  // by process, device
};

// Whether memory is known of the run's beginning only: until a limit, or the first window of recording, had ended.
bool IsMemoryOfBeginning(const TraceModel& model);

// "cpu", "gpu 0".
std::string MemoryDeviceName(uint32_t device);
// "tensors on gpu 0: 3.2 GiB, in step 3, backward, at layer4.1 (aten::convolution)".
std::string PeakSentence(const TraceModel& model, const Attribution& attribution, const DeviceMemory& device);

}  // namespace dlhook::analyzer::analysis
