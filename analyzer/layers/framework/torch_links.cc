// Assigns PyTorch's scopes and backward nodes to layers: see framework_links.h. First which gradient each matrix product of a
// backward node computes.

#include "absl/container/flat_hash_set.h"
#include "analyzer/layers/framework/framework_links.h"
#include "analyzer/layers/framework/torch_units.h"
#include "analyzer/model/beside.h"
#include "analyzer/model/gemm_shape.h"
#include "analyzer/model/scope_looks.h"

namespace dlhook::analyzer::inline framework {
namespace {

using Kind = ScopeKind;

// Values by scope, of which hardly any are out of order, and which are asked for nearly in order: a hash table of a long
// run's scopes takes more memory, and each look-up waits for it.
template <typename Value>
class NearbyMap {
 public:
  using Entry = std::pair<ScopeIndex, Value>;

  void Add(ScopeIndex scope, Value value) { entries_.emplace_back(scope, value); }
  // To be called once, when all have been added.
  void Seal() {
    const auto is_before = [](const Entry& a, const Entry& b) { return a.first < b.first; };
    if (!absl::c_is_sorted(entries_, is_before)) absl::c_stable_sort(entries_, is_before);
  }
  // Those of a scope, in the order in which they were added.
  absl::Span<const Entry> Of(ScopeIndex scope) const {
    size_t first = last_ - std::min(last_, kNearby), end = std::min(last_ + kNearby, entries_.size());
    if (first < end && entries_[first].first >= scope) first = 0;
    if (first < end && entries_[end - 1].first < scope) end = entries_.size();
    const auto begin = entries_.begin();
    const auto is_before = [](const Entry& entry, ScopeIndex wanted) { return entry.first < wanted; };
    const auto at = std::lower_bound(begin + static_cast<std::ptrdiff_t>(first),
                                     begin + static_cast<std::ptrdiff_t>(end), scope, is_before);
    last_ = static_cast<size_t>(at - begin);
    size_t count = 0;
    while (last_ + count < entries_.size() && entries_[last_ + count].first == scope) ++count;
    return absl::MakeConstSpan(entries_).subspan(last_, count);
  }

 private:
  static constexpr size_t kNearby = 32;

  std::vector<Entry> entries_;
  mutable size_t last_ = 0;  // the one found last
};

// Passes from which on staying in place counts as evidence.
constexpr int kMinPasses = 3;

// "Mm" for "MmBackward0".
absl::string_view OpOfNode(absl::string_view node) { return node.substr(0, node.rfind("Backward")); }

// autograd's code computes the gradients of a node in the alphabetical order of their operands' names: mm(self, mat2),
// bmm(self, mat2), addmm(self, mat1, mat2), baddbmm and addbmm(self, batch1, batch2).
constexpr absl::string_view kSecondFirst[] = {"Mm", "Bmm"}, kFirstFirst[] = {"Addmm", "Baddbmm", "Addbmm"};
// Their only product is the gradient of the vector: that of the matrix is an outer product.
constexpr absl::string_view kOfVector[] = {"Mv", "Addmv"};
// Nodes between a parameter and the product that reads it.
constexpr absl::string_view kViewNodes[] = {"T",      "Transpose", "View",    "UnsafeView", "Permute",
                                            "Expand", "Unsqueeze", "Squeeze", "Alias",      "ReshapeAlias",
                                            "ToCopy", "Clone",     "Select",  "Slice"};

bool AddsBias(absl::string_view op) { return op.substr(0, 3) == "add" || op == "baddbmm"; }

// For y = a b (mm, addmm, bmm …): the gradient of a is dy bT and sums over y's columns, that of b is aT dy and sums over
// its rows. So their sizes tell them apart, else what they read again, else autograd's order, which depends on the node.
// Which operand holds weights is known for linear, else from the parameters whose gradients follow the node. Where that
// does not tell either, the direction is kBackward.
class TorchProducts {
 public:
  TorchProducts(const TraceModel& model, const std::vector<ScopeName>& names, const TorchUnits& units)
      : model_(model), scopes_(model.scopes), names_(names), units_(units) {
    has_optimizer_ = absl::c_any_of(model.roles, IsOptimizer);
    for (const Op& op : model.ops) {
      std::optional<Sizes>& sizes = sizes_.emplace_back();
      const std::optional<MatmulShape> shape = MatmulShapeOf(op);
      if (!shape) continue;
      const bool is_exchanged = shape->order != "row";
      sizes = {is_exchanged ? shape->n : shape->m, is_exchanged ? shape->m : shape->n, shape->k, is_exchanged};
    }
    FindProducts();
    FindLeaves();
    NoteCalls();
  }

