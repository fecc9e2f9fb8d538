// The limit counts all threads of a user on the machine. Their number is only available from /proc, which is read only
// if the number of all users' threads, which is cheap, does not decide.
#include "preload/runtime/process_room.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "preload/format/identity.h"

namespace dlhook::inline runtime {
namespace {

constexpr uint64_t kSpareThreads = 32;

// The fourth field is "running/all". 0: unknown.
uint64_t AllThreads() {
  char text[128];
  ReadFileAt(AT_FDCWD, "/proc/loadavg", text, sizeof text);
  const char* all = strchr(text, '/');
  return all == nullptr ? 0 : strtoull(all + 1, nullptr, 10);
}

uint64_t ThreadsOfProcess(int proc, const char* pid) {
  char path[48];
  char text[2048];
  struct stat info;
  if (fstatat(proc, pid, &info, 0) != 0 || info.st_uid != getuid()) return 0;
  snprintf(path, sizeof path, "%.32s/status", pid);
  ReadFileAt(proc, path, text, sizeof text);
  const char* threads = strstr(text, "\nThreads:");
  return threads == nullptr ? 0 : strtoull(threads + strlen("\nThreads:"), nullptr, 10);
}

uint64_t ThreadsOfUser() {
  uint64_t threads = 0;
  int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  alignas(8) char buffer[8192];
  for (long bytes; proc >= 0 && (bytes = syscall(SYS_getdents64, proc, buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < bytes;) {
      auto entry = reinterpret_cast<const dirent64*>(buffer + at);
      at += entry->d_reclen;
      if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') threads += ThreadsOfProcess(proc, entry->d_name);
    }
  }
  if (proc >= 0) close(proc);
  return threads;
}

}  // namespace

bool IsRoomForThread() {
  rlimit limit;
  bool has_limit = getuid() != 0 && getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (!has_limit || AllThreads() + kSpareThreads <= limit.rlim_cur) return true;
  return ThreadsOfUser() + kSpareThreads <= limit.rlim_cur;
}

}  // namespace dlhook::inline runtime
