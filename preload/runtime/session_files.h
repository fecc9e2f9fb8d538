// The files of a session: run folder, process trace, ring mapping and the link that lets others find it.
// Thread: the one that starts the session; the writer thread.
#ifndef DLHOOK_PRELOAD_RUNTIME_SESSION_FILES_H_
#define DLHOOK_PRELOAD_RUNTIME_SESSION_FILES_H_

#include "preload/format/session.h"
#include "preload/runtime/config.h"
#include "preload/runtime/process_state.h"

namespace dlhook::inline runtime {

// Where the session's files are made.
struct RunPlace {
  int folder;  // descriptor; the caller closes it
  char path[4096];
  char requested[256];  // where it was asked for, if it is elsewhere
  char refusal[96];     // why
  bool for_rings;       // rather than /dev/shm
};

// The run folder, made if missing: DLHOOK_OUT or one named by `run_key`, else one in the temporary folder that `dlhook report` knows to
// look for. False: nowhere.
bool ChooseRunFolder(const Config& config, const char* run_key, RunPlace* place);

// Maps process->session (shared where possible, private memory else) of `ring_bytes` and sets process->ring_path.
// Null where there is no memory at all.
SessionHeader* MapSession(ProcessState* process, const RunPlace& place);

// Creates an empty process trace with a new name "program-pid[-n].dlh", in the temporary folder where the chosen one refuses.
bool CreateTrace(RunPlace* place, SessionHeader* session);

// process->link_name: name.ring beside the trace.
void NameLink(ProcessState* process);

// Makes the link to the ring mapping in the run folder, held by `folder`: from now on others can find it. False: they can't (a file
// system without links).
bool PublishRing(ProcessState* process, int folder);

// Who holds the lock on the ring file drains it. Needs the file by its name: kUnknown where the host may not open it any more, or
// has no descriptor left.
enum class RingLock { kOurs, kOfAnother, kUnknown };
// kOurs: held as long as `*descriptor` is open.
RingLock LockRing(const ProcessState* process, int* descriptor);

// Run folder and that of the mapping, held by descriptor: the host may change its root directory, somebody may rename the run. -1:
// not held, go by the path.
struct RunFolders {
  int mapping = -1;
  int run = -1;
};
// False where the run folder does not lie under its path any more.
bool OpenRunFolders(const ProcessState* process, RunFolders* folders);
void CloseRunFolders(RunFolders* folders);
// After the trace was removed: makes the run folder anew if it was, too, and the link to the ring.
void RenewRunFolder(ProcessState* process, RunFolders* folders);
void RemoveRing(const ProcessState* process, const RunFolders& folders);

}  // namespace dlhook::inline runtime

#endif  // DLHOOK_PRELOAD_RUNTIME_SESSION_FILES_H_
