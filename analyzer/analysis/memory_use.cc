#include "analyzer/analysis/memory_use.h"

#include "absl/container/flat_hash_set.h"
#include "analyzer/table/table_ops.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline analysis {
namespace {

// The steps by which a thread's memory is judged: the only ones of its process, or its own.
const StepTrack* TrackOf(const std::vector<StepTrack>& tracks, ProcessIndex process, ThreadIndex thread) {
  std::vector<const StepTrack*> of_process;
  for (const StepTrack& track : tracks) {
    if (track.process == process) of_process.push_back(&track);
    if (track.process == process && track.thread == thread && thread != kNone) return &track;
  }
  return of_process.size() == 1 ? of_process.front() : nullptr;
}

class BlockCollector {
 public:
  BlockCollector(const TraceModel& model, const Attribution& attribution, const std::vector<StepTrack>& steps)
      : model_(model), attribution_(attribution), steps_(steps) {}

  std::vector<DeviceMemory> Collect() {
    std::map<std::pair<ProcessIndex, uint32_t>, std::vector<size_t>> events;
    for (size_t i = 0; i < model_.memory.size(); ++i)
      events[{model_.threads[model_.memory[i].thread].process, model_.memory[i].device}].push_back(i);
    std::vector<DeviceMemory> devices;
    for (const auto& [key, of_device] : events) {
      DeviceMemory& device = devices.emplace_back(DeviceMemory{.process = key.first, .device = key.second});
      Follow(of_device, &device);
      for (MemoryBlock& block : device.blocks) {
        SetPlace(block.born, &block);
        block.kind = KindOf(device.process, block);
        if (block.kind == MemoryKind::kWeights) weight_bytes_.insert(model_.memory[block.born].bytes);
      }
      SetPlace(device.peak, &device.peak_place);
      FindPeakStep(&device);
    }
    return devices;
  }

 private:
  void Follow(const std::vector<size_t>& events, DeviceMemory* device) const {
    absl::flat_hash_map<uint64_t, size_t> alive;  // by address: of device->blocks
    int64_t held = 0;
    for (const size_t i : events) {
      const MemoryEvent& event = model_.memory[i];
      // An address that is given out again was freed before, though that was not seen.
      if (const auto found = alive.find(event.address); found != alive.end()) {
        device->blocks[found->second].died = i;
        held -= model_.memory[device->blocks[found->second].born].bytes;
        alive.erase(found);
      }
      if (event.bytes > 0) {
        alive[event.address] = device->blocks.size();
        device->blocks.push_back({i});
        held += event.bytes;
      }
      const int64_t unseen = std::max<int64_t>(event.allocated_bytes - held, 0);
      if (held + unseen <= device->peak_bytes) continue;
      device->peak = i;
      device->peak_bytes = held + unseen;
      device->peak_unseen_bytes = unseen;
      device->peak_reserved_bytes = event.reserved_bytes;
    }
  }

  void SetPlace(size_t event, MemoryBlock* block) const {
    for (ScopeIndex scope = model_.memory[event].scope; scope != kNone; scope = model_.scopes.parent[scope]) {
      const ScopeLook look = model_.scopes.look[scope];
      if (block->layer == kNone) block->layer = attribution_.PlaceOfScope(scope).layer;
      if (block->stack == kNone) block->stack = look.stack;
      if (!FactsOf(look.kind).is_bracket) block->op = look.name;
    }
  }

  // Modules allocate their weights when they are made, or moved to a device.
  bool IsByModule(StackIndex stack) const {
    if (stack == kNone) return false;
    const std::vector<PythonFrame>& frames = model_.python_stacks[stack].frames;
    return absl::c_any_of(frames, [&](const PythonFrame& frame) {
      const absl::string_view function = model_.names[frame.function];
      return absl::StrContains(model_.names[frame.file], "torch/nn/modules/") &&
             (absl::EndsWith(function, "__init__") || absl::EndsWith(function, "_apply"));
    });
  }

  MemoryKind KindOf(ProcessIndex process, const MemoryBlock& block) const {
    const MemoryEvent& born = model_.memory[block.born];
    const int64_t died_ns = block.died == SIZE_MAX ? INT64_MAX : model_.memory[block.died].time_ns;
    const StepTrack* const track = TrackOf(steps_, process, born.thread);
    if (track == nullptr) return MemoryKind::kNoSteps;
    const Step* const step = LastBegun(track->steps, born.time_ns);
    if (step == nullptr) {
      if (died_ns <= track->steps.front().start_ns) return MemoryKind::kTemporary;
      const bool stays = died_ns >= track->steps.back().end_ns;
      return stays && IsByModule(block.stack) ? MemoryKind::kWeights : MemoryKind::kBeforeSteps;
    }
    if (born.time_ns >= step->end_ns) return MemoryKind::kNoPhase;
    const PhaseInterval* const phase = LastBegun(step->phases, born.time_ns);
    if (phase == nullptr || born.time_ns >= phase->end_ns) return MemoryKind::kNoPhase;
    if (phase->kind == PhaseKind::kInput) return MemoryKind::kInput;
    // Until the phases of this kind are over.
    const PhaseInterval* const end = step->phases.data() + step->phases.size();
    const PhaseInterval* const next =
        std::find_if(phase, end, [&](const PhaseInterval& other) { return other.kind != phase->kind; });
    if (died_ns <= (next == end ? step->end_ns : next->start_ns)) return MemoryKind::kTemporary;
    const bool is_last = step + 1 == track->steps.data() + track->steps.size();
    const bool ends_with_next = !is_last && died_ns <= step[1].end_ns;
    switch (phase->kind) {
      case PhaseKind::kForward: {
        const PhaseInterval* const backward =
            std::find_if(next, end, [](const PhaseInterval& other) { return other.kind == PhaseKind::kBackward; });
        if (backward == end) return died_ns <= step->end_ns ? MemoryKind::kTemporary : MemoryKind::kOutlivesStep;
        if (died_ns <= backward->start_ns) return MemoryKind::kTemporary;
        return ends_with_next || is_last ? MemoryKind::kKept : MemoryKind::kOutlivesStep;
      }
      case PhaseKind::kBackward: {
        // Workspaces of libraries (cuBLAS) are allocated in the first backward pass and stay, as gradients do that are zeroed.
        const bool fits_weight = weight_bytes_.contains(born.bytes);
        return ends_with_next || is_last || fits_weight ? MemoryKind::kGradients : MemoryKind::kOutlivesStep;
      }
      case PhaseKind::kUpdate:
        if (died_ns <= step->end_ns) return MemoryKind::kTemporary;
        return ends_with_next ? MemoryKind::kOutlivesStep : MemoryKind::kOptimizerState;
      default:
        return died_ns <= step->end_ns ? MemoryKind::kTemporary : MemoryKind::kOutlivesStep;
    }
  }