  // `occurrence`: which repetition of its line each unit is (CountOccurrences). Before DirectionOf.
  void NoteOperands(const std::vector<uint32_t>& occurrence) {
    occurrence_ = &occurrence;
    if (!has_optimizer_) return;
    const auto is_product = [&](const ScopeLook& look) { return names_[look.name].is_product; };
    ForEachScopeThat(scopes_, is_product, [&](ScopeIndex scope) {
      if (units_.unit_of[scope] == kNone || !lines_with_leaves_.contains(LineOf(scope))) return;
      const CallIndex call = CallIn(scope);
      const Addresses at = call == kNone ? Addresses() : AddressesOf(call);
      if (at.a == 0 || at.b == 0) return;
      Seen& seen = seen_[PositionOf(scope)];
      if (seen.count++ == 0) seen.first = at;
      seen.moves_a = seen.moves_a || at.a != seen.first.a;
      seen.moves_b = seen.moves_b || at.b != seen.first.b;
    });
  }

  // Of a product that the node runs itself.
  LayerDirection DirectionOf(ScopeIndex node, ScopeIndex product) const {
    const ScopeIndex forward = units_.ForwardOf(node);
    if (forward == kNone || !NameOf(forward).is_product) return LayerDirection::kBackward;
    const Side weights = WeightsOf(node, forward), gradient = GradientOf(node, product);
    if (weights == Side::kNeither) return LayerDirection::kBackwardData;
    if (weights != Side::kUnknown && gradient != Side::kUnknown) {
      return gradient == weights ? LayerDirection::kBackwardWeights : LayerDirection::kBackwardData;
    }
    return products_.Of(node).size() == 1 ? DirectionOfOnly(node, forward) : LayerDirection::kBackward;
  }

 private:
  enum class Side : uint8_t { kUnknown, kFirst, kSecond, kNeither };
  // A forward or backward product as its row-major program sees it.
  struct Sizes {
    int64_t m = 0, n = 0, k = 0;
    bool is_exchanged = false;  // the call's operands are b and a
  };
  struct Addresses {
    uint64_t a = 0, b = 0;  // 0: not known
  };
  // Gradients that the engine adds to parameters right after a node, except for views.
  struct Leaves {
    int count = 0;
    bool are_viewed = false;
  };
  // An op in the program: thread, stack, op, repetition, product.
  using Position = std::tuple<ThreadIndex, StackIndex, NameIndex, uint32_t, NameIndex>;
  using Line = std::pair<StackIndex, NameIndex>;
  struct Seen {
    Addresses first;
    int count = 0;
    bool moves_a = false, moves_b = false;
  };

  const ScopeName& NameOf(ScopeIndex scope) const { return names_[scopes_.look[scope].name]; }
  const std::optional<Sizes>& SizesOf(CallIndex call) const { return sizes_[model_.calls.op[call]]; }

  // Finds the products that each backward node runs itself.
  void FindProducts() {
    const auto is_product = [&](const ScopeLook& look) { return names_[look.name].is_product; };
    ForEachScopeThat(scopes_, is_product, [&](ScopeIndex scope) {
      const ScopeIndex parent = scopes_.parent[scope];
      if (parent == kNone || scopes_.look[parent].kind != ScopeKind::kBackwardNode) return;
      if (units_.unit_of[scope] == kNone) products_.Add(parent, scope);
    });
    products_.Seal();
  }

