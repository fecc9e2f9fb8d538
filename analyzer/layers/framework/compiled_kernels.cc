#include "absl/container/flat_hash_set.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/layers/framework/framework_links.h"

namespace dlhook::analyzer::inline framework {
namespace {

struct Kernel {
  const CompiledCode* code;
  std::vector<const CompiledCode*> parts;  // of several modules
};
using Kernels = std::vector<Kernel>;

constexpr char kLoop[] = "compiled loop";
constexpr absl::string_view kTriton = "triton_";  // how its kernels' names begin
constexpr char kOtherOrder[] = "a run of a compiled region whose operators are not those of its code, in its order";

class KernelPlacer {
 public:
  KernelPlacer(const TraceModel& model, const std::vector<bool>& in_compiler, Attribution* attribution)
      : model_(model),
        scopes_(model.scopes),
        in_compiler_(in_compiler),
        places_(ReadPythonPlaces(model)),
        modules_(NameModules(model, places_)),
        attribution_(*attribution) {
    Kernels* last = nullptr;
    for (const CompiledCode& code : model.compiled) {
      if (code.kind == CompiledKind::kKernel) {
        last = &kernels_[{code.process, code.region, GraphOf(code.is_backward, code.count)}];
        last->push_back({&code, {}});
      } else if (code.kind == CompiledKind::kKernelPart && last != nullptr) {
        last->back().parts.push_back(&code);
      }
    }
    NoteLaunches();
  }

  void PlaceRun(const CompiledRun& run) {
    const ProcessIndex process = model_.threads[scopes_.thread[run.scope]].process;
    const auto found = kernels_.find({process, run.region, GraphOf(run.is_backward, run.graph)});
    if (found == kernels_.end()) return;
    const Kernels& kernels = found->second;
    const auto [ops, launches] = WorkOf(run.scope, kernels);
    std::vector<size_t> reported, launched;
    for (size_t i = 0; i < kernels.size(); ++i) (IsTritons(kernels[i]) ? launched : reported).push_back(i);
    const bool is_same = std::equal(ops.begin(), ops.end(), reported.begin(), reported.end(), [&](auto op, size_t i) {
      return model_.names[scopes_.look[op].name] == kernels[i].code->function;
    });
    if (!is_same) {
      if (!ops.empty()) ++attribution_.oddities[kOtherOrder];  // the replay of a CUDA graph calls none
      return;
    }
    for (size_t i = 0; i < ops.size(); ++i) {
      const Place place = PlaceOf(kernels, reported[i], run);
      if (place.layer != kNone) PlaceOperator(ops[i], place);
    }
    const bool are_launched =
        std::equal(launches.begin(), launches.end(), launched.begin(), launched.end(), [&](CallIndex call, size_t i) {
          return model_.ops[model_.calls.op[call]].kernel_name == kernels[i].code->function;
        });
    for (size_t i = 0; are_launched && i < launches.size(); ++i) {
      const Place place = PlaceOf(kernels, launched[i], run);
      if (place.layer != kNone) launch_places_[launches[i]] = place;
    }
  }

  LaunchPlaces TakeLaunchPlaces() { return std::move(launch_places_); }

 private:
  // A forward pass runs all graphs of its region, a backward pass one.
  static int64_t GraphOf(bool is_backward, int64_t graph) { return is_backward ? graph : -1; }

  static bool IsTritons(const Kernel& kernel) { return absl::StartsWith(kernel.code->function, kTriton); }

  // By thread and scope, in order.
  void NoteLaunches() {
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      const ScopeIndex scope = model_.calls.ScopeOf(call);
      const bool is_it = scope != kNone && absl::StartsWith(model_.ops[model_.calls.op[call]].kernel_name, kTriton);
      if (is_it) launches_[scope].push_back(call);
    }
  }