  void FindPeakStep(DeviceMemory* device) const {
    const MemoryEvent& event = model_.memory[device->peak];
    const StepTrack* const track = TrackOf(steps_, device->process, event.thread);
    const Step* const step = track == nullptr ? nullptr : LastBegun(track->steps, event.time_ns);
    if (step == nullptr || event.time_ns >= step->end_ns) return;
    device->peak_step = step;
    device->peak_step_number = static_cast<size_t>(step - track->steps.data()) + 1;
    const PhaseInterval* const phase = LastBegun(step->phases, event.time_ns);
    if (phase != nullptr && event.time_ns < phase->end_ns) device->peak_phase = phase->kind;
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  const std::vector<StepTrack>& steps_;
  absl::flat_hash_set<int64_t> weight_bytes_;  // sizes of weights; they are allocated before the rest
};

struct KindText {
  const char* name;
  const char* rule;
};

constexpr char kNotToldApart[] = "not told apart";
constexpr KindText kTexts[] = {
    {"weights", "allocated before the steps by the construction or move of a module, and not freed in them"},
    {"gradients", "allocated in a backward pass, alive at its end; freed in the next step, or as large as a weight"},
    {"optimizer state", "allocated in an update, alive for a whole step after it"},
    {"kept for backward", "allocated in a forward pass, alive when the backward pass begins"},
    {"temporary", "freed in the phase of the step in which it was allocated, or before all steps"},
    {"input", "allocated while a batch was prepared"},
    {"held from before the steps", "allocated before them, and not by a module as far as stacks tell"},
    {"held from before the recording", "only the allocator's total tells of it"},
    {kNotToldApart, "outlives the step in which it was allocated"},
    {kNotToldApart, "allocated outside of the known phases of steps"},
    {kNotToldApart, "no steps are known"},
    {"reserved, not used", "kept by the allocator for later"}};
static_assert(std::size(kTexts) == static_cast<size_t>(MemoryKind::kReserved) + 1);

}  // namespace

const char* MemoryKindName(MemoryKind kind) { return kTexts[static_cast<size_t>(kind)].name; }
const char* MemoryKindRule(MemoryKind kind) { return kTexts[static_cast<size_t>(kind)].rule; }

MemoryUse::MemoryUse(const TraceModel& model, const Attribution& attribution, const std::vector<StepTrack>& steps)
    : devices(BlockCollector(model, attribution, steps).Collect()) {}

std::map<LayerIndex, MemorySum> KeptByLayer(const TraceModel& model, const DeviceMemory& device) {
  return SumMemory<LayerIndex>(model, device, [](const MemoryBlock& block) {
    const bool is_kept = block.kind == MemoryKind::kKept && block.layer != kNone;
    return is_kept ? std::optional(block.layer) : std::nullopt;
  });
}

bool IsMemoryOfBeginning(const TraceModel& model) { return model.HasReachedLimit() || !model.scope_windows.empty(); }

std::string MemoryDeviceName(uint32_t device) { return device == 0 ? "cpu" : absl::StrCat("gpu ", device - 1); }

std::string PeakSentence(const TraceModel& model, const Attribution& attribution, const DeviceMemory& device) {
  std::string text =
      absl::StrCat("tensors on ", MemoryDeviceName(device.device), ": ", HumanCell(device.peak_bytes, "bytes"),
                   device.peak_step == nullptr ? ", outside of the known steps" : ", in step ");
  if (device.peak_step != nullptr) absl::StrAppend(&text, device.peak_step_number);
  if (device.peak_phase != PhaseKind::kUnknown) absl::StrAppend(&text, ", ", PhaseKindName(device.peak_phase));
  const MemoryBlock& place = device.peak_place;
  if (place.layer != kNone) absl::StrAppend(&text, ", at ", attribution.NameOf(place.layer));
  if (place.op != kNone) absl::StrAppend(&text, " (", WithoutEngine(model.names[place.op]), ")");
  return text;
}

}  // namespace dlhook::analyzer::analysis
