// Reads the memory of another process, and what is mapped there.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline io {

class MemoryReader {
 public:
  virtual ~MemoryReader() = default;
  // The number of bytes, from `address` on, that could be read into `to`.
  virtual size_t Copy(uint64_t address, void* to, size_t bytes) const = 0;
  // True only if all could.
  bool Read(uint64_t address, void* to, size_t bytes) const { return Copy(address, to, bytes) == bytes; }
};

// A running or stopped process of this user.
class ProcessMemory : public MemoryReader {
 public:
  explicit ProcessMemory(pid_t pid) : pid_(pid) {}
  size_t Copy(uint64_t address, void* to, size_t bytes) const override;

 private:
  pid_t pid_;
};

// A line of /proc/PID/maps: "7f3a0000-7f3b0000 r-xp 00001000 08:01 1234   /usr/lib/libm.so.6".
struct MapsLine {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t offset = 0;
  bool is_code = false;
  uint64_t inode = 0;
  std::string path;  // with " (deleted)" if it is
  std::string file;  // device, inode and path, which identify it
};
// False: not of a file.
bool ParseMapsLine(absl::string_view line, MapsLine* parsed);

}  // namespace dlhook::analyzer::io