  // No layer: it stays in its region.
  Place PlaceOf(const Kernels& kernels, size_t number, const CompiledRun& run) {
    const auto& [code, parts] = kernels[number];
    const bool is_own_known = scopes_.look[run.forward].stack != kNone;
    const auto is_known = [&](const CompiledCode* one) { return is_own_known || !absl::StartsWith(one->module, "."); };
    if (!code->module.empty() && is_known(code)) return {LayerOf(*code, run.forward), DirectionOf(*code)};
    if (!parts.empty() && absl::c_all_of(parts, is_known)) {
      return {LoopOf(kernels[number], number, run), DirectionOf(*code)};
    }
    if (code->part != CompiledPart::kRecompute) return {};
    return {attribution_.of_scope[run.scope].layer, LayerDirection::kRecompute};
  }

  // The operators that the run's code calls, as far as the compiler knows such, and the kernels of Triton's that it launches.
  std::pair<std::vector<ScopeIndex>, std::vector<CallIndex>> WorkOf(ScopeIndex run, const Kernels& kernels) const {
    absl::flat_hash_set<absl::string_view> known;
    for (const Kernel& kernel : kernels) known.insert(kernel.code->function);
    std::vector<ScopeIndex> ops;
    std::vector<CallIndex> launches;
    absl::flat_hash_set<ScopeIndex> code = {run};
    for (ScopeIndex scope = run + 1; IsIn(scope, run); ++scope) {
      const StackIndex stack = scopes_.look[scope].stack;
      const bool is_compiling = stack != kNone && in_compiler_[stack];  // the backward pass, when it runs first
      if (is_compiling || !code.contains(scopes_.parent[scope])) continue;
      const std::string& name = model_.names[scopes_.look[scope].name];
      if (known.contains(name)) ops.push_back(scope);
      if (model_.RoleOf(scope) == ScopeRole::kCompiledCode) code.insert(scope);
    }
    for (auto at = launches_.lower_bound(run); at != launches_.end() && (at->first == run || IsIn(at->first, run));
         ++at) {
      if (code.contains(at->first)) launches.insert(launches.end(), at->second.begin(), at->second.end());
    }
    return {ops, launches};
  }

  bool IsIn(ScopeIndex scope, ScopeIndex outer) const {
    return scope < scopes_.size() && scopes_.thread[scope] == scopes_.thread[outer] &&
           scopes_.start_ns[scope] < scopes_.EndOf(outer);
  }

  static LayerDirection DirectionOf(const CompiledCode& kernel) {
    if (!kernel.is_backward) return LayerDirection::kForward;
    return kernel.part == CompiledPart::kData        ? LayerDirection::kBackwardData
           : kernel.part == CompiledPart::kWeights   ? LayerDirection::kBackwardWeights
           : kernel.part == CompiledPart::kRecompute ? LayerDirection::kRecompute
                                                     : LayerDirection::kBackward;
  }

  void PlaceOperator(ScopeIndex op, const Place& place) {
    attribution_.of_scope.Set(op, place);
    absl::flat_hash_set<ScopeIndex> inside = {op};
    for (ScopeIndex scope = op + 1; IsIn(scope, op); ++scope) {
      if (!inside.contains(scopes_.parent[scope])) continue;
      inside.insert(scope);
      attribution_.of_scope.Set(scope, place);
    }
  }

  // The module whose function the region is.
  const ModuleName* ModuleOf(ScopeIndex region) const {
    const StackIndex stack = scopes_.look[region].stack;
    const ModuleIndex module = stack == kNone ? kNone : places_[stack].module();
    return module == kNone ? nullptr : &modules_[module];
  }

  LayerIndex LayerOf(const CompiledCode& kernel, ScopeIndex region) {
    const ModuleName* const around = ModuleOf(region);
    absl::string_view inner = kernel.module;
    std::string name;
    if (absl::ConsumePrefix(&inner, ".") && around != nullptr && !around->is_root) name = around->name;
    if (!inner.empty()) absl::StrAppend(&name, name.empty() ? "" : ".", inner);
    const std::string model = around == nullptr ? "" : around->model;
    const auto [at, is_new] = layer_by_name_.try_emplace({model, name}, kNone);
    if (is_new) at->second = FindOrAdd(model, name, kernel);
    Layer& layer = attribution_.layers[at->second];
    if (kernel.by_order) layer.evidence = std::max(layer.evidence, Evidence::kOrder);
    return at->second;
  }

