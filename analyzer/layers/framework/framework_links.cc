#include "analyzer/layers/framework/framework_links.h"

#include "absl/container/flat_hash_set.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/model/scope_looks.h"
#include "preload/format/taps.h"

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
      const ScopeIndex op = OpOn(master, model_.calls.start_ns[call], model_.calls.EndOf(call));
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
    if (scope == kNone || model.ops[calls.op[call]].family == kProfilerFamily) continue;
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
  absl::c_iota(order, 0);
  absl::c_stable_sort(order, [&](LayerIndex a, LayerIndex b) {
    if (first[a].first == INT64_MIN && first[b].first == INT64_MIN) return a < b;
    return first[a] < first[b];
  });
  std::erase_if(order, [&](LayerIndex layer) { return first[layer].second == kNever; });  // it has no calls or scopes
  KeepLayers(order, attribution);
}

constexpr char kXlasCompilation[] = "compilation (XLA)";
constexpr char kNoProgram[] = "the program is not in the trace: only its name is known";

LayerDirection DirectionOf(CompiledPass pass) {
  static constexpr LayerDirection kDirections[] = {LayerDirection::kUnknown, LayerDirection::kForward,
                                                   LayerDirection::kBackward, LayerDirection::kRecompute,
                                                   LayerDirection::kUpdate};
  static_assert(std::size(kDirections) == static_cast<size_t>(CompiledPass::kUpdate) + 1);
  return kDirections[static_cast<size_t>(pass)];
}

std::string TypeOfPrimitive(const CompiledOp& op) {
  if (absl::StartsWith(op.primitive, "conv_general")) return "convolution";
  if (absl::StartsWith(op.primitive, "dot_general")) return "linear";
  return "";
}

// JAX: the operations of programs that XLA compiled, by scopes and calls of the program's own.
class XlaLinker {
 public:
  XlaLinker(const TraceModel& model, Attribution* attribution) : model_(model), attribution_(*attribution) {}

  void Link() {
    std::vector<bool> is_of_compiler;  // by name
    for (const std::string& name : model_.names) {
      is_of_compiler.push_back(absl::StartsWith(name, kXlaCompiles) || absl::StartsWith(name, kXlaTries));
    }
    std::vector<Place> places;
    for (const CompiledOp& op : model_.compiled_ops) places.push_back({kNone, DirectionOf(op.pass)});
    const auto is_compilers = [&](const ScopeLook& look) {
      return look.kind == ScopeKind::kNvtxRange && is_of_compiler[look.name];
    };
    const auto is_xlas = [&](const ScopeLook& look) {
      return look.kind == ScopeKind::kXlaCompilation || look.kind == ScopeKind::kXlaOp || is_compilers(look);
    };
    ForEachScopeThat(model_.scopes, is_xlas, [&](ScopeIndex scope) {
      if (is_compilers(model_.scopes.look[scope])) compiles_.insert(model_.scopes.thread[scope]);
      if (model_.scopes.look[scope].kind != ScopeKind::kXlaOp) {
        attribution_.of_scope.Set(scope, {CompilationLayer(), LayerDirection::kUnknown});
        return;
      }
      const uint32_t op = CompiledLink::Of(model_.scopes.link[scope]).op;
      if (op >= places.size()) return;
      if (places[op].layer == kNone) places[op].layer = LayerOf(model_.compiled_ops[op]);
      attribution_.of_scope.Set(scope, places[op]);
    });
    if (compiles_.empty()) return;
    const auto is_other = [&](const ScopeLook& look) { return !is_compilers(look); };
    ForEachScopeThat(model_.scopes, is_other, [&](ScopeIndex s) { does_other_.insert(model_.scopes.thread[s]); });
    PlaceTrials();
  }

 private:
  // What XLA does between its ranges on threads that only compile: it fills and compares the memory of a trial.
  void PlaceTrials() {
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      const ThreadIndex thread = model_.calls.thread[call];
      if (model_.calls.ScopeOf(call) != kNone || !compiles_.contains(thread) || does_other_.contains(thread)) continue;
      attribution_.of_call[call] = {CompilationLayer(), LayerDirection::kUnknown};
    }
  }

  LayerIndex CompilationLayer() {
    const auto [at, is_new] = layers_.try_emplace(kXlasCompilation, kNone);
    if (is_new) {
      at->second =
          attribution_.Add({.name = kXlasCompilation, .type = "compilation", .evidence = Evidence::kFramework});
    }
    return at->second;
  }

  LayerIndex LayerOf(const CompiledOp& op) {
    const bool is_known = !op.layer.empty();
    const std::string name = is_known ? op.layer : absl::StrCat("compiled by XLA: ", op.program);
    const auto [at, is_new] = layers_.try_emplace(name, kNone);
    if (is_new) {
      at->second = attribution_.Add({.name = name,
                                     .module = op.has_scopes ? name : "",
                                     .evidence = Evidence::kFramework,
                                     .is_compiled_region = !is_known});
    }
    Layer& layer = attribution_.layers[at->second];
    if (!is_known && op.opcode.empty()) layer.ambiguity = kNoProgram;
    if (layer.line.empty()) layer.line = op.line;
    if (!is_known) layer.type = "compiled region";
    if (layer.type.empty()) layer.type = op.pass == CompiledPass::kUpdate ? "optimizer" : TypeOfPrimitive(op);
    return at->second;
  }

  const TraceModel& model_;
  Attribution& attribution_;
  std::map<std::string, LayerIndex> layers_;
  absl::flat_hash_set<ThreadIndex> compiles_, does_other_;
};

}  // namespace

Attribution AttributeByFramework(const TraceModel& model) {
  Attribution attribution;
  attribution.of_call.resize(model.calls.size());
  if (model.scopes.size() == 0) return attribution;
  const std::vector<ScopeName> names = ReadScopeNames(model);
  LinkTorch(model, names, &attribution);
  LinkGraphNodes(model, &attribution);
  XlaLinker(model, &attribution).Link();
  const LaunchPlaces launches = LinkCompiledRegions(model, &attribution);
  PlaceCalls(model, &attribution);
  for (const auto& [call, place] : launches) attribution.of_call[call] = place;
  OrderByFirstForward(model, launches, &attribution);
  return attribution;
}

}  // namespace dlhook::analyzer::framework
