// Additions to calls' records: runtime/parts.h.
#include "preload/counters/counters.h"
#include "preload/format/clock.h"
#include "preload/gpu/gpu_time.h"
#include "preload/runtime/config.h"
#include "preload/runtime/parts.h"
#include "preload/unwind/native_stack.h"

namespace dlhook::inline process {
namespace {

// Since the call began, by the function itself or a signal handler: the child's state is wiped.
bool WasForked(const ThreadState* thread) { return thread->active == 0; }

bool CountsCalls() { return GetConfig().counters[0] != '\0' && GetConfig().counters_at == CountersAt::kCall; }

bool IsLongEnough(const ThreadState* thread, uint64_t duration_ticks) {
  uint64_t least_ns = GetConfig().stacks_min_ns;
  if (least_ns == 0) return true;
  return static_cast<double>(duration_ticks) * 1e9 >=
         static_cast<double>(least_ns) * static_cast<double>(TicksPerSecond(*thread->session));
}

}  // namespace

uint32_t HostDetailFamilies() { return GetConfig().stack_families | (CountsCalls() ? GetConfig().families : 0); }

uint32_t DetailFamilies() { return HostDetailFamilies() | GpuFamilies(); }

void BeginCallDetail(ThreadState* thread, uint32_t family_bit, uint64_t sequence) {
  if (WasForked(thread)) return;
  if ((GpuFamilies() & family_bit) != 0) BeginGpuCall(thread, sequence);
  if (CountsCalls()) ReadCounters(thread);
}

uint32_t EndCallDetail(ThreadState* thread, uint32_t family_bit, uint64_t duration_ticks) {
  if (WasForked(thread)) return 0;
  if (CountsCalls()) ReadCounters(thread);
  if ((GpuFamilies() & family_bit) != 0) EndGpuCall(thread);
  bool wanted = (GetConfig().stack_families & family_bit) != 0 && IsLongEnough(thread, duration_ticks);
  return wanted ? CaptureNativeStack(thread) : 0;
}

}  // namespace dlhook::inline process
