#include "analyzer/layers/framework/torch_units.h"

#include "analyzer/model/scope_looks.h"

namespace dlhook::analyzer::inline framework {
namespace {

using Kind = ScopeKind;

constexpr char kUnpaired[] = "backward nodes whose forward op was not recorded";

constexpr size_t kNearby = 64;

// Forward ops of one thread, ascending by the sequence number of the node that they created: their link.
using Numbered = std::vector<ScopeIndex>;

class UnitFinder {
 public:
  UnitFinder(const TraceModel& model, const std::vector<PythonPlace>& places)
      : model_(model), scopes_(model.scopes), places_(places) {
    found_.unit_of.Resize(scopes_.size());
    found_.linked.Resize(scopes_.size());
  }

  TorchUnits Find() {
    numbered_.resize(model_.threads.size());
    const auto is_node = [](const ScopeLook& look) { return look.kind == Kind::kBackwardNode; };
    ForEachScopeThat(scopes_, is_node, [&](ScopeIndex node) { NoteClosure(node); });
    for (ScopeIndex scope = 0; scope < scopes_.size(); ++scope) {
      PlaceInNode(scope);
      PlaceInUnit(scope);
      NoteNumber(scope);
    }
    ForEachScopeThat(scopes_, is_node, [&](ScopeIndex node) { found_.linked.Set(node, ForwardOf(node)); });
    return std::move(found_);
  }

 private:
  void NoteClosure(ScopeIndex node) {
    for (ScopeIndex scope = scopes_.parent[node]; scope != kNone; scope = scopes_.parent[scope]) {
      if (!IsOptimizer(model_.RoleOf(scope))) continue;
      int64_t& end_ns = found_.closures[scope];
      end_ns = std::max(end_ns, scopes_.EndOf(node));
    }
  }

  void PlaceInNode(ScopeIndex scope) {
    const ScopeIndex parent = scopes_.parent[scope];
    const bool is_node = scopes_.look[scope].kind == Kind::kBackwardNode;
    // The engine's scope is for another node than the one around it, not known yet.
    const bool is_other = parent == kNone || model_.RoleOf(scope) == ScopeRole::kEvaluate;
    if (!is_node) found_.linked.Set(scope, is_other ? kNone : found_.NodeOf(scopes_, parent));
    if (is_node && parent != kNone && model_.RoleOf(parent) == ScopeRole::kEvaluate) found_.linked.Set(parent, scope);
  }

  bool IsPlainOp(ScopeIndex scope) const {
    return scopes_.look[scope].kind == Kind::kFrameworkOp && model_.RoleOf(scope) != ScopeRole::kEvaluate;
  }

  ModuleIndex ModuleOf(ScopeIndex scope) const {
    const StackIndex stack = scopes_.look[scope].stack;
    return stack == kNone ? kNone : places_[stack].module();
  }

  // Inside an op called from Python, other ops are part of it, except for Functions written in Python: ops that these
  // run belong to the Function, unless a module calls them (as in a checkpointed part of a network) or torch.compile left
  // them to the program.
  bool StartsUnit(ScopeIndex scope) const {
    const ScopeIndex parent = scopes_.parent[scope];
    if (parent == kNone) return true;
    const UnitIndex around = found_.unit_of[parent];
    if (scopes_.look[scope].stack == kNone) return around == kNone && !IsPlainOp(parent);
    return around == kNone || ModuleOf(found_.units[around].scope) != ModuleOf(scope) || IsBetweenGraphs(model_, scope);
  }

  // A closure called by the optimizer runs the network, and what else the program does in it.
  bool IsUnderOptimizer(ScopeIndex scope) const {
    const StackIndex stack = scopes_.look[scope].stack;
    if (stack != kNone) {
      const PythonPlace& place = places_[stack];
      if (place.is_in_optimizer) return true;
      if (place.is_called_by_optimizer || place.is_in_backward || !place.modules.empty()) return false;
      if (model_.python_stacks[stack].is_cut) return false;  // deeper than an optimizer's own code
    }
    const int64_t start_ns = scopes_.start_ns[scope];
    for (; scope != kNone; scope = scopes_.parent[scope]) {
      if (!IsOptimizer(model_.RoleOf(scope))) continue;
      const auto closure = found_.closures.find(scope);
      return closure == found_.closures.end() || start_ns >= closure->second;
    }
    return false;
  }

  bool IsUnderEvaluate(ScopeIndex scope) const {
    for (; scope != kNone; scope = scopes_.parent[scope]) {
      if (model_.RoleOf(scope) == ScopeRole::kEvaluate) return true;
    }
    return false;
  }

  // Below a backward node, gradients are computed without recording a graph. An op with a sequence number there repeats
  // a forward pass, if it was called from a module or from the user's lines.
  bool IsRecompute(ScopeIndex scope) const {
    if (scopes_.link[scope] < 0) return false;
    const StackIndex stack = scopes_.look[scope].stack;
    return stack == kNone ? model_.python_stacks.empty() : places_[stack].runs_user_code;
  }