  void FindLeaves() {
    ScopeIndex product_node = kNone;
    Leaves leaves;
    const auto close = [&] {
      if (product_node == kNone || leaves.count == 0) return;
      leaves_.Add(product_node, leaves);
      lines_with_leaves_.insert(LineOf(units_.ForwardOf(product_node)));
    };
    std::vector<bool> is_view;  // by name
    for (const ScopeName& name : names_) is_view.push_back(absl::c_linear_search(kViewNodes, OpOfNode(name.op)));
    const auto is_node = [](const ScopeLook& look) { return look.kind == ScopeKind::kBackwardNode; };
    ForEachScopeThat(scopes_, is_node, [&](ScopeIndex node) {
      const bool is_same_thread = product_node != kNone && scopes_.thread[product_node] == scopes_.thread[node];
      if (model_.RoleOf(node) == ScopeRole::kAccumulate) {
        leaves.count += is_same_thread ? 1 : 0;
        return;
      }
      const ScopeIndex forward = units_.ForwardOf(node);
      if (forward != kNone && NameOf(forward).op == "t") trained_linears_.insert(LinearAround(forward));
      if (is_same_thread && is_view[scopes_.look[node].name]) {
        leaves.are_viewed = leaves.are_viewed || leaves.count == 0;
        return;
      }
      close();
      product_node = forward != kNone && NameOf(forward).is_product ? node : kNone;
      leaves = {};
    });
    close();
    leaves_.Seal();
  }

  void NoteCalls() {
    for (CallIndex call = 0; call < model_.calls.scope.size(); ++call) {
      const ScopeIndex scope = model_.calls.scope[call];
      if (scope != kNone && NameOf(scope).is_product) calls_.Add(scope, call);
    }
    calls_.Seal();
  }

  // The first library call directly in the scope, if it is a matrix product; else kNone.
  CallIndex CallIn(ScopeIndex scope) const {
    const auto calls = calls_.Of(scope);
    return calls.empty() || !SizesOf(calls.front().second) ? kNone : calls.front().second;
  }

  Addresses AddressesOf(CallIndex call) const {
    const absl::Span<const uint64_t> operands = model_.OperandsOf(call);
    if (operands.size() < 3) return {};
    return SizesOf(call)->is_exchanged ? Addresses{operands[1], operands[0]} : Addresses{operands[0], operands[1]};
  }

  // aten::linear around a forward op: it multiplies its input by the transpose of its weights. kNone: none.
  ScopeIndex LinearAround(ScopeIndex forward) const {
    for (; forward != kNone; forward = scopes_.parent[forward]) {
      if (NameOf(forward).op == "linear") return forward;
    }
    return kNone;
  }

  // matmul of a matrix and tensors of more dimensions: the matrix is the second operand, for all of them.
  bool IsFolded(ScopeIndex forward) const {
    const ScopeIndex matmul = scopes_.parent[forward];
    if (matmul == kNone || NameOf(matmul).op != "matmul" || NameOf(forward).op != "mm") return false;
    const auto is_inside = [&](ScopeIndex scope) {
      return scope < scopes_.size() && scopes_.parent[scope] != kNone && scopes_.parent[scope] >= matmul;
    };
    ScopeIndex scope = forward + 1;
    while (is_inside(scope) && NameOf(scope).op != "_unsafe_view") ++scope;
    return is_inside(scope);
  }

  Line LineOf(ScopeIndex forward) const {
    const UnitIndex unit = units_.unit_of[forward];
    if (unit == kNone) return {kNone, scopes_.look[forward].name};
    const ScopeLook& look = scopes_.look[units_.units[unit].scope];
    return {look.stack, look.name};
  }

  Position PositionOf(ScopeIndex forward) const {
    const Line line = LineOf(forward);
    return {scopes_.thread[forward], line.first, line.second, (*occurrence_)[units_.unit_of[forward]],
            scopes_.look[forward].name};
  }

  Leaves LeavesOf(ScopeIndex node) const {
    const auto leaves = leaves_.Of(node);
    return leaves.empty() ? Leaves() : leaves.front().second;
  }

  // Which operand's gradient a product computes.
  Side GradientOf(ScopeIndex node, ScopeIndex product) const {
    const CallIndex forward = CallIn(units_.ForwardOf(node)), backward = CallIn(product);
    // Of a single row or column it is not known which is which.
    if (forward != kNone && backward != kNone && SizesOf(forward)->m > 1 && SizesOf(forward)->n > 1) {
      const Sizes &y = *SizesOf(forward), &gradient = *SizesOf(backward);
      if (y.m != y.n && gradient.k == y.n) return Side::kFirst;
      if (y.m != y.n && gradient.k == y.m) return Side::kSecond;
      const Addresses read = AddressesOf(forward), again = AddressesOf(backward);
      const bool reads_a = read.a != 0 && (read.a == again.a || read.a == again.b);
      const bool reads_b = read.b != 0 && (read.b == again.a || read.b == again.b);
      if (reads_a != reads_b) return reads_b ? Side::kFirst : Side::kSecond;
    }
    return GradientByOrder(node, product);
  }

