// Files of a session.
#include "preload/core/session_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <initializer_list>

#include "preload/core/fallback_folder.h"
#include "preload/core/own_pages.h"
#include "preload/core/shared_pages.h"
#include "preload/drain/byte_sink.h"

namespace dlhook {
namespace {

uint64_t MappingBytes(uint64_t ring_bytes_total) { return SlotOffset(kMaxSlots, ring_bytes_total); }

// Room for all rings and as much again for others.
bool HasRoom(const char* folder, uint64_t bytes) {
  struct statvfs info;
  return statvfs(folder, &info) == 0 && uint64_t{info.f_bavail} * info.f_frsize > 2 * bytes;
}

// A new file in `folder` with the header's pages allocated, mapped at full length: rings are allocated as threads come (a hole until
// then).
SessionHeader* MapFile(const char* folder, uint64_t bytes, ProcessState* process) {
  auto path = &process->ring_path;
  if (!MayMakeFile(bytes)) return nullptr;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    int length = snprintf(*path, sizeof *path, "%s/dlhook-%u-%d-%d.ring", folder, static_cast<unsigned>(getuid()),
                          static_cast<int>(getpid()), attempt);
    if (length >= static_cast<int>(sizeof *path)) return nullptr;
    int fd = open(*path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return nullptr;
    void* memory = nullptr;
    struct stat info;
    if (fstat(fd, &info) == 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0 &&
        fallocate(fd, 0, 0, static_cast<off_t>(kSessionDataStart)) == 0) {
      memory = MapOwnPages(bytes, fd);
      process->ring_device = info.st_dev;
      process->ring_inode = info.st_ino;
    }
    close(fd);
    if (memory != nullptr) return static_cast<SessionHeader*>(memory);
    unlink(*path);
    return nullptr;
  }
  return nullptr;
}

// False with errno set. Tries what a trace will need: to make a file.
bool CanWriteInto(const char* folder) {
  if (!MakeFolders(folder)) return false;
  char probe[4200];
  snprintf(probe, sizeof probe, "%s/.dlhook-probe-%d", folder, static_cast<int>(getpid()));
  int fd = open(probe, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  close(fd);
  unlink(probe);
  return true;
}

// Program names become file names.
void SafeName(const char* program, char (*name)[64]) {
  size_t i = 0;
  for (; program[i] != '\0' && i + 1 < sizeof *name; ++i) {
    char c = program[i];
    bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                c == '-' || c == '+';
    (*name)[i] = safe ? c : '_';
  }
  (*name)[i] = '\0';
}

// Which trace of which folder the rings belong to.
void Describe(int trace, const char* run_folder, SessionHeader* session) {
  struct stat info;
  if (fstat(trace, &info) == 0) session->trace_inode = info.st_ino;
  if (stat(run_folder, &info) == 0) {
    session->folder_device = info.st_dev;
    session->folder_inode = info.st_ino;
  }
  snprintf(session->trace_name, sizeof session->trace_name, "%s", strrchr(session->trace_path, '/') + 1);
}

// -1 where there is none.
int OpenFolderOf(const char* path) {
  char folder[4200];
  snprintf(folder, sizeof folder, "%s", path);
  char* slash = strrchr(folder, '/');
  if (slash == nullptr) return -1;
  slash[1] = '\0';
  return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void RemoveIn(int folder, const char* path) {
  if (path[0] == '\0') return;
  if (folder < 0 || unlinkat(folder, strrchr(path, '/') + 1, 0) != 0) unlink(path);
}

// This process's session, where a forked child can still read it.
struct {
  SessionHeader* session;
  uint64_t bytes;
} g_mapped;

// A signal handler may have forked in the middle of a record, and the child returns into it: what it still stores goes to memory that
// nobody reads, where the session was. Its next call starts a session of its own. (Not after _Fork and clone: they run no handlers.)
void InForkedChild() {
  SessionHeader* session = g_mapped.session;
  if (session == nullptr) return;
  g_mapped.session = nullptr;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  int saved_errno = errno;
  void* memory = mmap(session, g_mapped.bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (memory != session && memory != MAP_FAILED) munmap(memory, g_mapped.bytes);
  ThreadState* thread = dlhook_thread;
  if (memory == session && thread != nullptr) {
    session->drained_by_host.store(1);  // nobody is to be looked for
    thread->session = session;
    thread->ring.slot = &session->slots[0];
    thread->ring.data = reinterpret_cast<char*>(session) + kRingsStart;  // slot 0's ring is as large as any
  }
  errno = saved_errno;
}

void PrepareForForks(SessionHeader* session, uint64_t bytes) {
  static bool is_registered = pthread_atfork(nullptr, nullptr, &InForkedChild) == 0;
  g_mapped = {is_registered ? session : nullptr, bytes};
}

}  // namespace

SessionHeader* MapSession(ProcessState* process, const char* run_folder) {
  uint64_t bytes = MappingBytes(process->ring_bytes_total);
  SessionHeader* session = nullptr;
  if (HasRoom("/dev/shm", bytes)) session = MapFile("/dev/shm", bytes, process);
  if (session == nullptr && HasRoom(run_folder, bytes)) session = MapFile(run_folder, bytes, process);
  if (session == nullptr) {
    process->ring_path[0] = '\0';
    session = static_cast<SessionHeader*>(MapOwnPages(bytes));
    if (session == nullptr) return nullptr;
    session->is_private = 1;
  }
  madvise(session, bytes, MADV_DONTFORK);  // a child has its own
  madvise(session, bytes, MADV_DONTDUMP);
  session->mapping_bytes = bytes;
  PrepareForForks(session, bytes);
  return session;
}

bool ChooseRunFolder(const Config& config, const char* run_key, char (*folder)[4096], char (*requested)[256],
                     char (*refusal)[96]) {
  char wanted[4096];
  char here[2048];
  if (config.out[0] == '/') {
    snprintf(wanted, sizeof wanted, "%s", config.out);
  } else {
    if (getcwd(here, sizeof here) == nullptr) snprintf(here, sizeof here, "/");
    if (config.out[0] != '\0') {
      snprintf(wanted, sizeof wanted, "%s/%.2000s", here, config.out);
    } else {
      snprintf(wanted, sizeof wanted, "%s/dlhook-%.96s", here, run_key);
    }
  }
  size_t length = strlen(wanted);
  while (length > 1 && wanted[length - 1] == '/') wanted[--length] = '\0';
  snprintf(*folder, sizeof *folder, "%s", wanted);
  if (CanWriteInto(wanted)) return true;
  snprintf(*requested, sizeof *requested, "%.255s", wanted);
  snprintf(*refusal, sizeof *refusal, "%s", strerror(errno));
  FallbackFolder(wanted, *folder, sizeof *folder);
  return CanWriteInto(*folder);
}

bool CreateTrace(const char* run_folder, SessionHeader* session) {
  char program[64];
  SafeName(session->program[0] != '\0' ? session->program : "program", &program);
  for (int attempt = 1; attempt < 10000; ++attempt) {
    char suffix[16] = "";
    if (attempt > 1) snprintf(suffix, sizeof suffix, "-%d", attempt);
    int length = snprintf(session->trace_path, sizeof session->trace_path, "%s/%s-%u%s.dlh", run_folder, program,
                          session->pid, suffix);
    if (length >= static_cast<int>(sizeof session->trace_path)) return false;
    int fd = open(session->trace_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
      Describe(fd, run_folder, session);
      close(fd);
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

void NameLink(ProcessState* process) {
  if (process->ring_path[0] == '\0') return;
  const char* trace = process->session->trace_path;
  size_t stem = strlen(trace) - strlen(".dlh");
  snprintf(process->link_path, sizeof process->link_path, "%.*s.ring", static_cast<int>(stem), trace);
}

void PublishRing(ProcessState* process) {
  if (process->link_path[0] == '\0') return;
  if (symlink(process->ring_path, process->link_path) != 0) process->link_path[0] = '\0';
}

RingLock LockRing(const ProcessState* process, int* descriptor) {
  struct stat info;
  int fd = open(process->ring_path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return RingLock::kUnknown;
  bool is_ours =
      fstat(fd, &info) == 0 && info.st_dev == process->ring_device && info.st_ino == process->ring_inode;
  if (is_ours && flock(fd, LOCK_EX | LOCK_NB) == 0) {
    *descriptor = fd;
    return RingLock::kOurs;
  }
  bool is_held = is_ours && errno == EWOULDBLOCK;
  close(fd);
  return is_held ? RingLock::kOfAnother : RingLock::kUnknown;
}

void OpenRingFolders(const ProcessState* process, RingFolders* folders) {
  folders->mapping = OpenFolderOf(process->ring_path);
  folders->link = OpenFolderOf(process->link_path);
}

void CloseRingFolders(RingFolders* folders) {
  for (int* folder : {&folders->mapping, &folders->link}) {
    if (*folder >= 0) close(*folder);
    *folder = -1;
  }
}

void RemoveRing(const ProcessState* process, const RingFolders& folders) {
  RemoveIn(folders.mapping, process->ring_path);
  RemoveIn(folders.link, process->link_path);
}

}  // namespace dlhook
