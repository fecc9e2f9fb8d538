#include "preload/track/capture.h"

#include "preload/format/session.h"
#include "preload/link/library_api.h"
#include "preload/runtime/config.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline track {
namespace {

using IsCapturing = int (*)(const void* stream, int* status);

struct CaptureApi {
  IsCapturing is_capturing;
  void Load(const void* real) {
    void* found = LibraryFunction(real, "cudaStreamIsCapturing");
    if (found == nullptr) found = LibraryFunction(real, "cuStreamIsCapturing");
    is_capturing = reinterpret_cast<IsCapturing>(found);
  }
};

// From the library through which the last capture was begun.
std::atomic<IsCapturing> g_is_capturing{nullptr};

// The first of them may be the first hooked call of the process.
void Switch(bool record) {
  if (GetConfig().start != StartMode::kProfiler) return;
  ThreadState* thread = dlhook_thread;
  if (thread == nullptr || thread->active == 0) thread = AttachThread(GetConfig().families);
  if (thread != nullptr) SetRecording(record, thread->session);
}

}  // namespace

std::atomic<int32_t> g_open_captures{0};

void TrackBeginCapture(const BeginCaptureArgs& args) {
  if (args.status != 0) return;
  const CaptureApi* api = ApiOf<CaptureApi>(args.real);
  if (api != nullptr) g_is_capturing.store(api->is_capturing, std::memory_order_release);
  g_open_captures.fetch_add(1, std::memory_order_relaxed);
}

void TrackEndCapture(const EndCaptureArgs& args) {
  // A capture has also ended if it was invalidated (901) or left work unjoined (904). Other errors mean that there was
  // none on this stream; it may continue on another. A count that is too high costs one query per call, one too low
  // loses captures.
  constexpr int32_t kInvalidated = 901;
  constexpr int32_t kUnjoined = 904;
  if (args.status != 0 && args.status != kInvalidated && args.status != kUnjoined) return;
  int32_t open = g_open_captures.load(std::memory_order_relaxed);
  while (open > 0 && !g_open_captures.compare_exchange_weak(open, open - 1, std::memory_order_relaxed)) {
  }
}

bool AskWhetherCaptured(const void* stream) {
  // The legacy stream (null or handle 1) can't be captured; a query about it would be an error that the program might
  // see (cudaErrorStreamCaptureImplicit).
  if (reinterpret_cast<uintptr_t>(stream) <= 1) return false;
  IsCapturing is_capturing = g_is_capturing.load(std::memory_order_acquire);
  int status = 0;
  return is_capturing != nullptr && is_capturing(stream, &status) == 0 && status == 1;
}

void TrackProfilerStart(const ProfilerStartArgs&) { Switch(true); }
void TrackProfilerStop(const ProfilerStopArgs&) { Switch(false); }

}  // namespace dlhook::inline track
