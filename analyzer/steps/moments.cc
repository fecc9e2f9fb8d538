// The activities of a process over time: see moments.h.
#include "analyzer/steps/moments.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/layers/op_facts.h"
#include "analyzer/model/scope_looks.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline steps {
namespace {

using Scope = ScopeKind;

MomentKind KindOf(Direction direction) {
  if (direction == Direction::kForward) return MomentKind::kForward;
  return IsBackward(direction) ? MomentKind::kBackward : MomentKind::kOther;
}

// A Python autograd.Function (checkpointing is one), or a compiled one, encloses what its code runs.
bool EnclosesOps(ScopeRole role) {
  return role == ScopeRole::kFunction || role == ScopeRole::kCompiledCode || role == ScopeRole::kOptimizer ||
         role == ScopeRole::kProfilerStep || role == ScopeRole::kXla;
}

// A call without a layer is ranked by its op: ops are numbered in the order of their first call, too.
uint32_t RankOf(LayerIndex layer, OpIndex op) {
  constexpr uint32_t kOpRank = 0x80000000;
  return layer != kNone ? layer : kOpRank | op;
}

constexpr ScopeIndex kSampleScopes = 1 << 16;

// Whether nearly all backward passes have no forward pass before them: the network is plain arithmetic, outside modules and libraries.
bool LacksForward(const Moments& moments) {
  size_t passes = 0, alone = 0;
  bool has_forward = false;
  MomentKind last = MomentKind::kOther;
  for (size_t i = 0; i < moments.size(); ++i) {
    const MomentKind kind = moments.KindOf(i);
    if (kind != MomentKind::kForward && kind != MomentKind::kBackward && kind != MomentKind::kUpdate) continue;
    if (kind == MomentKind::kBackward && last != kind) {
      ++passes;
      alone += has_forward ? 0 : 1;
      has_forward = false;
    }
    has_forward |= kind == MomentKind::kForward;
    last = kind;
  }
  return 4 * alone > 3 * passes;  // one forward pass may serve several updates
}

class Collector {
 public:
  // `is_plain`: whatever PyTorch runs forward is a pass.
  Collector(const TraceModel& model, const Attribution& attribution, ProcessIndex process, bool is_plain)
      : model_(model),
        attribution_(attribution),
        process_(process),
        is_plain_(is_plain),
        replays_(FindGraphReplays(model, attribution)),
        turns_(model, attribution, process, replays_),
        result_{.moments = {model, attribution}} {}

  ProcessMoments Run() {
    result_.has_compiled = turns_.has_any();
    result_.moments.SetFunctions(FunctionRuns());
    nodes_are_in_functions_ = AreMostNodesInFunctions();
    if (model_.scopes.size() > 0) CollectScopes();
    result_.moments.Order(0);
    const size_t scopes = result_.moments.size();
    CollectCalls();
    result_.moments.Order(scopes);
    result_.moments.Merge(scopes);
    return std::move(result_);
  }

 private:
  struct Closure {
    int64_t end_ns = -1;  // where the optimizer's own operations begin, else of its last scope
    bool is_open = false;
  };

  // Where TensorFlow runs a function or a session, not an operation that Python calls.
  bool RunsFunction(ScopeIndex scope) const {
    if (NameOf(scope) == "SessionRun") return true;
    while (scope != kNone && !absl::StartsWith(NameOf(scope), "EagerLocalExecute: "))
      scope = model_.scopes.parent[scope];
    return scope == kNone || absl::StartsWith(NameOf(scope), "EagerLocalExecute: __");
  }

  absl::string_view NameOf(ScopeIndex scope) const { return model_.names[model_.scopes.look[scope].name]; }

  std::vector<Moments::FunctionRun> FunctionRuns() const {
    std::vector<Moments::FunctionRun> runs;
    const auto may_run_function = [this](const ScopeLook& look) {
      const absl::string_view name = model_.names[look.name];
      return look.kind == Scope::kTraceMe && (name == "KernelAndDeviceFunc::Run" || name == "SessionRun");
    };
    ForEachScopeThat(model_.scopes, may_run_function, [&](ScopeIndex scope) {
      if (IsOfProcess(scope) && RunsFunction(scope))
        runs.push_back({model_.scopes.start_ns[scope], model_.scopes.EndOf(scope), true});
    });
    std::ranges::sort(runs, {}, &Moments::FunctionRun::start_ns);
    std::vector<Moments::FunctionRun> apart;
    for (const Moments::FunctionRun& run : runs) {
      if (apart.empty() || run.start_ns >= apart.back().end_ns)
        apart.push_back(run);
      else
        apart.back() = {apart.back().start_ns, std::max(apart.back().end_ns, run.end_ns), false};
    }
    return apart;
  }

