// The files of a session: run folder, process trace, ring mapping and the link that lets others find it.
// Thread: the one that starts the session; the writer thread.
#ifndef DLHOOK_PRELOAD_CORE_SESSION_FILES_H_
#define DLHOOK_PRELOAD_CORE_SESSION_FILES_H_

#include "preload/core/config.h"
#include "preload/core/process_state.h"
#include "preload/core/session.h"

namespace dlhook {

// Maps process->session (shared where possible, private memory else) of `ring_bytes` and sets process->ring_path.
// Null where there is no memory at all.
SessionHeader* MapSession(ProcessState* process, const char* run_folder);

// Absolute run folder that can be written, made if missing; DLHOOK_OUT or one named by `run_key`, else a folder in the
// temporary directory that `dlhook report` knows to look for, with `refusal` set. False: nowhere.
bool ChooseRunFolder(const Config& config, const char* run_key, char (*folder)[4096], char (*requested)[256],
                     char (*refusal)[96]);

// Creates an empty process trace with a new name "program-pid[-n].dlh" and sets session->trace_path.
bool CreateTrace(const char* run_folder, SessionHeader* session);

// process->link_path: name.ring beside the trace.
void NameLink(ProcessState* process);

// Makes the link to the ring mapping: from now on others can find it.
void PublishRing(ProcessState* process);

// Who holds the lock on the ring file drains it. Needs the file by its name: kUnknown where the host may not open it any more, or
// has no descriptor left.
enum class RingLock { kOurs, kOfAnother, kUnknown };
// kOurs: held as long as `*descriptor` is open.
RingLock LockRing(const ProcessState* process, int* descriptor);

// Where mapping and link lie, held by descriptor: the host may change its root directory. -1: go by the path.
struct RingFolders {
  int mapping = -1;
  int link = -1;
};
void OpenRingFolders(const ProcessState* process, RingFolders* folders);
void CloseRingFolders(RingFolders* folders);
void RemoveRing(const ProcessState* process, const RingFolders& folders);

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_CORE_SESSION_FILES_H_
