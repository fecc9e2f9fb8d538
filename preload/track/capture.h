// Streams being captured into CUDA graphs: calls made on them are recorded by CUDA, not executed.
// Thread: any application thread. One load if nothing is being captured.
#pragma once

#include "preload/hook_arguments.h"

namespace dlhook::inline track {

// cudaStreamBeginCapture and its variants, after success; `real`: the called function, whose library answers later
// queries about streams.
void TrackBeginCapture(const BeginCaptureArgs& args);
// cudaStreamEndCapture, successful or not.
void TrackEndCapture(const EndCaptureArgs& args);

extern std::atomic<int32_t> g_open_captures;
bool AskWhetherCaptured(const void* stream);

// Whether calls on `stream` are being captured.
inline bool IsCaptured(const void* stream) {
  return __builtin_expect(g_open_captures.load(std::memory_order_relaxed) > 0, 0) && AskWhetherCaptured(stream);
}

// cudaProfilerStart and cudaProfilerStop, and the driver's: with DLHOOK_START=profiler they start and stop recording in their
// process, as with `nsys profile --capture-range=cudaProfilerApi`. Otherwise they mean nothing, so that nothing is lost.
// Whatever a library without a profiler answers: the program means it.
void TrackProfilerStart(const ProfilerStartArgs& args);
void TrackProfilerStop(const ProfilerStopArgs& args);

}  // namespace dlhook::inline track
