// What work of GPUs belongs to: the layer and direction, when it was asked for, and which kind of work it is.
#ifndef DLHOOK_ANALYZER_LAYERS_GPU_PLACES_H_
#define DLHOOK_ANALYZER_LAYERS_GPU_PLACES_H_

#include <cstdint>
#include <vector>

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline layers {

// What a GPU is busy with, as the metrics of overlap tell it apart.
enum class GpuWork : uint8_t { kCompute, kCopy, kCommunication };

// Communication: computed for a collective call, or a kernel that bears NCCL's name. Copy: copies and sets, and calls
// of copies timed by events. Compute: the rest.
GpuWork GpuWorkOf(const TraceModel& model, GpuIndex activity);

// The place of each activity: that of the call that it was computed for (of the calls around it where that one has
// none), else that of the scope in which it was asked for.
std::vector<Place> GpuPlaces(const TraceModel& model, const Attribution& attribution);

// When it was asked for, by the host's clock: when its launching call began, else asked_ns, else when it began itself.
int64_t GpuAskedNs(const TraceModel& model, GpuIndex activity);

}  // namespace dlhook::analyzer::layers

#endif  // DLHOOK_ANALYZER_LAYERS_GPU_PLACES_H_
