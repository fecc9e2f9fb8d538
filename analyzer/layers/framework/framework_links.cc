// Layers from frameworks' own information: see framework_links.h.
#include "analyzer/layers/framework/framework_links.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline framework {
namespace {

constexpr char kSeveralMasters[] =
    "a call of a worker thread while several threads ran operators: which of them it belongs to is ambiguous";

// The library's direction is finer than the scope's: a convolution's backward node contains both gradients. But the
// scope decides between forward and backward, because a transposed convolution's forward pass is a convolution's
// backward-data.
LayerDirection DirectionOfCall(LayerDirection of_scope, const Op& op) {
  if (!IsBackward(of_scope)) return of_scope;
  if (op.direction == Direction::kForward && IsKind(op, {OpKind::kConvolution, OpKind::kDeconvolution}))
    return LayerDirection::kBackwardData;
  const LayerDirection direction = BackwardOf(op.direction);
  return direction == LayerDirection::kBackward ? of_scope : direction;
}

// Finds threads that compute parts of an op for the thread that runs it (OpenMP, at::parallel_for): none of their calls
// is in a scope of their own (except for ops that allocate a tensor), and none of their stacks contains Python.
class WorkerCalls {
 public:
  explicit WorkerCalls(const TraceModel& model) : model_(model), is_master_(model.threads.size()) {
    for (CallIndex call = 0; call < model.calls.size(); ++call) {
      if (model.calls.ScopeOf(call) != kNone) is_master_[model.calls.thread[call]] = true;
    }
    for (const auto& [call, stack] : model.call_stacks) is_master_[model.calls.thread[call]] = true;
    for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread) {
      const auto [first, end] = model.scopes.thread.RangeOf(thread);
      for (ScopeIndex scope = first; scope < end && !is_master_[thread]; ++scope) {
        const ScopeLook& look = model.scopes.look[scope];
        is_master_[thread] = look.kind == ScopeKind::kXlaOp || look.stack != kNone;
      }
    }
  }

  // The op that is active on another thread throughout the call; kNone: none, or several.
  ScopeIndex OpAround(CallIndex call) {
    const ThreadIndex own = model_.calls.thread[call];
    if (is_master_[own]) return kNone;
    ScopeIndex found = kNone;
    for (ThreadIndex master = 0; master < is_master_.size(); ++master) {
      if (!is_master_[master] || model_.threads[master].process != model_.threads[own].process) continue;
      const ScopeIndex op =
          OpOn(master, model_.calls.start_ns[call], model_.calls.start_ns[call] + model_.calls.duration_ns[call]);
      if (op == kNone) continue;
      if (found != kNone) return ++not_told_apart_, kNone;
      found = op;
    }
    return found;
  }

  int64_t not_told_apart() const { return not_told_apart_; }

 private:
  ScopeIndex OpOn(ThreadIndex thread, int64_t start_ns, int64_t end_ns) const {
    const ScopeColumns& scopes = model_.scopes;
    const auto [first, last] = scopes.thread.RangeOf(thread);
    const auto begin = scopes.start_ns.begin() + first;
    const auto after = std::upper_bound(begin, scopes.start_ns.begin() + last, start_ns);
    if (after == begin) return kNone;
    auto scope = static_cast<ScopeIndex>(after - scopes.start_ns.begin() - 1);
    while (scope != kNone && scopes.EndOf(scope) < end_ns) scope = scopes.parent[scope];
    if (scope == kNone) return kNone;
    const ScopeKind kind = scopes.look[scope].kind;
    return kind == ScopeKind::kFrameworkOp || kind == ScopeKind::kBackwardNode || kind == ScopeKind::kXlaOp ? scope
                                                                                                            : kNone;
  }

  const TraceModel& model_;
  std::vector<bool> is_master_;  // by thread
  int64_t not_told_apart_ = 0;
};

void PlaceCalls(const TraceModel& model, Attribution* attribution) {
  const CallColumns& calls = model.calls;
  WorkerCalls workers(model);
  for (CallIndex call = 0; call < calls.size(); ++call) {
    const ScopeIndex own = calls.ScopeOf(call);
    const ScopeIndex scope = own != kNone ? own : workers.OpAround(call);
    if (scope == kNone) continue;
    Place place = attribution->of_scope[scope];
    place.direction = DirectionOfCall(place.direction, model.ops[calls.op[call]]);
    attribution->of_call[call] = place;
  }
  if (workers.not_told_apart() > 0) attribution->oddities[kSeveralMasters] = workers.not_told_apart();
}

// Orders layers by their first appearance in a forward pass (those of graph nodes as LinkGraphNodes ordered them);
// layers without a forward pass (the optimizer) come last.
void OrderByFirstForward(const TraceModel& model, const LaunchPlaces& launches, Attribution* attribution) {
  constexpr int64_t kNever = INT64_MAX;
  std::vector<std::pair<int64_t, int64_t>> first(attribution->layers.size(), {kNever, kNever});  // forward, anything
  const auto note = [&](const Place& place, int64_t start_ns, bool is_graph_node) {
    const auto note_layer = [&](LayerIndex layer) {
      auto& [forward, anything] = first[layer];
      anything = std::min(anything, start_ns);
      if (place.direction == LayerDirection::kForward)
        forward = std::min(forward, is_graph_node ? INT64_MIN : start_ns);
    };
    note_layer(place.layer);
    for (const LoopPart& part : attribution->layers[place.layer].loop_parts) note_layer(part.layer);
  };
  for (ScopeIndex scope = 0; scope < attribution->of_scope.size(); ++scope) {
    const Place place = attribution->of_scope[scope];
    if (place.layer == kNone) continue;
    note(place, model.scopes.start_ns[scope], model.scopes.look[scope].kind == ScopeKind::kGraphNode);
  }
  for (const auto& [call, place] : launches) note(place, model.calls.start_ns[call], false);
  std::vector<LayerIndex> order(first.size());
  for (LayerIndex i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](LayerIndex a, LayerIndex b) {
    if (first[a].first == INT64_MIN && first[b].first == INT64_MIN) return a < b;
    return first[a] < first[b];
  });
  std::erase_if(order, [&](LayerIndex layer) { return first[layer].second == kNever; });  // it has no calls or scopes
  KeepLayers(order, attribution);
}

}  // namespace

Attribution AttributeByFramework(const TraceModel& model) {
  Attribution attribution;
  attribution.of_call.resize(model.calls.size());
  if (model.scopes.size() == 0) return attribution;
  const std::vector<ScopeName> names = ReadScopeNames(model);
  LinkTorch(model, names, &attribution);
  LinkGraphNodes(model, &attribution);
  LinkXlaOps(model, &attribution);
  const LaunchPlaces launches = LinkCompiledRegions(model, &attribution);
  PlaceCalls(model, &attribution);
  for (const auto& [call, place] : launches) attribution.of_call[call] = place;
  OrderByFirstForward(model, launches, &attribution);
  return attribution;
}

}  // namespace dlhook::analyzer::framework
