// Assigns PyTorch's scopes and backward nodes to layers: see framework_links.h.

#include "analyzer/layers/framework/framework_links.h"
#include "analyzer/layers/framework/torch_products.h"
#include "analyzer/layers/framework/torch_units.h"
#include "analyzer/model/beside.h"

namespace dlhook::analyzer::inline framework {
namespace {

using Kind = ScopeKind;

class TorchLinker {
 public:
  TorchLinker(const TraceModel& model, const std::vector<ScopeName>& names, Attribution* attribution)
      : model_(model),
        scopes_(model.scopes),
        names_(names),
        places_(ReadPythonPlaces(model)),
        units_(FindTorchUnits(model, places_)),
        of_scope_(attribution->of_scope),
        attribution_(attribution) {}

  void Link() {
    auto making_layers = Beside([this] { return LayersOfUnits(model_, names_, places_, units_); });
    TorchProducts products(model_, names_, units_);
    UnitLayers made = making_layers.get();
    products.NoteOperands(made.occurrence);
    products_ = &products;
    of_scope_.Fill(scopes_.size(), Place());
    first_layer_ = static_cast<LayerIndex>(attribution_->layers.size());
    std::move(made.layers.begin(), made.layers.end(), std::back_inserter(attribution_->layers));
    layer_of_unit_ = std::move(made.of_unit);
    last_layer_.assign(model_.threads.size(), kNone);
    for (ScopeIndex scope = 0; scope < scopes_.size(); ++scope) PlaceScope(scope);
    for (const auto& [sentence, count] : units_.oddities) attribution_->oddities[sentence] += count;
  }

 private:
  const ScopeName& NameOf(ScopeIndex scope) const { return names_[scopes_.look[scope].name]; }

  LayerIndex LayerOfUnit(UnitIndex unit) const {
    const LayerIndex layer = unit == kNone ? kNone : layer_of_unit_[unit];
    return layer == kNone ? kNone : first_layer_ + layer;
  }

  // The layer of a backward node is that of its forward op. If that was itself run by a backward node (a gradient of a
  // gradient), that node's.
  LayerIndex LayerOfNode(ScopeIndex node) const {
    const ScopeIndex forward = units_.ForwardOf(node);
    if (forward == kNone) return kNone;
    const LayerIndex layer = LayerOfUnit(units_.unit_of[forward]);
    const ScopeIndex around = units_.NodeOf(scopes_, forward);
    return layer != kNone || around == kNone || around >= node ? layer : of_scope_[around].layer;
  }

  Place PlaceOfUnit(UnitIndex unit) const {
    static constexpr LayerDirection kDirections[] = {LayerDirection::kForward, LayerDirection::kRecompute,
                                                     LayerDirection::kUpdate};
    const LayerIndex layer = LayerOfUnit(unit);
    return {layer, layer == kNone ? LayerDirection::kUnknown : kDirections[static_cast<int>(units_.units[unit].kind)]};
  }

  Place PlaceOfNode(ScopeIndex node) {
    LayerIndex& last = last_layer_[scopes_.thread[node]];
    // The engine accumulates a parameter's gradient right after the node that computed it.
    if (model_.RoleOf(node) == ScopeRole::kAccumulate) return {last, LayerDirection::kBackwardWeights};
    last = LayerOfNode(node);
    const ScopeIndex forward = units_.ForwardOf(node);
    const UnitIndex unit = forward == kNone ? kNone : units_.unit_of[forward];
    // The transpose of a weight, or the gradient of an embedding table.
    const bool of_weights = unit != kNone && NameOf(units_.units[unit].scope).is_weighted &&
                            (NameOf(forward).op == "t" || NameOf(forward).op == "embedding");
    return {last, of_weights ? LayerDirection::kBackwardWeights : LayerDirection::kBackward};
  }

