// Compiled regions, recognized by their ranges: see framework_links.h.

#include "analyzer/calls/scope_names.h"
#include "analyzer/layers/framework/framework_links.h"
#include "analyzer/time/gap_places.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline framework {
namespace {

using Kind = ScopeKind;

constexpr absl::string_view kBackwardRegion = "!";  // "!0/1/0": compiled autograd's

// Of one of the graphs of a region's function, in the order in which they run.
struct ForwardPass {
  ScopeIndex region = kNone;
  int64_t graph = 0;
};

// Most runs have none of a compiler's scopes, but tens of millions of others.
bool AnyCompiled(const TraceModel& model, const std::vector<bool>& in_compiler) {
  return !model.compiled.empty() || absl::c_count(in_compiler, true) > 0 || absl::c_any_of(model.roles, IsCompiled) ||
         absl::c_any_of(model.names, [](const auto& name) { return absl::StartsWith(name, kXlaRuns); });
}

Layer Region(const std::string& name) {
  return {.name = name, .type = "compiled region", .evidence = Evidence::kFramework, .is_compiled_region = true};
}

class RegionLinker {
 public:
  RegionLinker(const TraceModel& model, const std::vector<bool>& in_compiler, Attribution* attribution)
      : model_(model),
        scopes_(model.scopes),
        attribution_(*attribution),
        region_of_(model.scopes.size(), kNone),
        in_compiler_(in_compiler) {}

  LaunchPlaces Link() {
    FindForwardPasses();
    for (ScopeIndex scope = 0; scope < scopes_.size(); ++scope) {
      const ScopeIndex parent = scopes_.parent[scope];
      if (scopes_.look[scope].kind == Kind::kXlaOp) {
        region_of_.Set(scope, attribution_.of_scope[scope].layer);
        continue;
      }
      // A compiled function may also have the engine compute gradients, of any code.
      const bool is_outside = IsBetweenGraphs(model_, scope) || model_.RoleOf(scope) == ScopeRole::kEvaluate;
      LayerIndex region = parent == kNone || is_outside ? kNone : region_of_[parent];
      if (region == kNone || IsTorchRegion(model_, scope)) region = RegionOf(scope);
      if (IsInCompiler(scope)) region = CompilationLayer(&attribution_);
      if (region == kNone) continue;
      region_of_.Set(scope, region);
      NoteOtherLayer(scope);
      attribution_.of_scope.Set(scope, {region, DirectionOf(scope)});
    }
    ReplaceOtherLayers();
    if (model_.compiled.empty()) return {};
    return PlaceCompiledKernels(model_, runs_, in_compiler_, &attribution_);
  }

 private:
  // LinkTorch made a layer of a region's scopes, too, to which it gave what the engine does for its backward pass.
  void NoteOtherLayer(ScopeIndex scope) {
    const LayerIndex other = attribution_.of_scope[scope].layer, own = region_of_[scope];
    const bool is_region = own != kNone && attribution_.layers[own].is_compiled_region;
    if (is_region && other != kNone && attribution_.layers[other].is_compiled_region) region_of_other_[other] = own;
  }

  void ReplaceOtherLayers() {
    for (ScopeIndex scope = 0; scope < scopes_.size() && !region_of_other_.empty(); ++scope) {
      const Place place = attribution_.of_scope[scope];
      const auto at = region_of_other_.find(place.layer);
      if (at != region_of_other_.end()) attribution_.of_scope.Set(scope, {at->second, place.direction});
    }
  }

  ProcessIndex ProcessOf(ScopeIndex scope) const { return model_.threads[scopes_.thread[scope]].process; }

  // Autograd's node of a region's code has the sequence number of the scope "CompiledFunction" that made it. Of threads
  // with equal numbers none is known.
  void FindForwardPasses() {
    const auto name = absl::c_find(model_.names, kCompiledFunction);
    if (name == model_.names.end()) return;
    const auto compiled_function = static_cast<NameIndex>(name - model_.names.begin());
    std::map<ScopeIndex, int64_t> graphs;  // by region
    for (ScopeIndex scope = 0; scope < scopes_.size(); ++scope) {
      if (scopes_.look[scope].name != compiled_function || scopes_.link[scope] < 0) continue;
      ScopeIndex region = scope;
      while (region != kNone && !IsTorchRegion(model_, region)) region = scopes_.parent[region];
      if (region == kNone) continue;
      const auto at = forward_.try_emplace({ProcessOf(scope), scopes_.link[scope]}, ForwardPass{region}).first;
      const ScopeIndex other = at->second.region;
      const bool is_unclear = other == kNone || scopes_.thread[other] != scopes_.thread[region];
      at->second = is_unclear ? ForwardPass{} : ForwardPass{region, graphs[region]++};
    }
  }

  LayerIndex RegionOf(ScopeIndex scope) {
    const std::string& name = model_.names[scopes_.look[scope].name];
    if (scopes_.look[scope].kind == Kind::kNvtxRange) {
      absl::string_view program = name;
      return absl::ConsumePrefix(&program, kXlaRuns) ? LayerNamed(absl::StrCat("compiled by XLA: ", program)) : kNone;
    }
    if (!IsCompiled(model_.RoleOf(scope))) return kNone;
    const std::string region(TorchRegion(name));
    if (!region.empty()) {
      runs_.push_back({scope, scope, region, false});
      return LayerOfRegion(scope);
    }
    const auto forward = forward_.find({ProcessOf(scope), scopes_.link[scope]});
    if (forward != forward_.end() && forward->second.region != kNone) {
      const auto [around, graph] = forward->second;
      runs_.push_back({scope, around, std::string(TorchRegion(model_.names[scopes_.look[around].name])), true, graph});
      return LayerOfRegion(around);
    }
    // Otherwise a backward pass belongs to the only region, if there is only one.
    return regions_.size() == 1 ? regions_.begin()->second : LayerNamed("compiled region");
  }

