// cudaProfilerStart and cudaProfilerStop, and the driver's: with DLHOOK_START=profiler they start and stop recording in their
// process, as with `nsys profile --capture-range=cudaProfilerApi`. Otherwise they mean nothing, so that nothing is lost.
// Thread: any application thread.
#pragma once

#include <cstdint>

namespace dlhook::inline track {

struct ProfilerRangeArgs {
  int32_t status = 0;  // ignored: the program means it, whatever a library without a profiler answers
  const void* real = nullptr;
};
void TrackProfilerStart(const ProfilerRangeArgs& args);
void TrackProfilerStop(const ProfilerRangeArgs& args);

}  // namespace dlhook::inline track
