// A run folder by descriptor: what lies in it is reached beneath it, wherever its path leads meanwhile.
#ifndef DLHOOK_ANALYZER_IO_RUN_FOLDER_H_
#define DLHOOK_ANALYZER_IO_RUN_FOLDER_H_

#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dlhook::analyzer::inline io {

// Ours, and nobody else may write it.
bool IsOnlyOurs(const struct stat& info);
// A regular file, ours alone, under no second name.
bool IsOurOwnFile(const struct stat& info);

class RunFolder {
 public:
  static absl::StatusOr<std::shared_ptr<const RunFolder>> Open(const std::string& path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  int fd() const { return fd_; }
  const struct stat& info() const { return info_; }  // as it was when it was opened
  bool IsSameAs(const struct stat& other) const { return info_.st_dev == other.st_dev && info_.st_ino == other.st_ino; }
  // Its path now, that it was opened by where it has none any more.
  std::string Path() const;
  bool IsRemoved() const;
  // A path of the entry that goes through the descriptor.
  std::string PathOf(const std::string& name) const;
  // Of the entry itself, links not followed. False: there is none.
  bool Stat(const std::string& name, struct stat* info) const;
  // Base names that end in `suffix`, in their order.
  std::vector<std::string> Names(const std::string& suffix) const;

 private:
  RunFolder(int fd, std::string path, const struct stat& info) : fd_(fd), path_(std::move(path)), info_(info) {}

  int fd_;
  std::string path_;
  struct stat info_;
};

}  // namespace dlhook::analyzer::io

#endif  // DLHOOK_ANALYZER_IO_RUN_FOLDER_H_
