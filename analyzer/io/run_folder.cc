// The run folder.
#include "analyzer/io/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dlhook::analyzer::inline io {

bool IsOnlyOurs(const struct stat& info) {
  return info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool IsOurOwnFile(const struct stat& info) { return S_ISREG(info.st_mode) && info.st_nlink == 1 && IsOnlyOurs(info); }

absl::StatusOr<std::shared_ptr<const RunFolder>> RunFolder::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
  struct stat info;
  if (fd >= 0 && fstat(fd, &info) == 0) return std::shared_ptr<const RunFolder>(new RunFolder(fd, path, info));
  const int error = errno;
  if (fd >= 0) close(fd);
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot open the folder"));
}

RunFolder::~RunFolder() { close(fd_); }

std::string RunFolder::Path() const {
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", fd_), error).string();
  return error || IsRemoved() ? path_ : path;
}

bool RunFolder::IsRemoved() const {
  struct stat info;
  return fstat(fd_, &info) == 0 && info.st_nlink == 0;
}

std::string RunFolder::PathOf(const std::string& name) const { return absl::StrCat("/proc/self/fd/", fd_, "/", name); }

bool RunFolder::Stat(const std::string& name, struct stat* info) const {
  return fstatat(fd_, name.c_str(), info, AT_SYMLINK_NOFOLLOW) == 0;
}

std::vector<std::string> RunFolder::Names(const std::string& suffix) const {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(PathOf(""), error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (absl::EndsWith(name, suffix)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace dlhook::analyzer::io
