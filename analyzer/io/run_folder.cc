#include "analyzer/io/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline io {
namespace {

bool IsOwner(uid_t user) { return user == 0 || user == geteuid(); }

}  // namespace

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
  absl::c_sort(names);
  return names;
}

bool IsOwn(const std::string& path) {
  struct stat itself, target;
  return lstat(path.c_str(), &itself) == 0 && stat(path.c_str(), &target) == 0 && IsOwner(itself.st_uid) &&
         IsOwner(target.st_uid);
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t most, FileIs how) {
  const absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  if (!file.ok()) return file.status();
  if (how == FileIs::kFound && (!IsOwn(path) || !IsOwner(file->owner()))) {
    return absl::PermissionDeniedError(absl::StrCat(path, ": belongs to another user"));
  }
  if (file->size() > most) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is larger than ", most >> 10, " KiB"));
  }
  std::string bytes(file->size(), '\0');
  if (absl::Status status = file->Read(0, absl::MakeSpan(bytes)); !status.ok()) return status;
  return bytes;
}

int WriteAll(int file, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

absl::Status ReplaceFile(const std::string& path, absl::string_view bytes) {
  const std::string draft = absl::StrCat(path, ".", getpid());
  unlink(draft.c_str());  // of a killed process of this number
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  int error = file < 0 ? errno : WriteAll(file, bytes);
  if (file >= 0 && close(file) != 0 && error == 0) error = errno;
  if (error == 0 && rename(draft.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  if (file >= 0) unlink(draft.c_str());
  return absl::PermissionDeniedError(absl::StrCat(path, " can't be written: ", strerror(error)));
}

}  // namespace dlhook::analyzer::io
