// Compiled regions, recognized by their ranges: see links.h.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/layers/framework/links.h"
#include "analyzer/time/gap_places.h"

namespace dlhook::analyzer::inline framework {
namespace {

using Kind = ScopeKind;

// "jit_train_step" for XLA's range "XlaModule:#hlo_module=jit_train_step,program_id=3#"; empty for other ranges.
std::string HloModule(absl::string_view name) {
  constexpr absl::string_view kKey = "hlo_module=";
  const size_t at = name.find(kKey);
  if (at == absl::string_view::npos) return "";
  name.remove_prefix(at + kKey.size());
  return std::string(name.substr(0, name.find_first_of(",#")));
}

// "0/1" for torch.compile's "Torch-Compiled Region: 0/1": the frame and its recompilation.
std::string TorchRegion(absl::string_view name) {
  const size_t colon = name.find(": ");
  return colon == absl::string_view::npos ? "" : std::string(name.substr(colon + 2));
}

class RegionLinker {
 public:
  RegionLinker(const TraceModel& model, const std::vector<ScopeName>& names, Attribution* attribution)
      : model_(model),
        scopes_(model.scopes),
        names_(names),
        attribution_(*attribution),
        region_of_(model.scopes.size(), kNone),
        in_compiler_(CompilerStacks(model)) {}

  void Link() {
    for (ScopeIndex scope = 0; scope < scopes_.size(); ++scope) {
      const ScopeIndex parent = scopes_.parent[scope];
      LayerIndex region = parent == kNone ? kNone : region_of_[parent];
      if (region == kNone) region = RegionOf(scope);
      if (region == kNone && IsInCompiler(scope)) region = CompilationLayer(&attribution_);
      if (region == kNone) continue;
      region_of_.Set(scope, region);
      attribution_.of_scope.Set(scope, {region, DirectionOf(scope)});
    }
  }

 private:
  LayerIndex RegionOf(ScopeIndex scope) {
    const std::string& name = model_.names[scopes_.name[scope]];
    if (scopes_.kind[scope] == Kind::kNvtxRange) {
      const std::string module = HloModule(name);
      return module.empty() ? kNone : LayerNamed(absl::StrCat("compiled by XLA: ", module));
    }
    if (names_[scopes_.name[scope]].role != ScopeRole::kCompiled) return kNone;
    const std::string region = TorchRegion(name);
    // Parts of a region without a name (its backward pass) belong to the last named region, if there is only one.
    if (region.empty()) return regions_.size() == 1 ? regions_.begin()->second : LayerNamed("compiled region");
    return LayerNamed(absl::StrCat("compiled region ", region));
  }

  // Whether a compiler runs it to trace a function, on tensors without data.
  bool IsInCompiler(ScopeIndex scope) const {
    const StackIndex stack = scopes_.python_stack[scope];
    return stack != kNone && in_compiler_[stack];
  }

  LayerIndex LayerNamed(const std::string& name) {
    const auto [at, is_new] = regions_.try_emplace(name, static_cast<LayerIndex>(attribution_.layers.size()));
    if (is_new) {
      Layer layer;
      layer.name = name;
      layer.type = "compiled region";
      layer.evidence = Evidence::kFramework;
      layer.is_compiled_region = true;
      attribution_.layers.push_back(std::move(layer));
    }
    return at->second;
  }

  LayerDirection DirectionOf(ScopeIndex scope) const {
    const ScopeIndex parent = scopes_.parent[scope];
    if (attribution_.layers[region_of_[scope]].type == kCompilation) return LayerDirection::kUnknown;
    if (parent != kNone && region_of_[parent] != kNone) return attribution_.of_scope[parent].direction;
    if (scopes_.kind[scope] == Kind::kNvtxRange) return LayerDirection::kUnknown;
    for (ScopeIndex around = scope; around != kNone; around = scopes_.parent[around]) {
      if (scopes_.kind[around] == Kind::kBackwardNode) return LayerDirection::kBackward;
    }
    return absl::StrContains(model_.names[scopes_.name[scope]], "Backward") ? LayerDirection::kBackward
                                                                            : LayerDirection::kForward;
  }

  const TraceModel& model_;
  const ScopeColumns& scopes_;
  const std::vector<ScopeName>& names_;
  Attribution& attribution_;
  CompactColumn<LayerIndex, int16_t> region_of_;  // by scope
  const std::vector<bool> in_compiler_;           // by stack
  std::map<std::string, LayerIndex> regions_;
};

}  // namespace

void LinkCompiledRegions(const TraceModel& model, const std::vector<ScopeName>& names, Attribution* attribution) {
  RegionLinker(model, names, attribution).Link();
}

}  // namespace dlhook::analyzer::framework
