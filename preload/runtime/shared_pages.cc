// Pages of the session's mapping.
#include "preload/runtime/shared_pages.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

namespace dlhook::inline runtime {
namespace {

// For kernels without MADV_POPULATE_WRITE (before 5.14). Needs a descriptor and the right to open the file, which a
// host may have dropped.
bool AllocateInFile(const ProcessState* process, uint64_t offset, uint64_t bytes) {
  if (!MayMakeFile(offset + bytes)) return false;
  int cancel_state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  int fd = OpenRingFile(process);
  int failed = fd < 0 ? -1 : fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  if (fd >= 0) close(fd);
  pthread_setcancelstate(cancel_state, nullptr);
  return failed == 0;
}

}  // namespace

bool MayMakeFile(uint64_t bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

int OpenRingFile(const ProcessState* process) {
  struct stat info;
  int fd = open(process->ring_path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -1;
  if (fstat(fd, &info) == 0 && info.st_dev == process->ring_device && info.st_ino == process->ring_inode) return fd;
  close(fd);
  return -1;
}

bool AllocatePages(const ProcessState* process, uint64_t offset, uint64_t bytes) {
  char* start = reinterpret_cast<char*>(process->session) + offset;
  bool populated = madvise(start, bytes, MADV_POPULATE_WRITE) == 0;
  if (populated || process->ring_path[0] == '\0') return true;
  if (!AllocateInFile(process, offset, bytes)) return false;
  madvise(start, bytes, MADV_POPULATE_WRITE);  // page faults now rather than during calls
  return true;
}

}  // namespace dlhook::inline runtime
