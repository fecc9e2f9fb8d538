#include "preload/drain/thread_look.h"

namespace dlhook::inline drain {

// The first look stands for nothing: what the thread did before is not known.
void LookAtThread(ProcFiles* files, BlockedLook look, uint64_t ticks_per_second, const BlockedObserver& observer,
                  ThreadStates* states) {
  char text[1024];
  // Not readable where tracing is restricted.
  const bool is_told = ReadProcFile(files, ProcFile::kSyscall, text, sizeof text);
  const bool is_blocked = is_told ? ParseBlockedIn(text, &look.blocked_in)
                                  : ReadProcFile(files, ProcFile::kStat, text, sizeof text) && IsBlocked(text);
  if (!is_blocked || look.since_ticks == 0) return;
  look.system_call = text;
  if (is_told && observer.see != nullptr) observer.see(observer.self, look);
  states->blocked_ns[static_cast<uint32_t>(look.blocked_in)] += static_cast<uint64_t>(
      static_cast<double>(look.ticks - look.since_ticks) * 1e9 / static_cast<double>(ticks_per_second));
}

CounterReading StatesReading(uint64_t ticks, uint64_t task_clock_ns, const ThreadStates& states) {
  CounterReading reading = {ticks, 0, 0, {task_clock_ns, states.queued_ns}};
  memcpy(reading.values + 2, states.blocked_ns, sizeof states.blocked_ns);
  return reading;
}

}  // namespace dlhook::inline drain