  // Not where functions are called in a way that is not recorded.
  bool AreMostNodesInFunctions() const {
    int64_t nodes = 0, inside = 0;
    const auto is_node = [](const ScopeLook& look) { return look.kind == Scope::kGraphNode; };
    ForEachScopeThat(model_.scopes, is_node, [&](ScopeIndex scope) {
      if (!IsOfProcess(scope)) return;
      ++nodes;
      inside += result_.moments.IsInFunction(model_.scopes.start_ns[scope]) ? 1 : 0;
    });
    return nodes > 0 && 10 * inside >= 9 * nodes;
  }

  bool IsOfProcess(ScopeIndex scope) const { return model_.threads[model_.scopes.thread[scope]].process == process_; }

  void CollectScopes() {
    MarkWork();
    MarkClosures();
    MarkRegions();
    is_in_moment_.assign(model_.scopes.size(), false);
    for (ScopeIndex scope = 0; scope < model_.scopes.size(); ++scope) {
      if (scope == kSampleScopes) ReserveFor(model_.scopes.size());
      if (!IsOfProcess(scope)) continue;
      const ScopeIndex parent = model_.scopes.parent[scope];
      NoteLinks(scope);
      if (parent != kNone && is_in_moment_[parent]) {
        is_in_moment_[scope] = true;
      } else {
        AddScope(scope);
      }
    }
  }

  // For as many moments per scope as so far: growing by doubling would take up to three times the memory.
  void ReserveFor(size_t scopes) {
    result_.moments.reserve(result_.moments.size() * (scopes / kSampleScopes + 1) / 8 * 9);
  }

  // Copies do not (of a batch, of a loss, of weights on their way to the GPU), nor does communication (the first
  // broadcast of weights). Kernels launched by the framework itself do where a network has no modules.
  bool Computes(const Op& op) const {
    if (op.copy() || op.collective() || !TellsSteps(op)) return false;
    return !has_modules_ || !op.launch();
  }

  // Scopes in which a library computes something, and those that copy from the host. TensorFlow has small products computed
  // by its own code: such a node counts, too.
  void MarkWork() {
    has_modules_ = absl::c_any_of(attribution_.layers, [](const auto& layer) { return !layer.module.empty(); });
    has_work_.assign(model_.scopes.size(), false);
    arrives_.assign(model_.scopes.size(), false);
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      const Op& op = model_.ops[model_.calls.op[call]];
      if (model_.calls.parent[call] != kNone) continue;
      const CopyCall* const copy = op.copy();
      if (copy != nullptr && copy->direction == CopyDirection::kHostToDevice) MarkAround(call, arrives_);
      if (Computes(op)) MarkAround(call, has_work_);
    }
    const auto is_product = [this](const ScopeLook& look) {
      const absl::string_view name = model_.names[look.name];
      const absl::string_view kernel = name.substr(name.rfind(':') + 1);
      return look.kind == Scope::kGraphNode &&
             (absl::StrContains(kernel, "MatMul") || absl::StrContains(kernel, "Conv"));
    };
    ForEachScopeThat(model_.scopes, is_product, [this](ScopeIndex scope) { has_work_[scope] = true; });
  }

  void MarkAround(CallIndex call, std::vector<bool>& marks) const {
    ScopeIndex scope = model_.calls.ScopeOf(call);
    for (; scope != kNone && !marks[scope]; scope = model_.scopes.parent[scope]) marks[scope] = true;
  }

