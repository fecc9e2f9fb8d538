// A run folder by descriptor: its entries are accessed relative to it, wherever its path leads meanwhile.
#pragma once

#include <sys/stat.h>

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline io {

// Owned by the caller, and not writable by others.
bool IsOnlyOurs(const struct stat& info);
// A regular file, owned by the caller alone, without further hard links.
bool IsOurOwnFile(const struct stat& info);

class RunFolder {
 public:
  static absl::StatusOr<std::shared_ptr<const RunFolder>> Open(const std::string& path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  int fd() const { return fd_; }
  const struct stat& info() const { return info_; }  // as of opening it
  bool IsSameAs(const struct stat& other) const { return info_.st_dev == other.st_dev && info_.st_ino == other.st_ino; }
  // Its current path, or the one it was opened with if it has none any more.
  std::string Path() const;
  bool IsRemoved() const;
  // A path to the entry through the descriptor.
  std::string PathOf(const std::string& name) const;
  // Of the entry itself, without following links. False: it does not exist.
  bool Stat(const std::string& name, struct stat* info) const;
  // Sorted base names that end in `suffix`.
  std::vector<std::string> Names(const std::string& suffix) const;

 private:
  RunFolder(int fd, std::string path, const struct stat& info) : fd_(fd), path_(std::move(path)), info_(info) {}

  int fd_;
  std::string path_;
  struct stat info_;
};

// Files that dlhook looks for by itself must be the user's own, or root's: anyone may have left one in a shared folder.
enum class FileIs : uint8_t { kNamed, kFound };

// Whether it belongs to the user who runs this, or to root, and so does a link that leads to it.
bool IsOwn(const std::string& path);

// A regular file of at most `most` bytes. NotFound: there is none. Else the status says why it can't be used.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t most, FileIs how);

// 0, or errno.
int WriteAll(int file, absl::string_view bytes);

// A reader sees the old file or the new one, never a part.
absl::Status ReplaceFile(const std::string& path, absl::string_view bytes);

}  // namespace dlhook::analyzer::io
