// For test_layers.py: prints the layer of each backward node of a run, one line per node: NUMBER NAME
// MODULE-OF-THE-LAYER LAYER, separated by tabs; then of each product with operands: "product" MODULE-OF-THE-LAYER
// DIRECTION ADDRESS-OF-A ADDRESS-OF-B. The table `layers` only has their sums.
#include <cinttypes>
#include <cstdio>

#include "analyzer/layers/attribution.h"
#include "analyzer/layers/framework/framework_links.h"
#include "analyzer/reader/load_run.h"

int main(int argc, char** argv) {
  using namespace dlhook::analyzer;
  const absl::StatusOr<LoadedRun> run = LoadRun(argc > 1 ? argv[1] : "");
  if (!run.ok()) {
    std::fprintf(stderr, "%s\n", run.status().ToString().c_str());
    return 1;
  }
  const TraceModel& model = run->model;
  const Attribution attribution = AttributeByFramework(model);
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    if (model.scopes.look[scope].kind != ScopeKind::kBackwardNode) continue;
    const Place& place = attribution.of_scope[scope];
    const Layer none;
    const Layer& layer = place.layer == kNone ? none : attribution.layers[place.layer];
    std::printf("%lld\t%s\t%s\t%s\n", static_cast<long long>(model.scopes.link[scope]),
                model.names[model.scopes.look[scope].name].c_str(), layer.module.c_str(), layer.name.c_str());
  }
  for (const CallIndex call : model.operands.call) {
    const Place& place = attribution.of_call[call];
    const absl::Span<const uint64_t> operands = model.OperandsOf(call);
    if (place.layer == kNone || operands.size() < 3) continue;
    std::printf("product\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\n", attribution.layers[place.layer].module.c_str(),
                LayerDirectionName(place.direction), operands[0], operands[1]);
  }
  return 0;
}