  // Updates that compute gradients themselves, through a closure (LBFGS): what else the closure does after them belongs
  // to it, up to the optimizer's own first operation. On a GPU the gradients are computed by another thread meanwhile.
  void MarkClosures() {
    const ScopeColumns& scopes = model_.scopes;
    update_around_.Fill(scopes.size(), kNone);
    absl::flat_hash_map<ScopeIndex, int64_t> zeroed_until_ns;
    for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
      const ScopeIndex parent = scopes.parent[scope];
      if (parent != kNone)
        update_around_.Set(scope, model_.RoleOf(parent) == ScopeRole::kOptimizerStep ? parent : update_around_[parent]);
      const ScopeIndex update = update_around_[scope];
      if (update == kNone) continue;
      int64_t& until_ns = zeroed_until_ns[update];
      if (model_.RoleOf(scope) == ScopeRole::kZeroGrad) until_ns = scopes.EndOf(scope);
      if (scopes.start_ns[scope] >= until_ns) FollowClosure(scope, closures_[update]);
    }
    absl::erase_if(closures_, [](const auto& closure) { return closure.second.end_ns < 0; });
  }

  void FollowClosure(ScopeIndex scope, Closure& closure) const {
    const ScopeColumns& scopes = model_.scopes;
    const Place place = attribution_.PlaceOfScope(scope);
    const bool is_gradient =
        scopes.look[scope].kind == Scope::kBackwardNode || model_.RoleOf(scope) == ScopeRole::kEvaluate;
    const bool is_pass = place.layer != kNone && place.direction == LayerDirection::kForward;
    if (place.direction == LayerDirection::kUpdate) {
      if (closure.is_open) closure.end_ns = std::max(closure.end_ns, scopes.start_ns[scope]);
      closure.is_open = false;
    }
    closure.is_open |= is_gradient || is_pass;
    if (closure.is_open) closure.end_ns = std::max(closure.end_ns, scopes.EndOf(scope));
  }

  // Compiled functions that have gradients computed or weights updated: what they contain are moments of their own.
  void MarkRegions() {
    if (!model_.HasRole(ScopeRole::kTorchRegion)) return;
    const ScopeColumns& scopes = model_.scopes;
    for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
      const ScopeRole role = model_.RoleOf(scope);
      const MomentKind kind = KindOf(attribution_.PlaceOfScope(scope).direction);
      const bool is_no_pass = kind == MomentKind::kBackward || kind == MomentKind::kUpdate;
      const bool is_apart = scopes.look[scope].kind == Scope::kBackwardNode || role == ScopeRole::kEvaluate ||
                            (role == ScopeRole::kTorchRegion && is_no_pass);
      ScopeIndex around = is_apart ? scopes.parent[scope] : kNone;
      for (; around != kNone; around = scopes.parent[around]) {
        if (model_.RoleOf(around) == ScopeRole::kTorchRegion) of_several_.insert(around);
      }
    }
  }

  void NoteLinks(ScopeIndex scope) {
    if (model_.scopes.look[scope].kind != Scope::kBackwardNode) return;
    result_.has_backward_scopes = true;
    if (model_.scopes.link[scope] >= 0) result_.trained_links.Insert(model_.scopes.link[scope]);
  }

  // Of a CUDA graph that an operation of XLA's launches.
  void AddGraph(ScopeIndex scope, const std::vector<ReplayedPart>& parts) {
    is_in_moment_[scope] = true;
    for (size_t i = 0; i < parts.size(); ++i) {
      Moment moment = result_.moments.OfScope(scope, KindOf(parts[i].place.direction));
      moment.KeepPart(i, parts.size());
      moment.kind = turns_.KindOf(moment);
      moment.layer = moment.rank = parts[i].place.layer;
      NoteScope(scope, moment.kind);
      result_.moments.AddApart(moment);
    }
  }

  void AddScope(ScopeIndex scope) {
    if (const std::vector<ReplayedPart>* parts = turns_.GraphOf(scope)) return AddGraph(scope, *parts);
    if (of_several_.contains(scope)) return;
    const ScopeRole role = model_.RoleOf(scope);
    MomentKind kind = KindOfScope(scope, role, attribution_.PlaceOfScope(scope));
    const bool may_contain_moments = model_.scopes.look[scope].kind != Scope::kFrameworkOp || EnclosesOps(role);
    if (kind == MomentKind::kOther && may_contain_moments) return;
    const auto closure = closures_.find(scope);
    if (closure == closures_.end()) is_in_moment_[scope] = true;
    // Before its last gradients an optimizer makes no final update; what it does after them is a part of that.
    const auto around = closures_.find(update_around_[scope]);
    if (kind == MomentKind::kUpdate && around != closures_.end()) {
      is_in_moment_[scope] = true;
      if (model_.scopes.start_ns[scope] >= around->second.end_ns) return;
      kind = MomentKind::kZeroGrad;
    }
    NoteScope(scope, kind);
    if (closure == closures_.end()) return result_.moments.AddScope(scope, kind);
    Moment moment = result_.moments.OfScope(scope, kind);
    moment.start_ns = std::min(closure->second.end_ns, moment.end_ns);
    result_.moments.AddApart(moment);
  }

  void NoteScope(ScopeIndex scope, MomentKind moment) {
    result_.has_updates |= moment == MomentKind::kUpdate;
    result_.has_forward_scopes |= moment == MomentKind::kForward;
    result_.has_backward_scopes |= moment == MomentKind::kBackward;
    const Scope kind = model_.scopes.look[scope].kind;
    result_.has_op_scopes |= kind == Scope::kFrameworkOp || kind == Scope::kGraphNode || kind == Scope::kXlaOp;
  }

  MomentKind KindOfScope(ScopeIndex scope, ScopeRole role, const Place& place) const {
    if (role == ScopeRole::kOptimizerStep) return MomentKind::kUpdate;
    if (role == ScopeRole::kZeroGrad) return MomentKind::kZeroGrad;
    if (role == ScopeRole::kInput) return MomentKind::kInput;
    switch (model_.scopes.look[scope].kind) {
      case Scope::kBackwardNode:
        return MomentKind::kBackward;
      case Scope::kGraphNode:
        return KindOfGraphNode(scope, role, place);
      case Scope::kFrameworkOp:
        return KindOfOp(scope, role, place);
      case Scope::kXlaOp:
        return turns_.KindOf(result_.moments.OfScope(scope, KindOf(place.direction)));
      default:
        return role == ScopeRole::kTorchRegion ? MomentKind::kForward : MomentKind::kOther;
    }
  }

  MomentKind KindOfOp(ScopeIndex scope, ScopeRole role, const Place& place) const {
    if (role == ScopeRole::kEvaluate) return MomentKind::kBackward;
    if (EnclosesOps(role) || IsCompilation(place)) return MomentKind::kOther;
    const MomentKind kind = KindOf(place.direction);
    if (kind == MomentKind::kBackward || kind == MomentKind::kUpdate) return kind;
    if (is_plain_ && kind == MomentKind::kForward) return kind;
    // Plain arithmetic of a program (a metric, a mean) belongs to no network, nor do the buckets of distributed
    // training.
    const bool in_module = place.layer != kNone && !attribution_.layers[place.layer].module.empty() &&
                           !absl::EndsWith(attribution_.layers[place.layer].module_type, "DataParallel");
    const bool computes = has_work_[scope] && role != ScopeRole::kConversion;
    if (computes || in_module) return MomentKind::kForward;
    return arrives_[scope] ? MomentKind::kArrival : MomentKind::kOther;
  }

  // The executor runs nodes as they become ready, so metrics run in between: only nodes that compute in a library
  // distinguish phases.
  MomentKind KindOfGraphNode(ScopeIndex scope, ScopeRole role, const Place& place) const {
    // A constant that is folded before the first run.
    if (nodes_are_in_functions_ && !result_.moments.IsInFunction(model_.scopes.start_ns[scope]))
      return MomentKind::kOther;
    if (role == ScopeRole::kGradientNode) return MomentKind::kBackward;
    const MomentKind kind = KindOf(place.direction);
    if (kind == MomentKind::kForward && !has_work_[scope]) return MomentKind::kOther;
    // What an optimizer reads is ready before the step.
    const bool is_read = kind == MomentKind::kUpdate && absl::EndsWith(NameOf(scope), ":ReadVariableOp");
    return is_read ? MomentKind::kOther : kind;
  }

  void CollectCalls() {
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      if (model_.threads[model_.calls.thread[call]].process != process_) continue;
      const Op& op = model_.ops[model_.calls.op[call]];
      if (model_.calls.parent[call] != kNone || !TellsSteps(op)) continue;
      if (result_.has_compiled && op.family == kOneDnnTap.family) continue;  // known by operations, in windows
      const ScopeIndex scope = model_.calls.ScopeOf(call);
      if ((scope != kNone && is_in_moment_[scope]) || IsOfXla(call)) continue;
      AddCall(call, op);
    }
  }

  // XLA tries algorithms while it compiles. An operation stands for the calls inside it.
  bool IsOfXla(CallIndex call) const {
    if (!result_.has_compiled) return false;
    const ScopeIndex scope = model_.calls.ScopeOf(call);
    if (scope != kNone && model_.scopes.look[scope].kind == Scope::kXlaOp) return true;
    return IsCompilation(attribution_.PlaceOfCall(call));
  }

  // A compiler may compute something, too: folds constants, packs weights. That is no pass of the network.
  bool IsCompilation(const Place& place) const {
    return place.layer != kNone && attribution_.layers[place.layer].type == "compilation";
  }

  // A graph launch stands for the calls captured into it, each with an equal part of the call's time on the host.
  void AddReplay(CallIndex call, const std::vector<ReplayedPart>& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const ReplayedPart& part = parts[i];
      Moment moment = result_.moments.OfCall(call, KindOf(part.place.direction));
      moment.KeepPart(i, parts.size());
      moment.layer = part.place.layer;
      moment.rank = RankOf(part.place.layer, model_.calls.op[call]);
      moment.link = TrainedLinkAround(part.scope);
      result_.has_updates |= moment.kind == MomentKind::kUpdate;
      result_.moments.AddApart(moment);
    }
  }

  // The sequence number of a backward node that ran, for the captured op; -1: none ran, or not known.
  int64_t TrainedLinkAround(ScopeIndex scope) const {
    for (; scope != kNone; scope = model_.scopes.parent[scope]) {
      const int64_t link = model_.scopes.link[scope];
      const bool is_op = model_.scopes.look[scope].kind == Scope::kFrameworkOp;
      if (is_op && link >= 0 && result_.trained_links.Has(link)) return link;
    }
    return -1;
  }

  void AddCall(CallIndex call, const Op& op) {
    const auto replay = replays_.find(call);
    if (replay != replays_.end()) return AddReplay(call, replay->second);
    const Place place = attribution_.PlaceOfCall(call);
    MomentKind kind = KindOf(place.direction);
    if (kind == MomentKind::kOther && !IsCompilation(place)) kind = KindOf(op.direction);
    result_.has_updates |= kind == MomentKind::kUpdate;
    result_.moments.AddCall(call, kind);
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  const ProcessIndex process_;
  const bool is_plain_;
  const GraphReplays replays_;
  const XlaTurns turns_;
  std::vector<bool> has_work_;  // by scope
  std::vector<bool> arrives_;   // by scope
  bool has_modules_ = false;
  bool nodes_are_in_functions_ = false;                          // of TensorFlow's graphs
  std::vector<bool> is_in_moment_;                               // by scope: it is one, or in one
  CompactColumn<ScopeIndex, int8_t, AsDistance> update_around_;  // by scope: the innermost update that contains it
  absl::flat_hash_set<ScopeIndex> of_several_;                   // compiled regions
  absl::flat_hash_map<ScopeIndex, Closure> closures_;            // by update
  ProcessMoments result_;
};

}  // namespace

