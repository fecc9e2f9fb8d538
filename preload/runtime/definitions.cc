// A bump allocator under a lock.
#include "preload/runtime/definitions.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

namespace dlhook::inline runtime {
namespace {

constexpr uint64_t kStepBytes = 64 << 10;

// Allocates pages for the first `bytes` bytes.
bool Allocate(ProcessState* process, uint64_t bytes) {
  if (bytes <= process->definitions_allocated || process->ring_path[0] == '\0') return true;
  uint64_t target = (bytes + kStepBytes - 1) / kStepBytes * kStepBytes;
  if (target > kDefinitionsCapacity) target = kDefinitionsCapacity;
  uint64_t from = process->definitions_allocated;
  if (!AllocatePages(process, kSessionDataStart + from, target - from)) return false;
  process->definitions_allocated = target;
  return true;
}

}  // namespace

uint32_t Define(DefinitionKind kind, const void* bytes, size_t size) {
  ProcessState* process = GetProcess();
  if (process == nullptr || process->phase.load(std::memory_order_acquire) != kRecording) return 0;
  SessionHeader* session = process->session;
  if (size > kMaxDefinitionBytes) {
    if (kind != DefinitionKind::kKernel) {  // a truncated message is useless
      session->refused_definitions.fetch_add(1, std::memory_order_relaxed);
      return 0;
    }
    size = kMaxDefinitionBytes;
  }
  ErrnoKeeper keeper;
  SpinLockHolder holder(&process->definitions_lock);
  uint64_t offset = session->definitions_bytes.load(std::memory_order_relaxed);
  uint64_t end = (offset + sizeof(Definition) + size + 7) & ~uint64_t{7};
  uint32_t number = 0;
  if (end <= kDefinitionsCapacity && Allocate(process, end)) {
    char* data = reinterpret_cast<char*>(session) + kSessionDataStart + offset;
    Definition head = {static_cast<uint32_t>(kind), static_cast<uint32_t>(size)};
    memcpy(data, &head, sizeof head);
    memcpy(data + sizeof head, bytes, size);
    session->definitions_bytes.store(end, std::memory_order_release);
    number = static_cast<uint32_t>(offset / 8 + 1);
  } else {
    session->refused_definitions.fetch_add(1, std::memory_order_relaxed);
  }
  return number;
}

// Pages of the session's mapping.

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
