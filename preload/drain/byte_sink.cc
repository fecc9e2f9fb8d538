// The trace file of one process.
#include "preload/drain/byte_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dlhook {
namespace {

// Room for the loss and footer packets when the disk is full.
constexpr uint64_t kReserveBytes = 16384;
constexpr uint64_t kReserveStepBytes = 1 << 20;
// Out of the way of programs that count on low descriptor numbers (shells, daemons that close 3 … 255).
constexpr int kLowestDescriptor = 700;

int MoveUp(int fd) {
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, kLowestDescriptor);
  if (moved < 0) return fd;
  close(fd);
  return moved;
}

bool MakeParentFolders(const char* path) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", path);
  char* slash = strrchr(folder, '/');
  if (slash == nullptr || slash == folder) return true;
  *slash = '\0';
  return MakeFolders(folder);
}

}  // namespace

bool MakeFolders(const char* path) {
  char partial[4096];
  size_t length = strlen(path);
  if (length >= sizeof partial) {
    errno = ENAMETOOLONG;
    return false;
  }
  for (size_t i = 1; i <= length; ++i) {
    if (path[i] != '/' && path[i] != '\0') continue;
    memcpy(partial, path, i);
    partial[i] = '\0';
    if (mkdir(partial, 0700) != 0 && errno != EEXIST && errno != EISDIR) {
      int error = errno;
      struct stat info;
      if (stat(partial, &info) == 0 && S_ISDIR(info.st_mode)) continue;  // e.g. EROFS on an existing folder
      errno = error;
      return false;
    }
  }
  struct stat info;
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return true;
  errno = ENOTDIR;
  return false;
}

bool FileSink::Open(const char* path, bool recreate) {
  path_ = path;
  recreate_ = recreate;
  int fd = open(path, O_WRONLY | O_CLOEXEC | (recreate ? O_CREAT : 0), 0600);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0) {
    error_ = errno;
    if (fd >= 0) close(fd);
    return false;
  }
  fd_ = MoveUp(fd);
  device_ = info.st_dev;
  inode_ = info.st_ino;
  size_ = static_cast<uint64_t>(info.st_size);
  reserved_ = 0;
  return true;
}

void FileSink::Close() {
  uint64_t links = 0;
  if (IsStillOurs(&links)) {
    if (ftruncate(fd_, static_cast<off_t>(size_)) != 0) {
      // Gives the reserve back; what stands in the file is whole either way.
    }
    close(fd_);
  }
  fd_ = -1;
}

bool FileSink::IsStillOurs(uint64_t* links) const {
  struct stat info;
  if (fd_ < 0 || fstat(fd_, &info) != 0 || info.st_dev != device_ || info.st_ino != inode_) return false;
  *links = info.st_nlink;
  return true;
}

WriteResult FileSink::Reopen() {
  uint64_t links = 0;
  bool ours = IsStillOurs(&links);
  if (ours && links > 0) return WriteResult::kOk;
  struct stat info;
  uint64_t old_inode = inode_;
  uint64_t old_device = device_;
  bool removed = stat(path_, &info) != 0 || info.st_ino != old_inode || info.st_dev != old_device;
  if (ours) close(fd_);
  fd_ = -1;
  if (removed && recreate_) MakeParentFolders(path_);
  uint64_t size = size_;
  if (!Open(path_, recreate_)) return WriteResult::kFailed;
  if (removed) return WriteResult::kGone;
  size_ = size;
  return WriteResult::kOk;
}

bool FileSink::Allocate(uint64_t bytes) {
  if (fallocate(fd_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(size_), static_cast<off_t>(bytes)) != 0) return false;
  reserved_ = size_ + bytes;
  return true;
}

bool FileSink::Reserve(uint64_t bytes) {
  if (size_ + bytes <= reserved_) return true;
  // In steps: a call for each write costs more than the write. Near the end of the space, just what is needed.
  if (Allocate(bytes + kReserveStepBytes) || Allocate(bytes)) return true;
  return errno != ENOSPC && errno != EDQUOT && errno != EFBIG;  // not every file system can; then the write decides
}

WriteResult FileSink::Write(const char* data, size_t size, bool last) {
  WriteResult opened = Reopen();
  if (opened != WriteResult::kOk) return opened;
  if (!last && !Reserve(size + kReserveBytes)) {
    error_ = errno;
    return WriteResult::kFailed;
  }
  size_t done = 0;
  while (done < size) {
    ssize_t n = pwrite(fd_, data + done, size - done, static_cast<off_t>(size_ + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      error_ = n < 0 ? errno : ENOSPC;
      reserved_ = 0;
      if (ftruncate(fd_, static_cast<off_t>(size_)) != 0) return WriteResult::kFailed;
      return WriteResult::kFailed;
    }
    done += static_cast<size_t>(n);
  }
  size_ += size;
  return WriteResult::kOk;
}

bool FileSink::Truncate(uint64_t bytes) {
  if (bytes > size_ || ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return false;
  size_ = bytes;
  reserved_ = 0;
  return true;
}

}  // namespace dlhook