  // Processes that compile the same function have the same rows.
  LayerIndex LayerOfRegion(ScopeIndex scope) {
    const auto [at, is_new] = layer_of_region_.try_emplace({ProcessOf(scope), scopes_.look[scope].name}, kNone);
    if (!is_new) return at->second;
    const std::string region(TorchRegion(model_.names[scopes_.look[scope].name]));
    const CompiledCode* const compilation = FindCompilation(model_, ProcessOf(scope), region);
    const bool is_backward = absl::StartsWith(region, kBackwardRegion);  // PyTorch made its function
    const std::string function = is_backward              ? "compiled autograd"
                                 : compilation == nullptr ? ""
                                                          : CompiledFunctionName(compilation->function);
    at->second = LayerNamed(absl::StrCat("compiled region ", region, function.empty() ? "" : ": ", function));
    if (compilation != nullptr && !is_backward) attribution_.layers[at->second].line = FileLine(*compilation);
    if (compilation != nullptr && absl::StrContains(compilation->file, "/torch/optim/")) updates_.insert(at->second);
    return at->second;
  }

  // Whether a compiler runs it to trace a function, on tensors without data.
  bool IsInCompiler(ScopeIndex scope) const {
    const StackIndex stack = scopes_.look[scope].stack;
    return stack != kNone && in_compiler_[stack];
  }

  LayerIndex LayerNamed(const std::string& name) {
    const auto [at, is_new] = regions_.try_emplace(name, kNone);
    if (is_new) at->second = attribution_.Add(Region(name));
    return at->second;
  }

  LayerDirection DirectionOf(ScopeIndex scope) const {
    const ScopeIndex parent = scopes_.parent[scope];
    const std::string& name = model_.names[scopes_.look[scope].name];
    if (attribution_.layers[region_of_[scope]].type == kCompilation) return LayerDirection::kUnknown;
    if (updates_.contains(region_of_[scope])) return LayerDirection::kUpdate;
    // Also in another region, of a function that has gradients computed.
    if (absl::StartsWith(TorchRegion(name), kBackwardRegion)) return LayerDirection::kBackward;
    if (parent != kNone && region_of_[parent] != kNone) return attribution_.of_scope[parent].direction;
    if (scopes_.look[scope].kind == Kind::kNvtxRange) return LayerDirection::kUnknown;
    for (ScopeIndex around = scope; around != kNone; around = scopes_.parent[around]) {
      if (scopes_.look[around].kind == Kind::kBackwardNode) return LayerDirection::kBackward;
    }
    return absl::StrContains(name, "Backward") ? LayerDirection::kBackward : LayerDirection::kForward;
  }

  const TraceModel& model_;
  const ScopeColumns& scopes_;
  Attribution& attribution_;
  CompactColumn<LayerIndex, int8_t> region_of_;  // by scope
  const std::vector<bool>& in_compiler_;         // by stack
  std::map<std::string, LayerIndex> regions_;
  std::map<std::pair<ProcessIndex, NameIndex>, LayerIndex> layer_of_region_;
  std::map<std::pair<ProcessIndex, int64_t>, ForwardPass> forward_;  // by sequence number
  std::map<LayerIndex, LayerIndex> region_of_other_;
  std::set<LayerIndex> updates_;  // of optimizers, whose own scopes PyTorch leaves out when it compiles them
  std::vector<CompiledRun> runs_;
};

// Removes layers without calls and scopes.
void RemoveEmptyLayers(Attribution* attribution) {
  std::vector<bool> is_used(attribution->layers.size());
  const auto use = [&](const Place& place) {
    if (place.layer != kNone) is_used[place.layer] = true;
  };
  absl::c_for_each(attribution->of_call, use);
  for (const Place place : attribution->of_scope) use(place);
  std::vector<LayerIndex> used;
  for (LayerIndex layer = 0; layer < is_used.size(); ++layer) {
    if (is_used[layer]) used.push_back(layer);
  }
  KeepLayers(used, attribution);
}

}  // namespace

LaunchPlaces LinkCompiledRegions(const TraceModel& model, Attribution* attribution) {
  const std::vector<bool> in_compiler = CompilerStacks(model);
  if (!AnyCompiled(model, in_compiler)) return {};
  return RegionLinker(model, in_compiler, attribution).Link();
}

void AttributeCompiledRegions(const TraceModel& model, Attribution* attribution) {
  std::vector<bool> is_xla;
  for (const ProcessInfo& process : model.processes) is_xla.push_back(OneDnnIsXlas(process));
  LayerIndex region = kNone;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    if (!is_xla[model.threads[model.calls.thread[call]].process] || model.calls.ScopeOf(call) != kNone) continue;
    if (model.ops[model.calls.op[call]].family != kOneDnnTap.family) continue;
    if (!model.compiled_ops.empty() && attribution->of_call[call].layer != kNone) continue;  // during an operation
    if (region == kNone) {
      region = attribution->Add(Region("compiled by XLA"));
      attribution->layers[region].ambiguity =
          "on the CPU compiled code does not say which function made the calls; of its code only products that oneDNN "
          "computed are seen";
    }
    attribution->of_call[call] = {region, LayerDirection::kUnknown};
  }
  if (region == kNone) return;
  RemoveEmptyLayers(attribution);
  // If nothing is left of what shapes and order suggested, its oddities are irrelevant, too.
  if (attribution->layers.size() == 1) attribution->oddities.clear();
}

}  // namespace dlhook::analyzer::framework
