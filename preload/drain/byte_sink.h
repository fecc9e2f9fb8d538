// Where the drain writes packets: a trace file that only ever holds whole packets, or memory.
// Thread: the drain's.
#ifndef DLHOOK_PRELOAD_DRAIN_BYTE_SINK_H_
#define DLHOOK_PRELOAD_DRAIN_BYTE_SINK_H_

#include <cstdint>

#include "preload/drain/buffer.h"

namespace dlhook {

enum class WriteResult {
  kOk,
  kFailed,  // nothing was written; error() says why
  kGone,    // the file was removed; a new, empty one stands in its place: everything must be said again
};

class ByteSink {
 public:
  // Appends all or nothing. `last`: may use the space kept in reserve for the end of the trace.
  virtual WriteResult Write(const char* data, size_t size, bool last) = 0;
  // Cuts to `bytes` (a drain that takes over).
  virtual bool Truncate(uint64_t bytes) = 0;
  int error() const { return error_; }

 protected:
  ~ByteSink() = default;
  int error_ = 0;  // errno of the last failure
};

// Appends to a file. Keeps no claim on a file descriptor number: a host that closes or re-uses it is noticed before each
// write, and the file is opened again.
class FileSink final : public ByteSink {
 public:
  FileSink() = default;
  ~FileSink() { Close(); }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  // `path` must outlive the sink. `recreate`: where file or folder vanish, make them again.
  bool Open(const char* path, bool recreate);
  void Close();
  WriteResult Write(const char* data, size_t size, bool last) override;
  bool Truncate(uint64_t bytes) override;

 private:
  bool IsStillOurs(uint64_t* links) const;
  WriteResult Reopen();
  bool Allocate(uint64_t bytes);
  bool Reserve(uint64_t bytes);

  const char* path_ = nullptr;
  bool recreate_ = false;
  int fd_ = -1;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  uint64_t size_ = 0;
  uint64_t reserved_ = 0;  // file space is ours up to here
};

class MemorySink final : public ByteSink {
 public:
  WriteResult Write(const char* data, size_t size, bool) override {
    buffer_.Append(data, size);
    return WriteResult::kOk;
  }
  bool Truncate(uint64_t) override { return true; }  // it holds only what this drain adds
  const Buffer& buffer() const { return buffer_; }

 private:
  Buffer buffer_;
};

// mkdir -p; false with errno set.
bool MakeFolders(const char* path);

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_DRAIN_BYTE_SINK_H_
