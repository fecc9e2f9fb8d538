// Where the drain writes packets: a trace file that always consists of complete packets, or memory.
// Thread: the drain's.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include "preload/base/buffer.h"

namespace dlhook::inline drain {

enum class WriteResult {
  kOk,
  kFailed,  // nothing was written; error() says why
  kGone,    // the file was removed; a new, empty one replaces it: everything must be written again
};

class ByteSink {
 public:
  // Appends all or nothing. `last`: may use the space reserved for the end of the trace.
  virtual WriteResult Write(const char* data, size_t size, bool last) = 0;
  // Truncates to `bytes` (for a drain that takes over).
  virtual bool Truncate(uint64_t bytes) = 0;
  int error() const { return error_; }

 protected:
  ~ByteSink() = default;
  int error_ = 0;  // errno of the last failure
};

// Appends to a file. Does not rely on a file descriptor number: if the host closes or reuses it, this is noticed before
// each write, and the file is opened again. Never writes to anything but the regular file that it opened or created: it
// follows no link, and renames whatever else has taken the file's name.
class FileSink final : public ByteSink {
 public:
  FileSink() = default;
  ~FileSink() { Close(); }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  // The file `name` in `folder` (both must outlive the sink) with this inode; 0: any file owned by this user.
  // `recreate`: create it if it does not exist, now or later.
  bool OpenAt(int folder, const char* name, uint64_t inode, bool recreate);
  bool Open(const char* path, bool recreate) { return OpenAt(AT_FDCWD, path, 0, recreate); }
  // Where to recreate the file if it is gone.
  void MoveTo(int folder, const char* name) {
    folder_ = folder;
    name_ = name;
  }
  bool IsRemoved() const;
  uint64_t inode() const { return inode_; }
  void Close();
  WriteResult Write(const char* data, size_t size, bool last) override;
  bool Truncate(uint64_t bytes) override;

 private:
  void Adopt(int fd, const struct stat& info);
  bool OpenExisting(uint64_t inode);
  bool OpenNew();
  bool IsStillOurs(uint64_t* links) const;
  WriteResult Reopen();
  bool Allocate(uint64_t bytes);
  bool Reserve(uint64_t bytes);

  int folder_ = AT_FDCWD;
  const char* name_ = nullptr;
  bool recreate_ = false;
  int fd_ = -1;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  uint64_t size_ = 0;
  uint64_t reserved_ = 0;  // file space allocated so far
};

class MemorySink final : public ByteSink {
 public:
  WriteResult Write(const char* data, size_t size, bool) override {
    buffer_.Append(data, size);
    return WriteResult::kOk;
  }
  bool Truncate(uint64_t) override { return true; }  // contains only what this drain added
  const Buffer& buffer() const { return buffer_; }

 private:
  Buffer buffer_;
};

}  // namespace dlhook::inline drain
