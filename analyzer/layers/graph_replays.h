// The work of CUDA graph launches: the network's ops in the order in which they were captured, for steps that consist
// only of a graph launch. Needs GPU times: a graph's nodes make no calls.
#ifndef DLHOOK_ANALYZER_LAYERS_GRAPH_REPLAYS_H_
#define DLHOOK_ANALYZER_LAYERS_GRAPH_REPLAYS_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline layers {

// Consecutive work for one layer in one direction.
struct ReplayedPart {
  Place place;
  ScopeIndex scope = kNone;  // in which its first part was captured
};

// By the call that launched the graph: work with a direction, ordered by time on the GPU. Linear in activities.
using GraphReplays = absl::flat_hash_map<CallIndex, std::vector<ReplayedPart>>;
GraphReplays FindGraphReplays(const TraceModel& model, const Attribution& attribution);

}  // namespace dlhook::analyzer::layers

#endif  // DLHOOK_ANALYZER_LAYERS_GRAPH_REPLAYS_H_
