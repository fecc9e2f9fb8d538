// The thread of a recorded process that drains its rings if no other process does.
// Thread: these functions are called by application threads, the rest runs on the writer's.
#pragma once

#include "preload/runtime/process_state.h"

namespace dlhook::inline process {

// Drains the rest, writes the footer, removes the mapping's file. Waits for it with a limit: a host that exits must
// exit.
void StopWriter(ProcessState* process);

// While it exists the process has no writer thread: some system calls fail in processes with more than one thread.
class WithoutWriter {
 public:
  explicit WithoutWriter(bool wanted);
  ~WithoutWriter();
  WithoutWriter(const WithoutWriter&) = delete;
  WithoutWriter& operator=(const WithoutWriter&) = delete;

 private:
  ProcessState* process_;  // whose writer is resumed afterwards, or null
};

}  // namespace dlhook::inline process
