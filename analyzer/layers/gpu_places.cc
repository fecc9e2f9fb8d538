// Where GPU work belongs: see gpu_places.h.
#include "analyzer/layers/gpu_places.h"

namespace dlhook::analyzer::inline layers {
namespace {

// Real nesting is a few calls deep; only a damaged trace goes beyond.
constexpr int kMaxDepth = 64;

bool IsCopyCall(const Op& op) { return op.copy(); }

bool IsInCollective(const TraceModel& model, CallIndex call) {
  for (int depth = 0; call != kNone && depth < kMaxDepth; call = model.calls.parent[call], ++depth) {
    if (model.ops[model.calls.op[call]].collective()) return true;
  }
  return false;
}

Place PlaceOf(const TraceModel& model, const Attribution& attribution, GpuIndex activity) {
  CallIndex call = model.gpu.call[activity];
  for (int depth = 0; call != kNone && depth < kMaxDepth; call = model.calls.parent[call], ++depth) {
    if (attribution.of_call[call].layer != kNone) return attribution.of_call[call];
  }
  const ScopeIndex scope = model.gpu.scope.empty() ? kNone : model.gpu.scope[activity];
  return attribution.PlaceOfScope(scope);
}

}  // namespace

GpuWork GpuWorkOf(const TraceModel& model, GpuIndex activity) {
  const CallIndex call = model.gpu.call[activity];
  const GpuKernelIndex kernel = model.gpu.kernel[activity];
  const bool is_named = kernel != kNone && model.gpu_kernels[kernel].is_collective;
  if (is_named || IsInCollective(model, call)) return GpuWork::kCommunication;
  switch (model.gpu.kind[activity]) {
    case GpuActivityKind::kCopy:
    case GpuActivityKind::kSet:
      return GpuWork::kCopy;
    case GpuActivityKind::kOp:
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
  return gpu.requested_ns[activity] != GpuActivityColumns::kNotKnown ? gpu.requested_ns[activity]
                                                                     : gpu.start_ns[activity];
}

GraphReplays FindGraphReplays(const TraceModel& model, const Attribution& attribution) {
  GraphReplays replays;
  const GpuActivityColumns& gpu = model.gpu;
  std::vector<Place> places;
  for (GpuIndex activity = 0; activity < gpu.size(); ++activity) {
    const CallIndex launch = gpu.launch_call[activity];
    if (launch == kNone || gpu.graph[activity] == 0) continue;
    if (places.empty()) places = GpuPlaces(model, attribution);
    const Place& place = places[activity];
    if (place.direction == LayerDirection::kUnknown) continue;
    std::vector<ReplayedPart>& parts = replays[launch];
    const bool goes_on =
        !parts.empty() && parts.back().place.layer == place.layer && parts.back().place.direction == place.direction;
    if (!goes_on) parts.push_back({place, gpu.scope.empty() ? kNone : gpu.scope[activity]});
  }
  return replays;
}

}  // namespace dlhook::analyzer::layers
