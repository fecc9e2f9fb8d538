// The files of a session: run folder, process trace, ring mapping and the link by which other processes find it.
// Thread: the one that starts the session; the writer thread.
#pragma once

#include "preload/format/session.h"
#include "preload/runtime/config.h"
#include "preload/runtime/process_state.h"

namespace dlhook::inline runtime {

// The folder of the session's files.
struct RunPlace {
  int folder;  // descriptor; the caller closes it
  char path[4096];
  char requested[256];  // the requested folder, if another one is used
  char refusal[96];     // the reason for that
  bool for_rings;       // preferred to /dev/shm
};

// The run folder, created if missing: DLHOOK_OUT or one named by `run_key`, else one in the temporary folder where
// `dlhook report` finds it. False: none.
bool ChooseRunFolder(const Config& config, const char* run_key, RunPlace* place);

// Maps process->session (shared if possible, private memory otherwise) with `ring_bytes` and sets process->ring_path.
// Null if there is no memory at all.
SessionHeader* MapSession(ProcessState* process, const RunPlace& place);

// Creates an empty process trace with a new name "program-pid[-n].dlh", in the temporary folder if the chosen one
// fails.
bool CreateTrace(RunPlace* place, SessionHeader* session);

// process->link_name: name.ring next to the trace.
void NameLink(ProcessState* process);

// Creates the link to the ring mapping in the run folder, held by `folder`: from now on others can find it. False: they
// can't (a file system without links).
bool PublishRing(ProcessState* process, int folder);

// The holder of the lock on the ring file drains it. Needs the file by its name: kUnknown if the host may no longer
// open it, or has no descriptor left.
enum class RingLock { kOurs, kOfAnother, kUnknown };
// kOurs: held as long as `*descriptor` is open.
RingLock LockRing(const ProcessState* process, int* descriptor);

// Run folder and that of the mapping, held by descriptor: the host may change its root directory, and the run may be
// renamed. -1: not held, use the path.
struct RunFolders {
  int mapping = -1;
  int run = -1;
};
// False if the run folder is no longer at its path.
bool OpenRunFolders(const ProcessState* process, RunFolders* folders);
void CloseRunFolders(RunFolders* folders);
// After the trace was removed: recreates the run folder if it was removed too, and the link to the ring.
void RenewRunFolder(ProcessState* process, RunFolders* folders);
void RemoveRing(const ProcessState* process, const RunFolders& folders);

}  // namespace dlhook::inline runtime
