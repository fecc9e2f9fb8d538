// What work of GPUs belongs to: see gpu_places.h.
#include "analyzer/layers/gpu_places.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"

namespace dlhook::analyzer {
namespace {

// Real nesting is a few calls deep; only a damaged trace goes beyond.
constexpr int kMaxDepth = 64;

bool IsCopyCall(const Op& op) { return op.definition.has_copy(); }

bool IsInCollective(const TraceModel& model, CallIndex call) {
  for (int depth = 0; call != kNone && depth < kMaxDepth; call = model.calls.parent[call], ++depth) {
    if (model.ops[model.calls.op[call]].definition.has_collective()) return true;
  }
  return false;
}

bool BearsNameOfNccl(const TraceModel& model, GpuKernelIndex kernel) {
  if (kernel == kNone || model.gpu_kernels[kernel].name == kNone) return false;
  return absl::StrContains(model.names[model.gpu_kernels[kernel].name], "nccl");
}

Place PlaceOf(const TraceModel& model, const Attribution& attribution, GpuIndex activity) {
  CallIndex call = model.gpu.call[activity];
  for (int depth = 0; call != kNone && depth < kMaxDepth; call = model.calls.parent[call], ++depth) {
    if (attribution.of_call[call].layer != kNone) return attribution.of_call[call];
  }
  const ScopeIndex scope = model.gpu.scope.empty() ? kNone : model.gpu.scope[activity];
  return scope < attribution.of_scope.size() ? attribution.of_scope[scope] : Place();
}

// The tracks in which threads of each process are to be looked for.
class TrackFinder {
 public:
  TrackFinder(const TraceModel& model, const std::vector<StepTrack>& tracks)
      : tracks_(tracks), of_process_(model.processes.size()) {
    for (uint32_t track = 0; track < tracks.size(); ++track) of_process_[tracks[track].process].push_back(track);
  }

  // A thread that repeats on its own has a track of its own; others work for the process's first one.
  uint32_t Of(ProcessIndex process, ThreadIndex thread) const {
    const std::vector<uint32_t>& tracks = of_process_[process];
    if (tracks.empty()) return kNone;
    const auto own = std::find_if(tracks.begin(), tracks.end(), [&](uint32_t track) {
      return tracks_[track].thread != kNone && tracks_[track].thread == thread;
    });
    return own != tracks.end() ? *own : tracks.front();
  }

 private:
  const std::vector<StepTrack>& tracks_;
  std::vector<std::vector<uint32_t>> of_process_;
};

uint32_t StepAt(const StepTrack& track, int64_t time_ns) {
  const auto after = std::upper_bound(track.steps.begin(), track.steps.end(), time_ns,
                                      [](int64_t time, const Step& step) { return time < step.start_ns; });
  if (after == track.steps.begin() || time_ns >= std::prev(after)->end_ns) return kNone;
  return static_cast<uint32_t>(std::prev(after) - track.steps.begin());
}

}  // namespace

const char* GpuWorkName(GpuWork work) {
  switch (work) {
    case GpuWork::kCompute: return "compute";
    case GpuWork::kCopy: return "copy";
    case GpuWork::kCommunication: return "communication";
  }
  return "compute";
}

GpuWork GpuWorkOf(const TraceModel& model, GpuIndex activity) {
  const CallIndex call = model.gpu.call[activity];
  if (IsInCollective(model, call) || BearsNameOfNccl(model, model.gpu.kernel[activity])) return GpuWork::kCommunication;
  switch (model.gpu.kind[activity]) {
    case trace::GpuActivityBatch::COPY:
    case trace::GpuActivityBatch::SET:
      return GpuWork::kCopy;
    case trace::GpuActivityBatch::OP:
      return call != kNone && IsCopyCall(model.ops[model.calls.op[call]]) ? GpuWork::kCopy : GpuWork::kCompute;
    default:
      return GpuWork::kCompute;
  }
}

std::vector<Place> GpuPlaces(const TraceModel& model, const Attribution& attribution) {
  if (!attribution.of_gpu.empty()) return attribution.of_gpu;
  std::vector<Place> places;
  places.reserve(model.gpu.size());
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    places.push_back(PlaceOf(model, attribution, activity));
  }
  return places;
}

int64_t GpuAskedNs(const TraceModel& model, GpuIndex activity) {
  const GpuActivityColumns& gpu = model.gpu;
  if (gpu.launch_call[activity] != kNone) return model.calls.start_ns[gpu.launch_call[activity]];
  return gpu.asked_ns[activity] != GpuActivityColumns::kNotKnown ? gpu.asked_ns[activity] : gpu.start_ns[activity];
}

std::vector<StepRef> GpuSteps(const TraceModel& model, const std::vector<StepTrack>& steps) {
  const GpuActivityColumns& gpu = model.gpu;
  const TrackFinder finder(model, steps);
  std::vector<StepRef> refs(gpu.size());
  for (GpuIndex activity = 0; activity < gpu.size(); ++activity) {
    const ProcessIndex process = model.gpu_devices[gpu.device[activity]].process;
    const uint32_t track = finder.Of(process, gpu.thread[activity]);
    if (track == kNone) continue;
    const uint32_t step = StepAt(steps[track], GpuAskedNs(model, activity));
    if (step != kNone) refs[activity] = {track, step};
  }
  return refs;
}

}  // namespace dlhook::analyzer
