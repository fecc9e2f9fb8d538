// Layers by what frameworks tell of themselves: see attribution.h.
#include <algorithm>
#include <utility>

#include "analyzer/layers/attribution.h"
#include "analyzer/layers/links.h"

namespace dlhook::analyzer {
namespace {

// What the library says of the call is finer than what its scope says: a convolution's backward node holds both.
// A transposed convolution's forward is another one's backward-data, so the scope has the first word.
LayerDirection DirectionOfCall(LayerDirection of_scope, const Op& op) {
  if (!IsBackwardDirection(of_scope)) return of_scope;
  switch (op.direction) {
    case Direction::kBackwardData: return LayerDirection::kBackwardData;
    case Direction::kBackwardWeights: return LayerDirection::kBackwardWeights;
    case Direction::kBackwardBias: return LayerDirection::kBackwardBias;
    case Direction::kForward:
      return op.kind == "convolution" || op.kind == "deconvolution" ? LayerDirection::kBackwardData : of_scope;
    default: return of_scope;
  }
}

void PlaceCalls(const TraceModel& model, Attribution* attribution) {
  const CallColumns& calls = model.calls;
  for (CallIndex call = 0; call < calls.scope.size(); ++call) {
    if (calls.scope[call] == kNone) continue;
    Place place = attribution->of_scope[calls.scope[call]];
    place.direction = DirectionOfCall(place.direction, model.ops[calls.op[call]]);
    attribution->of_call[call] = place;
  }
}

// Layers in the order in which a forward pass first meets them (those of graph nodes as LinkGraphNodes gave them); those
// without one (the optimizer) come last.
void OrderByFirstForward(const TraceModel& model, Attribution* attribution) {
  constexpr int64_t kNever = INT64_MAX;
  std::vector<std::pair<int64_t, int64_t>> first(attribution->layers.size(), {kNever, kNever});  // forward, anything
  for (ScopeIndex scope = 0; scope < attribution->of_scope.size(); ++scope) {
    const Place& place = attribution->of_scope[scope];
    if (place.layer == kNone) continue;
    auto& [forward, anything] = first[place.layer];
    anything = std::min(anything, model.scopes.start_ns[scope]);
    if (place.direction != LayerDirection::kForward) continue;
    const bool is_graph_node = model.scopes.kind[scope] == trace::ScopeBatch::GRAPH_NODE;
    forward = std::min(forward, is_graph_node ? INT64_MIN : model.scopes.start_ns[scope]);
  }
  std::vector<LayerIndex> order(first.size());
  for (LayerIndex i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](LayerIndex a, LayerIndex b) {
    if (first[a].first == INT64_MIN && first[b].first == INT64_MIN) return a < b;
    return first[a] < first[b];
  });
  std::erase_if(order, [&](LayerIndex layer) { return first[layer].second == kNever; });  // nothing was placed in it
  KeepLayers(order, attribution);
}

}  // namespace

bool IsBackwardDirection(LayerDirection direction) {
  return direction == LayerDirection::kBackward || direction == LayerDirection::kBackwardData ||
         direction == LayerDirection::kBackwardWeights || direction == LayerDirection::kBackwardBias;
}

Attribution AttributeByFramework(const TraceModel& model) {
  Attribution attribution;
  attribution.of_call.resize(model.calls.size());
  if (model.scopes.size() == 0) return attribution;
  attribution.of_scope.resize(model.scopes.size());
  const std::vector<ScopeName> names = ReadScopeNames(model);
  LinkTorch(model, names, &attribution);
  LinkGraphNodes(model, &attribution);
  LinkCompiledRegions(model, names, &attribution);
  PlaceCalls(model, &attribution);
  OrderByFirstForward(model, &attribution);
  return attribution;
}

}  // namespace dlhook::analyzer
