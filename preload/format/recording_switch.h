// Starts and stops the recording of a process: by dlhook ctl, and by the program's own calls (DLHOOK_START=profiler).
#pragma once

#include "preload/format/clock.h"
#include "preload/format/session.h"

namespace dlhook::inline format {

inline void SetRecording(bool record, SessionHeader* session) {
  if ((session->stopped.load() == 0) == record) return;
  session->stopped_ticks.store(ReadTicks(static_cast<ClockKind>(session->clock_kind)));
  session->stopped.store(record ? 0 : 1);
  session->enabled_families.store(record ? session->configured_families : 0);
}

}  // namespace dlhook::inline format