  void PlaceInUnit(ScopeIndex scope) { found_.unit_of.Set(scope, UnitOf(scope)); }

  UnitIndex UnitOf(ScopeIndex scope) {
    const ScopeIndex parent = scopes_.parent[scope];
    const bool is_op = IsPlainOp(scope);
    if (!is_op && scopes_.look[scope].kind != Kind::kFrameworkRange) return kNone;
    if (!is_op || !StartsUnit(scope)) return parent == kNone ? kNone : found_.unit_of[parent];
    Unit unit{.scope = scope};
    if (found_.NodeOf(scopes_, scope) != kNone || IsUnderEvaluate(scope)) {
      if (!IsRecompute(scope)) return kNone;
      unit.kind = LayerDirection::kRecompute;
    } else if (IsUnderOptimizer(scope)) {
      unit.kind = LayerDirection::kUpdate;
    }
    found_.units.push_back(unit);
    return static_cast<UnitIndex>(found_.units.size() - 1);
  }

  void NoteNumber(ScopeIndex scope) {
    const int64_t number = scopes_.link[scope];
    const bool may_make_node = scopes_.look[scope].kind == Kind::kFrameworkRange || IsPlainOp(scope);
    if (number < 0 || !may_make_node) return;
    Numbered& numbered = numbered_[scopes_.thread[scope]];
    const int64_t last = numbered.empty() ? -1 : scopes_.link[numbered.back()];
    if (last > number) return;
    if (last == number) {
      numbered.back() = scope;
    } else {
      numbered.push_back(scope);
    }
  }

  // The forward op with this number on the thread, if it began before `before_ns`.
  ScopeIndex ForwardOn(ThreadIndex thread, int64_t number, int64_t before_ns) {
    const Numbered& numbered = numbered_[thread];
    // Most nodes are close to the one before.
    const size_t last = std::min(last_found_, numbered.size());
    auto begin = numbered.begin() + static_cast<std::ptrdiff_t>(last - std::min(last, kNearby));
    auto end = numbered.begin() + static_cast<std::ptrdiff_t>(std::min(last + kNearby, numbered.size()));
    if (begin == end || scopes_.link[*begin] > number || scopes_.link[*std::prev(end)] < number) {
      begin = numbered.begin();
      end = numbered.end();
    }
    const auto is_before = [this](ScopeIndex scope, int64_t wanted) { return scopes_.link[scope] < wanted; };
    const auto at = std::lower_bound(begin, end, number, is_before);
    if (at == end || scopes_.link[*at] != number) return kNone;
    last_found_ = static_cast<size_t>(at - numbered.begin());
    return scopes_.start_ns[*at] > before_ns ? kNone : *at;
  }

  bool Fits(ScopeIndex node, ScopeIndex forward) {
    const std::pair<NameIndex, NameIndex> names = {scopes_.look[node].name, scopes_.look[forward].name};
    const auto [fits, is_new] = fits_.try_emplace(names, false);
    if (is_new) fits->second = NodeFitsOp(model_.names[names.first], model_.names[names.second]);
    return fits->second;
  }

  bool IsBetter(ScopeIndex node, ScopeIndex candidate, ScopeIndex best) {
    if (best == kNone) return true;
    const bool fits = Fits(node, candidate), best_fits = Fits(node, best);
    return fits != best_fits ? fits : scopes_.start_ns[candidate] > scopes_.start_ns[best];
  }

  ScopeIndex ForwardOf(ScopeIndex node) {
    const ThreadIndex own = scopes_.thread[node];
    const int64_t number = scopes_.link[node], start_ns = scopes_.start_ns[node];
    if (number < 0) return kNone;
    ScopeIndex forward = ForwardOn(own, number, start_ns);
    // An engine thread that recomputes uses its own numbers: names distinguish these from the forward thread's.
    if (forward == kNone || !Fits(node, forward)) {
      for (ThreadIndex thread = 0; thread < model_.threads.size(); ++thread) {
        if (thread == own || model_.threads[thread].process != model_.threads[own].process) continue;
        const ScopeIndex candidate = ForwardOn(thread, number, start_ns);
        if (candidate != kNone && (forward == kNone || Fits(node, candidate)) && IsBetter(node, candidate, forward)) {
          forward = candidate;
        }
      }
    }
    if (forward == kNone) {
      ++found_.oddities[kUnpaired];
    } else if (found_.unit_of[forward] != kNone) {
      found_.units[found_.unit_of[forward]].is_linked = true;
    }
    return forward;
  }

  const TraceModel& model_;
  const ScopeColumns& scopes_;
  const std::vector<PythonPlace>& places_;
  std::vector<Numbered> numbered_;  // by thread
  size_t last_found_ = 0;           // in one of them
  absl::flat_hash_map<std::pair<NameIndex, NameIndex>, bool> fits_;
  TorchUnits found_;
};

}  // namespace

TorchUnits FindTorchUnits(const TraceModel& model, const std::vector<PythonPlace>& places) {
  return UnitFinder(model, places).Find();
}

}  // namespace dlhook::analyzer::framework
