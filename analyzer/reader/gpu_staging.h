// GPU work of one process trace while it is being read.
#ifndef DLHOOK_ANALYZER_READER_GPU_STAGING_H_
#define DLHOOK_ANALYZER_READER_GPU_STAGING_H_

#include <cstdint>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline reader {

// Some fields change their meaning when the work is joined with calls (gpu_join.h).
struct StagedGpu {
  // As recorded                               | as joined
  int64_t start_ns = 0;      // CLOCK_REALTIME | the run's axis
  uint64_t graph_node = 0;   //                | not used
  uint64_t sequence = 0;     //                | requested_ns
  uint32_t correlation = 0;  //                | launch_call
  uint32_t thread = 0;       // the trace's id | ThreadIndex, kNone
  uint32_t call = kNone;     // not used       | call
  uint32_t scope = kNone;    // not used       | scope
  int64_t duration_ns = 0;
  uint64_t bytes = 0;
  GpuKernelIndex kernel = kNone;
  uint32_t graph = 0;
  uint32_t device = 0;  // CUDA's ordinal
  uint32_t stream = 0;
  uint32_t queue = kNone;  // index of its queue times, kNone: none
  GpuActivityKind kind = GpuActivityKind::kUnknown;
  GpuTimeSource source = GpuTimeSource::kNone;
  CopyDirection direction = CopyDirection::kUnknown;
  HostMemory host_memory = HostMemory::kNone;

  int64_t end_ns() const { return start_ns + duration_ns; }
};
static_assert(sizeof(StagedGpu) == 80);

}  // namespace dlhook::analyzer::reader

#endif  // DLHOOK_ANALYZER_READER_GPU_STAGING_H_