  // What the engine does for a node after it: sums over the batch for a bias.
  bool IsBiasSum(ScopeIndex scope, ScopeIndex node) const {
    const ScopeIndex forward = units_.ForwardOf(node);
    if (NameOf(scope).op != "sum" || forward == kNone || units_.unit_of[forward] == kNone) return false;
    return NameOf(units_.units[units_.unit_of[forward]].scope).is_weighted;
  }

  Place PlaceInNode(ScopeIndex scope, ScopeIndex node) {
    const ScopeIndex parent = scopes_.parent[scope];
    if (scope == node) return PlaceOfNode(node);
    if (model_.RoleOf(scope) == ScopeRole::kEvaluate) return EvaluatePlace(node);
    if (parent == kNone) return {};
    Place place = of_scope_[parent];
    if (parent == node && NameOf(scope).is_product && units_.unit_of[scope] == kNone) {
      place.direction = products_->DirectionOf(node, scope);
    } else if (model_.RoleOf(parent) == ScopeRole::kEvaluate && IsBiasSum(scope, node)) {
      place.direction = LayerDirection::kBackwardBias;
    }
    return place;
  }

  // The engine's scope begins before its node.
  Place EvaluatePlace(ScopeIndex node) const {
    if (model_.RoleOf(node) == ScopeRole::kAccumulate) {
      return {last_layer_[scopes_.thread[node]], LayerDirection::kBackwardWeights};
    }
    return {LayerOfNode(node), LayerDirection::kBackward};
  }

  bool IsTorchScope(ScopeIndex scope) const {
    const Kind kind = scopes_.look[scope].kind;
    return kind == Kind::kFrameworkOp || kind == Kind::kBackwardNode || kind == Kind::kFrameworkRange;
  }

  void PlaceScope(ScopeIndex scope) {
    if (IsOptimizer(model_.RoleOf(scope))) {
      PlaceOptimizer(scope);
      return;
    }
    if (!IsTorchScope(scope)) return;
    const UnitIndex unit = units_.unit_of[scope];
    const ScopeIndex node = units_.NodeOf(scopes_, scope);
    if (unit != kNone) {
      of_scope_.Set(scope, PlaceOfUnit(unit));
    } else if (node != kNone) {
      of_scope_.Set(scope, PlaceInNode(scope, node));
    }
  }

  // The scope around the optimizer's ops: its own time belongs to the optimizer, too, even without recorded ops; not if
  // it may be a closure's and no stack tells.
  void PlaceOptimizer(ScopeIndex scope) {
    if (model_.python_stacks.empty() && units_.closures.contains(scope)) return;
    const std::string name = "optimizer (" + NameOf(scope).op + ")";
    const auto [at, is_new] = optimizers_.try_emplace(name, kNone);
    for (LayerIndex i = 0; i < attribution_->layers.size() && at->second == kNone; ++i) {
      if (attribution_->layers[i].name == name) at->second = i;
    }
    if (at->second == kNone)
      at->second = attribution_->Add({.name = name, .type = "optimizer", .evidence = Evidence::kFramework});
    of_scope_.Set(scope, {at->second, LayerDirection::kUpdate});
  }

  const TraceModel& model_;
  const ScopeColumns& scopes_;
  const std::vector<ScopeName>& names_;
  const std::vector<PythonPlace> places_;
  const TorchUnits units_;
  decltype(Attribution::of_scope)& of_scope_;
  Attribution* const attribution_;
  LayerIndex first_layer_ = 0;
  decltype(UnitLayers::of_unit) layer_of_unit_;
  std::vector<LayerIndex> last_layer_;       // by thread: the layer of the previous backward node
  const TorchProducts* products_ = nullptr;  // while Link runs
  std::map<std::string, LayerIndex> optimizers_;
};

}  // namespace

void LinkTorch(const TraceModel& model, const std::vector<ScopeName>& names, Attribution* attribution) {
  TorchLinker(model, names, attribution).Link();
}

}  // namespace dlhook::analyzer::framework
