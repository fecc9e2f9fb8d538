#include "analyzer/layers/attribution.h"

namespace dlhook::analyzer::inline layers {
namespace {

// Real nesting is a few calls deep; only a damaged trace goes beyond.
constexpr int kMaxDepth = 64;

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

const char* LayerDirectionName(LayerDirection direction) {
  return NameIn<LayerDirection::kUpdate>(direction, {"unknown", "forward", "backward-data", "backward-weights",
                                                     "backward-bias", "backward", "recompute", "update"});
}

bool IsBackward(LayerDirection direction) {
  return direction == LayerDirection::kBackward || direction == LayerDirection::kBackwardData ||
         direction == LayerDirection::kBackwardWeights || direction == LayerDirection::kBackwardBias;
}

LayerDirection BackwardOf(Direction direction) {
  if (direction == Direction::kBackwardData) return LayerDirection::kBackwardData;
  if (direction == Direction::kBackwardWeights) return LayerDirection::kBackwardWeights;
  return direction == Direction::kBackwardBias ? LayerDirection::kBackwardBias : LayerDirection::kBackward;
}

const char* EvidenceName(Evidence evidence) {
  return NameIn<Evidence::kOrder>(evidence, {"", "framework", "module", "function", "pointers", "shapes", "order"});
}

LayerIndex Attribution::Add(Layer layer) {
  layers.push_back(std::move(layer));
  return static_cast<LayerIndex>(layers.size() - 1);
}

std::string Attribution::NameOf(LayerIndex layer) const {
  const Layer& named = layers[layer];
  const bool is_ambiguous = absl::c_any_of(
      layers, [&](const Layer& other) { return other.name == named.name && other.model != named.model; });
  return is_ambiguous ? PlaceTitle(layers, {.layer = layer}) : named.name;
}

// A range that belongs to a layer, such as an optimizer's step, also contains its gaps, but for those beside a closure.
Place Attribution::PlaceOfGap(const UnseenGap& gap) const {
  const auto at = of_gap.find({gap.before, gap.after});
  const Place place = at == of_gap.end() ? Place() : at->second.place;
  const bool is_of_program = at != of_gap.end() && at->second.is_of_program;
  return place.layer == kNone && !is_of_program && gap.around < of_scope.size() ? PlaceOfScope(gap.around) : place;
}

const std::string& Attribution::LineOfGap(const UnseenGap& gap) const {
  static const std::string* const none = new std::string;
  const auto at = of_gap.find({gap.before, gap.after});
  return at == of_gap.end() ? *none : at->second.line;
}

void KeepLayers(const std::vector<LayerIndex>& order, Attribution* attribution) {
  std::vector<LayerIndex> new_index(attribution->layers.size(), kNone);
  std::vector<Layer> layers;
  for (LayerIndex old : order) {
    new_index[old] = static_cast<LayerIndex>(layers.size());
    layers.push_back(std::move(attribution->layers[old]));
  }
  attribution->layers = std::move(layers);
  if (absl::c_is_sorted(order) && order.size() == new_index.size()) return;  // as they were
  const auto renumber = [&](Place& place) {
    if (place.layer != kNone) place.layer = new_index[place.layer];
  };
  for (ScopeIndex scope = 0; scope < attribution->of_scope.size(); ++scope) {
    Place place = attribution->of_scope[scope];
    renumber(place);
    attribution->of_scope.Set(scope, place);
  }
  for (Layer& layer : attribution->layers) {
    for (LoopPart& part : layer.loop_parts) part.layer = new_index[part.layer];
  }
  for (Place& place : attribution->of_call) renumber(place);
  for (auto& [stacks, gap] : attribution->of_gap) renumber(gap.place);
}

std::string PlaceTitle(const std::vector<Layer>& layers, Place place) {
  const Layer& layer = layers[place.layer];
  const bool has_direction = place.direction != LayerDirection::kUnknown;
  return absl::StrCat(layer.model, layer.model.empty() ? "" : ": ", layer.name, has_direction ? " " : "",
                      has_direction ? LayerDirectionName(place.direction) : "");
}

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
      return call != kNone && model.ops[model.calls.op[call]].copy() ? GpuWork::kCopy : GpuWork::kCompute;
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
    // It is asked for where the last gradient of a bucket is ready, or the next layer's weights are gathered.
    if (GpuWorkOf(model, activity) == GpuWork::kCommunication) places.back().layer = kNone;
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