  Side GradientByOrder(ScopeIndex node, ScopeIndex product) const {
    const auto products = products_.Of(node);
    const absl::string_view op = OpOfNode(NameOf(node).op);
    if (absl::c_linear_search(kOfVector, op)) return Side::kSecond;
    const bool is_known = absl::c_linear_search(kSecondFirst, op) || absl::c_linear_search(kFirstFirst, op);
    if (products.size() != 2 || !is_known) return Side::kUnknown;
    return (product == products.front().second) == absl::c_linear_search(kFirstFirst, op) ? Side::kFirst
                                                                                          : Side::kSecond;
  }

  // The operand that stays in place while the other one moves, if there are parameters and an optimizer.
  Side WeightsThatStay(ScopeIndex forward) const {
    if (occurrence_ == nullptr || units_.unit_of[forward] == kNone) return Side::kUnknown;
    const auto seen = seen_.find(PositionOf(forward));
    if (seen == seen_.end() || seen->second.count < kMinPasses || seen->second.moves_a == seen->second.moves_b) {
      return Side::kUnknown;
    }
    return seen->second.moves_a ? Side::kSecond : Side::kFirst;
  }

  // The operand that holds the layer's weights.
  Side WeightsOf(ScopeIndex node, ScopeIndex forward) const {
    if (LinearAround(forward) != kNone || IsFolded(forward)) return Side::kSecond;
    const std::string& op = NameOf(forward).op;
    const Leaves leaves = LeavesOf(node);
    if (leaves.count <= (AddsBias(op) ? 1 : 0)) {
      const bool is_batched = op == "bmm" || op == "baddbmm";
      return is_batched && !lines_with_leaves_.contains(LineOf(forward)) ? Side::kNeither : Side::kUnknown;
    }
    const Side stays = WeightsThatStay(forward);
    // A parameter as a bias is one row: one value for each output, so the rows of the other operand are samples.
    return stays == Side::kUnknown && op == "addmm" && !leaves.are_viewed ? Side::kSecond : stays;
  }

  // Of the only product of a node whose gradients are not told apart otherwise.
  LayerDirection DirectionOfOnly(ScopeIndex node, ScopeIndex forward) const {
    const ScopeIndex linear = LinearAround(forward);
    if (linear != kNone) {
      return trained_linears_.contains(linear) ? LayerDirection::kBackwardWeights : LayerDirection::kBackwardData;
    }
    const bool has_weights = LeavesOf(node).count > (AddsBias(NameOf(forward).op) ? 1 : 0);
    const bool is_vector = absl::c_linear_search(kOfVector, OpOfNode(NameOf(node).op));
    return has_weights && !is_vector ? LayerDirection::kBackwardWeights : LayerDirection::kBackward;
  }

  const TraceModel& model_;
  const ScopeColumns& scopes_;
  const std::vector<ScopeName>& names_;
  const TorchUnits& units_;
  const std::vector<uint32_t>* occurrence_ = nullptr;
  std::vector<std::optional<Sizes>> sizes_;          // by op; nullopt: no product
  bool has_optimizer_ = false;                       // of torch.optim: parameters stay in place
  NearbyMap<ScopeIndex> products_;                   // of a backward node
  NearbyMap<CallIndex> calls_;                       // directly in products
  NearbyMap<Leaves> leaves_;                         // of a backward node
  absl::flat_hash_set<ScopeIndex> trained_linears_;  // with a gradient of their weights
  absl::flat_hash_set<Line> lines_with_leaves_;
  absl::flat_hash_map<Position, Seen> seen_;
};

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
    const LayerIndex layer = LayerOfUnit(unit);
    return {layer, layer == kNone ? LayerDirection::kUnknown : units_.units[unit].kind};
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