  // "0/0 backward loop 3: bn, act". What is of no module stays with the region.
  LayerIndex LoopOf(const Kernel& kernel, size_t number, const CompiledRun& run) {
    const std::string title = absl::StrCat(run.region, run.graph > 0 ? absl::StrCat(" graph ", run.graph + 1) : "",
                                           run.is_backward ? " backward" : "", " loop ", number + 1);
    // Several modules of one class, also of several networks, may run the same code.
    const ModuleName* const around = ModuleOf(run.forward);
    const auto owner =
        around == nullptr ? std::pair<std::string, std::string>() : std::pair(around->model, around->name);
    const auto [at, is_new] = loop_by_title_.try_emplace({kernel.code->process, title, owner}, kNone);
    if (!is_new) return at->second;
    double elements = 0;
    for (const CompiledCode* part : kernel.parts) elements += static_cast<double>(part->count);
    Layer loop = {.type = kLoop, .evidence = Evidence::kFramework};
    std::vector<std::string> names;
    for (const CompiledCode* part : kernel.parts) {
      const double share = static_cast<double>(part->count) / elements;
      if (!(share > 0)) continue;
      const LayerIndex layer =
          part->module.empty() ? attribution_.of_scope[run.scope].layer : LayerOf(*part, run.forward);
      if (layer == kNone) continue;
      loop.loop_parts.push_back({layer, share});
      names.push_back(attribution_.layers[layer].name);
    }
    loop.name = absl::StrCat(title, ": ", absl::StrJoin(names, ", "));
    return at->second = attribution_.Add(std::move(loop));
  }

  LayerIndex FindOrAdd(const std::string& model, const std::string& name, const CompiledCode& kernel) {
    for (LayerIndex i = 0; i < attribution_.layers.size(); ++i) {
      if (attribution_.layers[i].model == model && attribution_.layers[i].name == name) return i;
    }
    absl::string_view op = kernel.function;
    // "aoti_torch_cpu_addmm_out": inductor's C++ calls operators by functions of its own.
    const bool is_operator = absl::ConsumePrefix(&op, "aten::") || absl::ConsumePrefix(&op, "aoti_torch_cpu_");
    return attribution_.Add({.model = model,
                             .name = name,
                             .module = name,
                             .type = is_operator ? WorkOfOp(absl::StripSuffix(op, "_out")) : kLoop,
                             .evidence = Evidence::kFramework});
  }

  const TraceModel& model_;
  const ScopeColumns& scopes_;
  const std::vector<bool>& in_compiler_;
  const std::vector<PythonPlace> places_;
  const std::vector<ModuleName> modules_;
  Attribution& attribution_;
  std::map<std::tuple<ProcessIndex, std::string, int64_t>, Kernels> kernels_;  // by region and GraphOf()
  std::map<ScopeIndex, std::vector<CallIndex>> launches_;                      // of Triton's kernels
  LaunchPlaces launch_places_;
  std::map<std::pair<std::string, std::string>, LayerIndex> layer_by_name_;
  std::map<std::tuple<ProcessIndex, std::string, std::pair<std::string, std::string>>, LayerIndex> loop_by_title_;
};

}  // namespace

LaunchPlaces PlaceCompiledKernels(const TraceModel& model, const std::vector<CompiledRun>& runs,
                                  const std::vector<bool>& in_compiler, Attribution* attribution) {
  KernelPlacer placer(model, in_compiler, attribution);
  for (const CompiledRun& run : runs) placer.PlaceRun(run);
  return placer.TakeLaunchPlaces();
}

}  // namespace dlhook::analyzer::framework
