// What memory was held for: the blocks that a framework's allocator gave out, by what is known of when each was allocated and freed.
#ifndef DLHOOK_ANALYZER_ANALYSIS_MEMORY_USE_H_
#define DLHOOK_ANALYZER_ANALYSIS_MEMORY_USE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"
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
  // What is held at the peak, in bytes, of blocks of the kind, by layer (kNone: not known).
  std::map<LayerIndex, int64_t> AtPeakByLayer(const TraceModel& model, MemoryKind kind) const;
};

struct MemoryUse {
  // `steps` must outlive it.
  MemoryUse(const TraceModel& model, const Attribution& attribution, const std::vector<StepTrack>& steps);
  std::vector<DeviceMemory> devices;  // by process, device
};

// "cpu", "gpu 0".
std::string MemoryDeviceName(uint32_t device);
// "tensors on gpu 0: 3.2 GiB, in step 3, backward, at layer4.1 (aten::convolution)".
std::string PeakSentence(const TraceModel& model, const Attribution& attribution, const DeviceMemory& device);

}  // namespace dlhook::analyzer::analysis

#endif  // DLHOOK_ANALYZER_ANALYSIS_MEMORY_USE_H_
