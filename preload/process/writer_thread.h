// The thread of a recorded process that drains its rings where nobody outside does.
// Thread: these functions are called by application threads, the rest is the writer's.
#ifndef DLHOOK_PRELOAD_PROCESS_WRITER_THREAD_H_
#define DLHOOK_PRELOAD_PROCESS_WRITER_THREAD_H_

#include "preload/runtime/process_state.h"

namespace dlhook::inline process {

// Drains the rest, writes the footer, removes the mapping's file. Waits for it, but not for ever: a host that exits
// must exit.
void StopWriter(ProcessState* process);

// While it lives the process has no writer thread: some system calls refuse processes with more than one.
class WithoutWriter {
 public:
  explicit WithoutWriter(bool wanted);
  ~WithoutWriter();
  WithoutWriter(const WithoutWriter&) = delete;
  WithoutWriter& operator=(const WithoutWriter&) = delete;

 private:
  ProcessState* process_;  // whose writer goes on afterwards, or null
};

}  // namespace dlhook::inline process

#endif  // DLHOOK_PRELOAD_PROCESS_WRITER_THREAD_H_
