// Work of CUDA graph launches: see graph_replays.h.
#include "analyzer/layers/graph_replays.h"

#include "analyzer/layers/gpu_places.h"

namespace dlhook::analyzer::inline layers {

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
