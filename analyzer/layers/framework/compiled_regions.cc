// Calls from code compiled by XLA: see framework_links.h.
#include <vector>

#include "analyzer/layers/framework/framework_links.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline framework {
namespace {

constexpr char kRegionName[] = "compiled by XLA";
constexpr char kNoFunctionNames[] =
    "on the CPU compiled code does not say which function made the calls; of its code only products that oneDNN "
    "computed are seen";

Layer Region() {
  Layer region;
  region.name = kRegionName;
  region.type = "compiled region";
  region.ambiguity = kNoFunctionNames;
  region.evidence = Evidence::kFramework;
  region.is_compiled_region = true;
  return region;
}

// Removes layers without calls and scopes.
void RemoveEmptyLayers(Attribution* attribution) {
  std::vector<bool> is_used(attribution->layers.size());
  const auto use = [&](const Place& place) {
    if (place.layer != kNone) is_used[place.layer] = true;
  };
  std::for_each(attribution->of_call.begin(), attribution->of_call.end(), use);
  for (const Place place : attribution->of_scope) use(place);
  std::vector<LayerIndex> used;
  for (LayerIndex layer = 0; layer < is_used.size(); ++layer) {
    if (is_used[layer]) used.push_back(layer);
  }
  KeepLayers(used, attribution);
}

}  // namespace

void AttributeCompiledRegions(const TraceModel& model, Attribution* attribution) {
  std::vector<bool> is_xla;
  for (const ProcessInfo& process : model.processes) is_xla.push_back(OneDnnIsXlas(process));
  LayerIndex region = kNone;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    if (!is_xla[model.threads[model.calls.thread[call]].process] || model.calls.ScopeOf(call) != kNone) continue;
    if (model.ops[model.calls.op[call]].family != kOneDnnTap.family) continue;
    if (!model.compiled_ops.empty() && attribution->of_call[call].layer != kNone) continue;  // during an operation
    if (region == kNone) {
      region = static_cast<LayerIndex>(attribution->layers.size());
      attribution->layers.push_back(Region());
    }
    attribution->of_call[call] = {region, LayerDirection::kUnknown};
  }
  if (region == kNone) return;
  RemoveEmptyLayers(attribution);
  // If nothing is left of what shapes and order suggested, its oddities are irrelevant, too.
  if (attribution->layers.size() == 1) attribution->oddities.clear();
}

}  // namespace dlhook::analyzer::framework
