// Names for code that oneDNN and LLVM compile while the program runs: where samples are taken, they are asked to write a
// jitdump, by the variables that they look up themselves.
// Thread: any application thread; getenv may be called before any constructor.

#include <fcntl.h>
#include <sys/stat.h>

#include "preload/base/spin_lock.h"
#include "preload/format/folders.h"
#include "preload/runtime/process_state.h"
#include "preload/tap/tap.h"

namespace dlhook::inline tap {
namespace {

constexpr char kWritesJitDump[] = "4";  // DNNL_JIT_PROFILE_LINUX_JITDUMP
const char* const kProfileVariables[] = {"ONEDNN_JIT_PROFILE", "DNNL_JIT_PROFILE"};
constexpr char kFolderVariable[] = "JITDUMPDIR";

SpinLock g_lock;

// NAME.jit beside this process's trace NAME.dlh, which exists then: other processes of the run, on other hosts, may have
// the same number. Null: nothing is sampled, there is no trace yet, or the folder can't be made.
char* JitFolder() {
  static char folder[sizeof SessionHeader::trace_path];
  const ProcessState* process = FindProcess();
  bool is_recorded = process != nullptr && process->phase.load(std::memory_order_acquire) == kRecording;
  if (!is_recorded || process->session->sample_interval_ns == 0) return nullptr;
  const char* path = process->session->trace_path;
  size_t bytes = strlen(path);
  constexpr size_t kSuffixBytes = sizeof kJitFolderSuffix - 1;  // as many as the trace's
  if (bytes <= kSuffixBytes) return nullptr;
  bytes -= kSuffixBytes;
  SpinLockHolder holder(&g_lock);
  if (strncmp(folder, path, bytes) != 0 || strcmp(folder + bytes, kJitFolderSuffix) != 0) {  // others may be reading it
    memcpy(folder, path, bytes);
    memcpy(folder + bytes, kJitFolderSuffix, sizeof kJitFolderSuffix);
  }
  return mkdirat(AT_FDCWD, folder, 0700) == 0 || errno == EEXIST ? folder : nullptr;
}

// What the user has set stays.
bool OnGetenv(const char* name, void*, char** answer) {
  for (const char* variable : kProfileVariables) {
    if (RealGetenv(variable) != nullptr) return false;
  }
  if (RealGetenv(kFolderVariable) != nullptr) return false;
  ErrnoKeeper keeper;
  char* folder = JitFolder();
  if (folder == nullptr) return false;
  bool is_folder = strcmp(name, kFolderVariable) == 0;
  if (!is_folder && strcmp(name, kProfileVariables[0]) != 0) return false;
  *answer = is_folder ? folder : const_cast<char*>(kWritesJitDump);
  return true;
}
DLHOOK_GETENV_TAP(kOneDnnProfile, "ONEDNN_JIT_PROFILE", &OnGetenv);
DLHOOK_GETENV_TAP(kDumpFolder, kFolderVariable, &OnGetenv);

}  // namespace
}  // namespace dlhook::inline tap
