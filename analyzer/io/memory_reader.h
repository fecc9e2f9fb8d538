// Reads the memory of another process.
#ifndef DLHOOK_ANALYZER_IO_MEMORY_READER_H_
#define DLHOOK_ANALYZER_IO_MEMORY_READER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace dlhook::analyzer::inline io {

class MemoryReader {
 public:
  virtual ~MemoryReader() = default;
  // True only if all `bytes` could be read into `to`.
  virtual bool Read(uint64_t address, void* to, size_t bytes) const = 0;
};

// A running or stopped process of this user.
class ProcessMemory : public MemoryReader {
 public:
  explicit ProcessMemory(pid_t pid) : pid_(pid) {}
  bool Read(uint64_t address, void* to, size_t bytes) const override;

 private:
  pid_t pid_;
};

}  // namespace dlhook::analyzer::io

#endif  // DLHOOK_ANALYZER_IO_MEMORY_READER_H_
