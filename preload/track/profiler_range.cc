#include "preload/track/profiler_range.h"

#include "preload/format/session.h"
#include "preload/runtime/config.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline track {
namespace {

// The first of them may be the first hooked call of the process.
void Switch(bool record) {
  if (GetConfig().start != StartMode::kProfiler) return;
  ThreadState* thread = dlhook_thread;
  if (thread == nullptr || thread->active == 0) thread = AttachThread(GetConfig().families);
  if (thread != nullptr) SetRecording(record, thread->session);
}

}  // namespace

void TrackProfilerStart(const ProfilerRangeArgs&) { Switch(true); }
void TrackProfilerStop(const ProfilerRangeArgs&) { Switch(false); }

}  // namespace dlhook::inline track
