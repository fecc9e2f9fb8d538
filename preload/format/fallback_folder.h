// The folder for runs whose own folder is not writable. Shared with the analyzer, which looks there.
#pragma once

#include <stdio.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace dlhook::inline format {

// "/tmp/dlhook-UID/HASH" for an absolute path.
inline void FallbackFolder(const char* wanted, char* folder, size_t size) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char* c = wanted; *c != '\0'; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3u;
  snprintf(folder, size, "/tmp/dlhook-%u/%016llx", static_cast<unsigned>(geteuid()),
           static_cast<unsigned long long>(hash));
}

}  // namespace dlhook::inline format
