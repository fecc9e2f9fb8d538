// A run folder by descriptor: its entries are accessed relative to it, wherever its path leads meanwhile.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

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

}  // namespace dlhook::analyzer::io
