// The offset between the clocks of host and GPU, bounded by what no clock changes.
#ifndef DLHOOK_ANALYZER_READER_GPU_CLOCK_H_
#define DLHOOK_ANALYZER_READER_GPU_CLOCK_H_

#include <cstddef>
#include <map>

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline reader {

// Work starts after the call that requested it began, and ends before a call that waited for it returned: a copy to
// pageable memory or a synchronous one from the device, and, in a process with one device, a wait for the whole device (of
// one with a single stream: for it).
// Moves the work from `first` on, of one process with these threads, as little as makes both true for each of its
// devices, and notes how far the offset is still open (TraceModel::gpu_clock_error_ns). What CUPTI did not measure keeps
// its times.
void BoundGpuClocks(size_t first, const std::map<uint32_t, ThreadIndex>& threads, TraceModel* model,
                    Oddities* oddities);

}  // namespace dlhook::analyzer::reader

#endif  // DLHOOK_ANALYZER_READER_GPU_CLOCK_H_
