// The trace file of one process.
#include "preload/drain/byte_sink.h"

#include <stdio.h>
#include <unistd.h>

namespace dlhook::inline drain {
namespace {

// Room for the loss and footer packets when the disk is full.
constexpr uint64_t kReserveBytes = 16384;
constexpr uint64_t kReserveStepBytes = 1 << 20;
// Above the low numbers that some programs rely on (shells, daemons that close 3 … 255).
constexpr int kLowestDescriptor = 700;

int MoveUp(int fd) {
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, kLowestDescriptor);
  if (moved < 0) return fd;
  close(fd);
  return moved;
}

}  // namespace

void FileSink::Adopt(int fd, const struct stat& info) {
  fd_ = MoveUp(fd);
  device_ = info.st_dev;
  inode_ = info.st_ino;
  size_ = static_cast<uint64_t>(info.st_size);
  reserved_ = 0;
}

bool FileSink::OpenExisting(uint64_t inode) {
  int fd = openat(folder_, name_, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0) {
    error_ = errno;
    if (fd >= 0) close(fd);
    return false;
  }
  // A file with the known inode was created by us. Any other must at least be owned by us, without further hard links.
  bool is_it = inode != 0 ? info.st_ino == inode : info.st_uid == geteuid() && info.st_nlink == 1;
  if (!S_ISREG(info.st_mode) || !is_it) {
    close(fd);
    error_ = EEXIST;
    return false;
  }
  Adopt(fd, info);
  return true;
}

// A file that has taken its name meanwhile belongs to someone else and is renamed.
bool FileSink::OpenNew() {
  constexpr int kMostAside = 100;
  for (int aside = 1; aside <= kMostAside; ++aside) {
    int fd = openat(folder_, name_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct stat info;
    if (fd >= 0 && fstat(fd, &info) == 0) {
      Adopt(fd, info);
      return true;
    }
    error_ = errno;
    if (fd >= 0) close(fd);
    if (error_ != EEXIST) return false;
    char other[4200];
    snprintf(other, sizeof other, "%s.aside-%d", name_, aside);
    if (renameat2(folder_, name_, folder_, other, RENAME_NOREPLACE) != 0 && errno != EEXIST) return false;
  }
  return false;
}

bool FileSink::OpenAt(int folder, const char* name, uint64_t inode, bool recreate) {
  folder_ = folder;
  name_ = name;
  recreate_ = recreate;
  return OpenExisting(inode) || (recreate && error_ == ENOENT && OpenNew());
}

void FileSink::Close() {
  uint64_t links = 0;
  if (IsStillOurs(&links)) {
    if (ftruncate(fd_, static_cast<off_t>(size_)) != 0) {
      // Frees the reserve; the file's contents are intact either way.
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

bool FileSink::IsRemoved() const {
  uint64_t links = 0;
  return IsStillOurs(&links) && links == 0;
}

WriteResult FileSink::Reopen() {
  uint64_t links = 0;
  bool ours = IsStillOurs(&links);
  if (ours && links > 0) return WriteResult::kOk;
  uint64_t size = size_;
  error_ = ENOENT;
  if (!ours && OpenExisting(inode_)) {
    size_ = size;
    return WriteResult::kOk;
  }
  bool is_gone = error_ == ENOENT || error_ == ELOOP || error_ == EEXIST;  // rather than not accessible
  int removed = ours ? fd_ : -1;
  if (!is_gone || !recreate_ || !OpenNew()) return WriteResult::kFailed;
  if (removed >= 0) close(removed);
  return WriteResult::kGone;
}

bool FileSink::Allocate(uint64_t bytes) {
  if (fallocate(fd_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(size_), static_cast<off_t>(bytes)) != 0) return false;
  reserved_ = size_ + bytes;
  return true;
}

bool FileSink::Reserve(uint64_t bytes) {
  if (size_ + bytes <= reserved_) return true;
  // In steps, because an allocation call per write would cost more than the write. Near the end of the space, only what
  // is needed.
  if (Allocate(bytes + kReserveStepBytes) || Allocate(bytes)) return true;
  return errno != ENOSPC && errno != EDQUOT && errno != EFBIG;  // else not supported: the write decides
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

}  // namespace dlhook::inline drain
