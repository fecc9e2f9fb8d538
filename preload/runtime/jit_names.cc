#include "preload/runtime/jit_names.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "preload/base/process_id.h"
#include "preload/base/spin_lock.h"
#include "preload/format/folders.h"
#include "preload/runtime/process_state.h"

namespace dlhook::inline runtime {
namespace {

SpinLock g_lock;

}  // namespace

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

void AddJitName(uint64_t address, uint64_t bytes, const char* name) {
  ErrnoKeeper keeper;
  const char* folder = JitFolder();
  if (folder == nullptr) return;
  char text[sizeof SessionHeader::trace_path + 64];
  snprintf(text, sizeof text, "%s/perf-%u.map", folder, ProcessId());
  int file = open(text, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return;
  int size = snprintf(text, sizeof text, "%llx %llx %s\n", static_cast<unsigned long long>(address),
                      static_cast<unsigned long long>(bytes), name);
  if (write(file, text, static_cast<size_t>(size)) < 0) errno = 0;  // a name is missing
  close(file);
}

}  // namespace dlhook::inline runtime
