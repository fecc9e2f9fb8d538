// Opens folders for our files in places where others may write, too, without following anything that others put in the
// way.
// Thread: any; system calls.
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace dlhook::inline format {

// The folder at this absolute path as a descriptor (O_PATH), created with its parents (0700) if it does not exist; -1
// with errno set. A symbolic link on the way is followed if it belongs to us or root, or is in a folder where only that
// folder's owner may write: the rule of Linux's fs.protected_symlinks, for all folders.
int OpenFolder(const char* path, bool make);

// The same in a place like /tmp: each of the path's last two folders must belong to us and be closed to others.
int OpenPrivateFolder(const char* path);

// The part behind the last slash. Pure.
inline const char* BaseName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

// visit(name) for each entry of an open folder, without the memory that readdir takes from the host.
template <typename Visit>
void VisitEntries(int folder, Visit visit) {
  alignas(8) char buffer[8192];
  for (long bytes; (bytes = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < bytes;) {
      auto entry = reinterpret_cast<const dirent64*>(buffer + at);
      at += entry->d_reclen;
      visit(static_cast<const char*>(entry->d_name));
    }
  }
}

// "/tmp/dlhook-UID/HASH" for an absolute path: the folder for a run whose own folder is not writable. The analyzer looks
// there, too.
inline void FallbackFolder(const char* wanted, char* folder, size_t size) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char* c = wanted; *c != '\0'; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3u;
  snprintf(folder, size, "/tmp/dlhook-%u/%016llx", static_cast<unsigned>(geteuid()),
           static_cast<unsigned long long>(hash));
}

// The folder in which a process has the code described that its libraries compile while it runs: in place of the
// ".dlh" of the process's trace. Jitdumps are below it, as their writers wish: .debug/jit/*/jit-PID.dump.
constexpr char kJitFolderSuffix[] = ".jit";

}  // namespace dlhook::inline format
