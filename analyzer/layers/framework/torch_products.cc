#include "analyzer/layers/framework/torch_products.h"

#include "analyzer/model/gemm_shape.h"
#include "analyzer/model/scope_looks.h"

namespace dlhook::analyzer::inline framework {
namespace {

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

template <size_t kCount>
bool IsAnyOf(absl::string_view name, const absl::string_view (&names)[kCount]) {
  return absl::c_linear_search(names, name);
}

bool AddsBias(absl::string_view op) { return op.substr(0, 3) == "add" || op == "baddbmm"; }

}  // namespace

TorchProducts::TorchProducts(const TraceModel& model, const std::vector<ScopeName>& names, const TorchUnits& units)
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

// Finds the products that each backward node runs itself.
void TorchProducts::FindProducts() {
  const auto is_product = [&](const ScopeLook& look) { return names_[look.name].is_product; };
  ForEachScopeThat(scopes_, is_product, [&](ScopeIndex scope) {
    const ScopeIndex parent = scopes_.parent[scope];
    if (parent == kNone || scopes_.look[parent].kind != ScopeKind::kBackwardNode) return;
    if (units_.unit_of[scope] == kNone) products_.Add(parent, scope);
  });
  products_.Seal();
}

void TorchProducts::FindLeaves() {
  ScopeIndex product_node = kNone;
  Leaves leaves;
  const auto close = [&] {
    if (product_node == kNone || leaves.count == 0) return;
    leaves_.Add(product_node, leaves);
    lines_with_leaves_.insert(LineOf(units_.ForwardOf(product_node)));
  };
  std::vector<bool> is_view;  // by name
  for (const ScopeName& name : names_) is_view.push_back(IsAnyOf(OpOfNode(name.op), kViewNodes));
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

void TorchProducts::NoteCalls() {
  for (CallIndex call = 0; call < model_.calls.scope.size(); ++call) {
    const ScopeIndex scope = model_.calls.scope[call];
    if (scope != kNone && NameOf(scope).is_product) calls_.Add(scope, call);
  }
  calls_.Seal();
}

void TorchProducts::NoteOperands(const std::vector<uint32_t>& occurrence) {
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

// The first library call directly in the scope, if it is a matrix product; else kNone.
CallIndex TorchProducts::CallIn(ScopeIndex scope) const {
  const auto calls = calls_.Of(scope);
  return calls.empty() || !SizesOf(calls.front().second) ? kNone : calls.front().second;
}

TorchProducts::Addresses TorchProducts::AddressesOf(CallIndex call) const {
  const absl::Span<const uint64_t> operands = model_.OperandsOf(call);
  if (operands.size() < 3) return {};
  return SizesOf(call)->is_exchanged ? Addresses{operands[1], operands[0]} : Addresses{operands[0], operands[1]};
}

// aten::linear around a forward op: it multiplies its input by the transpose of its weights. kNone: none.
ScopeIndex TorchProducts::LinearAround(ScopeIndex forward) const {
  for (; forward != kNone; forward = scopes_.parent[forward]) {
    if (NameOf(forward).op == "linear") return forward;
  }
  return kNone;
}

// matmul of a matrix and tensors of more dimensions: the matrix is the second operand, for all of them.
bool TorchProducts::IsFolded(ScopeIndex forward) const {
  const ScopeIndex matmul = scopes_.parent[forward];
  if (matmul == kNone || NameOf(matmul).op != "matmul" || NameOf(forward).op != "mm") return false;
  const auto is_inside = [&](ScopeIndex scope) {
    return scope < scopes_.size() && scopes_.parent[scope] != kNone && scopes_.parent[scope] >= matmul;
  };
  ScopeIndex scope = forward + 1;
  while (is_inside(scope) && NameOf(scope).op != "_unsafe_view") ++scope;
  return is_inside(scope);
}

TorchProducts::Line TorchProducts::LineOf(ScopeIndex forward) const {
  const UnitIndex unit = units_.unit_of[forward];
  if (unit == kNone) return {kNone, scopes_.look[forward].name};
  const ScopeLook& look = scopes_.look[units_.units[unit].scope];
  return {look.stack, look.name};
}

TorchProducts::Position TorchProducts::PositionOf(ScopeIndex forward) const {
  const Line line = LineOf(forward);
  return {scopes_.thread[forward], line.first, line.second, (*occurrence_)[units_.unit_of[forward]],
          scopes_.look[forward].name};
}

TorchProducts::Leaves TorchProducts::LeavesOf(ScopeIndex node) const {
  const auto leaves = leaves_.Of(node);
  return leaves.empty() ? Leaves() : leaves.front().second;
}

// Which operand's gradient a product computes.
TorchProducts::Side TorchProducts::GradientOf(ScopeIndex node, ScopeIndex product) const {
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

TorchProducts::Side TorchProducts::GradientByOrder(ScopeIndex node, ScopeIndex product) const {
  const auto products = products_.Of(node);
  const absl::string_view op = OpOfNode(NameOf(node).op);
  if (IsAnyOf(op, kOfVector)) return Side::kSecond;
  const bool is_known = IsAnyOf(op, kSecondFirst) || IsAnyOf(op, kFirstFirst);
  if (products.size() != 2 || !is_known) return Side::kUnknown;
  return (product == products.front().second) == IsAnyOf(op, kFirstFirst) ? Side::kFirst : Side::kSecond;
}

// The operand that stays in place while the other one moves, if there are parameters and an optimizer.
TorchProducts::Side TorchProducts::WeightsThatStay(ScopeIndex forward) const {
  if (occurrence_ == nullptr || units_.unit_of[forward] == kNone) return Side::kUnknown;
  const auto seen = seen_.find(PositionOf(forward));
  if (seen == seen_.end() || seen->second.count < kMinPasses || seen->second.moves_a == seen->second.moves_b) {
    return Side::kUnknown;
  }
  return seen->second.moves_a ? Side::kSecond : Side::kFirst;
}

// The operand that holds the layer's weights.
TorchProducts::Side TorchProducts::WeightsOf(ScopeIndex node, ScopeIndex forward) const {
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
LayerDirection TorchProducts::DirectionOfOnly(ScopeIndex node, ScopeIndex forward) const {
  const ScopeIndex linear = LinearAround(forward);
  if (linear != kNone) {
    return trained_linears_.contains(linear) ? LayerDirection::kBackwardWeights : LayerDirection::kBackwardData;
  }
  const bool has_weights = LeavesOf(node).count > (AddsBias(NameOf(forward).op) ? 1 : 0);
  const bool is_vector = IsAnyOf(OpOfNode(NameOf(node).op), kOfVector);
  return has_weights && !is_vector ? LayerDirection::kBackwardWeights : LayerDirection::kBackward;
}

LayerDirection TorchProducts::DirectionOf(ScopeIndex node, ScopeIndex product) const {
  const ScopeIndex forward = units_.ForwardOf(node);
  if (forward == kNone || !NameOf(forward).is_product) return LayerDirection::kBackward;
  const Side weights = WeightsOf(node, forward), gradient = GradientOf(node, product);
  if (weights == Side::kNeither) return LayerDirection::kBackwardData;
  if (weights != Side::kUnknown && gradient != Side::kUnknown) {
    return gradient == weights ? LayerDirection::kBackwardWeights : LayerDirection::kBackwardData;
  }
  return products_.Of(node).size() == 1 ? DirectionOfOnly(node, forward) : LayerDirection::kBackward;
}

}  // namespace dlhook::analyzer::framework