MomentKind KindOf(LayerDirection direction) {
  if (IsBackward(direction) || direction == LayerDirection::kRecompute) return MomentKind::kBackward;
  if (direction == LayerDirection::kForward) return MomentKind::kForward;
  if (direction == LayerDirection::kUpdate) return MomentKind::kUpdate;
  return MomentKind::kOther;
}

Moment Moments::OfCall(CallIndex call, MomentKind kind) const {
  Moment moment;
  moment.start_ns = model_->calls.start_ns[call];
  moment.end_ns = moment.start_ns + model_->calls.duration_ns[call];
  moment.kind = kind;
  moment.thread = model_->calls.thread[call];
  moment.index = call;
  moment.layer = attribution_->PlaceOfCall(call).layer;
  moment.rank = RankOf(moment.layer, model_->calls.op[call]);
  return moment;
}

// Those of one thread are in order.
void Moments::Order(size_t from) {
  const auto begin = told_.begin() + static_cast<std::ptrdiff_t>(from);
  const auto is_earlier = [this](Told a, Told b) { return StartOf(a) < StartOf(b); };
  if (!std::is_sorted(begin, told_.end(), is_earlier)) std::stable_sort(begin, told_.end(), is_earlier);
}

void Moments::Merge(size_t middle) {
  std::inplace_merge(told_.begin(), told_.begin() + static_cast<std::ptrdiff_t>(middle), told_.end(),
                     [this](Told a, Told b) { return StartOf(a) < StartOf(b); });
}

ProcessMoments CollectMoments(const TraceModel& model, const Attribution& attribution, ProcessIndex process) {
  ProcessMoments result = Collector(model, attribution, process, false).Run();
  return LacksForward(result.moments) ? Collector(model, attribution, process, true).Run() : std::move(result);
}

}  // namespace dlhook::analyzer::steps
