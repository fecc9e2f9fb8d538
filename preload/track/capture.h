// Streams being captured into CUDA graphs: calls made on them are recorded by CUDA, not executed.
// Thread: any application thread. One load if nothing is being captured.
#pragma once

#include <atomic>
#include <cstdint>

namespace dlhook::inline track {

// cudaStreamBeginCapture and its variants, after success; `real`: the called function, whose library answers later
// queries about streams.
struct BeginCaptureArgs {
  const void* stream = nullptr;
  int32_t status = 0;
  const void* real = nullptr;
};
void TrackBeginCapture(const BeginCaptureArgs& args);
// cudaStreamEndCapture, successful or not.
struct EndCaptureArgs {
  const void* stream = nullptr;
  int32_t status = 0;
  const void* real = nullptr;
};
void TrackEndCapture(const EndCaptureArgs& args);

extern std::atomic<int32_t> g_open_captures;
bool AskWhetherCaptured(const void* stream);

// Whether calls on `stream` are being captured.
inline bool IsCaptured(const void* stream) {
  return __builtin_expect(g_open_captures.load(std::memory_order_relaxed) > 0, 0) && AskWhetherCaptured(stream);
}

// cudaProfilerStart and cudaProfilerStop, and the driver's: with DLHOOK_START=profiler they start and stop recording in their
// process, as with `nsys profile --capture-range=cudaProfilerApi`. Otherwise they mean nothing, so that nothing is lost.
// Thread: any application thread.
struct ProfilerRangeArgs {
  int32_t status = 0;  // ignored: the program means it, whatever a library without a profiler answers
  const void* real = nullptr;
};
void TrackProfilerStart(const ProfilerRangeArgs& args);
void TrackProfilerStop(const ProfilerRangeArgs& args);

}  // namespace dlhook::inline track
