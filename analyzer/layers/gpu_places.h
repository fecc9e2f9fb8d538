// Where GPU work belongs: layer and direction, when it was requested, and which kind of work it is.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline layers {

// Kinds of GPU work that the overlap metrics distinguish.
enum class GpuWork : uint8_t { kCompute, kCopy, kCommunication };

// Communication: done for a collective call, or by a kernel that is one by its name. Copy: copies and memsets, and copy
// calls timed by events. Compute: the rest.
GpuWork GpuWorkOf(const TraceModel& model, GpuIndex activity);

// The place of each activity: that of the call that it was done for (or of the calls around it, if that has none), else
// that of the scope in which it was requested.
std::vector<Place> GpuPlaces(const TraceModel& model, const Attribution& attribution);

// When it was requested, on the host's clock: the start of its launching call, else requested_ns, else its own start.
int64_t GpuAskedNs(const TraceModel& model, GpuIndex activity);

// The work of CUDA graph launches: the network's ops in the order in which they were captured, for steps that consist
// only of a graph launch. Needs GPU times: a graph's nodes make no calls.
// Consecutive work for one layer in one direction.
struct ReplayedPart {
  Place place;
  ScopeIndex scope = kNone;  // in which its first part was captured
};

// By the call that launched the graph: work with a direction, ordered by time on the GPU. Linear in activities.
using GraphReplays = absl::flat_hash_map<CallIndex, std::vector<ReplayedPart>>;
GraphReplays FindGraphReplays(const TraceModel& model, const Attribution& attribution);

}  // namespace dlhook::analyzer::layers
