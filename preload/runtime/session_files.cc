// Files of a session.
#include "preload/runtime/session_files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <initializer_list>

#include "preload/format/folders.h"
#include "preload/format/identity.h"
#include "preload/runtime/definitions.h"

namespace dlhook::inline runtime {
namespace {

// The mapping: rings, followed by the chunks for their growth (a hole until used).
struct Room {
  uint64_t rings;
  uint64_t growth;

  uint64_t Sum() const { return rings + growth; }
};

Room RoomFor(const ProcessState& process) {
  uint64_t chunk = ChunkBytes(process.growth_bytes);
  Room room = {SlotOffset(kMaxSlots, process.ring_bytes_total), (process.growth_bytes + chunk - 1) / chunk * chunk};
  if (!MayMakeFile(room.Sum())) room.growth = 0;
  return room;
}

// Whether there is room for all rings and as much again for other programs; the chunks get at most an eighth of the
// free space: in a container /dev/shm may have 64 MiB, and the host may need it.
bool FitInto(int folder, Room* room) {
  struct statvfs info;
  if (fstatvfs(folder, &info) != 0) return false;
  uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  if (room->growth > free / 8) room->growth = free / 8;
  return free > 2 * room->rings;
}

// A new file in `folder` with the header's pages allocated, mapped at full length: rings are allocated when threads
// attach (a hole until then). `path`: of the folder.
SessionHeader* MapFile(int folder, const char* path, uint64_t bytes, ProcessState* process) {
  if (!MayMakeFile(bytes)) return nullptr;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    int length = snprintf(process->ring_path, sizeof process->ring_path, "%s/dlhook-%u-%d-%d.ring", path,
                          static_cast<unsigned>(getuid()), static_cast<int>(getpid()), attempt);
    if (length >= static_cast<int>(sizeof process->ring_path)) return nullptr;
    const char* name = BaseName(process->ring_path);
    int fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
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
    unlinkat(folder, name, 0);
    return nullptr;
  }
  return nullptr;
}

SessionHeader* MapIn(int folder, const char* path, ProcessState* process, Room* room) {
  Room here = *room;
  SessionHeader* session = FitInto(folder, &here) ? MapFile(folder, path, here.Sum(), process) : nullptr;
  if (session != nullptr) *room = here;
  return session;
}

SessionHeader* MapSomewhere(const RunPlace& place, ProcessState* process, Room* room) {
  SessionHeader* session = place.for_rings ? MapIn(place.folder, place.path, process, room) : nullptr;
  if (session != nullptr) return session;
  int memory = open("/dev/shm", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (memory >= 0) session = MapIn(memory, "/dev/shm", process, room);
  if (memory >= 0) close(memory);
  if (session == nullptr) session = MapIn(place.folder, place.path, process, room);
  if (session != nullptr) return session;
  process->ring_path[0] = '\0';
  session = static_cast<SessionHeader*>(MapOwnPages(room->Sum()));
  if (session != nullptr) session->is_private = 1;
  return session;
}

void DescribeFolder(int folder, SessionHeader* session) {
  struct stat info;
  if (fstat(folder, &info) != 0) return;
  session->folder_device = info.st_dev;
  session->folder_inode = info.st_ino;
}

// Which trace of which folder the rings belong to.
void Describe(int trace, int folder, SessionHeader* session) {
  struct stat info;
  if (fstat(trace, &info) == 0) session->trace_inode = info.st_ino;
  DescribeFolder(folder, session);
}

int OpenFolderOf(const char* path, bool make) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%.*s", static_cast<int>(BaseName(path) - path), path);
  return OpenFolder(folder, make);
}

bool IsSame(int folder, uint64_t device, uint64_t inode) {
  struct stat info;
  return folder >= 0 && fstat(folder, &info) == 0 && info.st_dev == device && info.st_ino == inode;
}

void RemoveLink(const ProcessState* process, int folder) {
  char target[sizeof process->ring_path] = "";
  ssize_t length = readlinkat(folder, process->link_name, target, sizeof target - 1);
  if (length > 0 && strcmp(target, process->ring_path) == 0) unlinkat(folder, process->link_name, 0);
}

// The fallback in the temporary folder.
bool FallBack(const char* why, RunPlace* place) {
  char wanted[sizeof place->path];
  snprintf(wanted, sizeof wanted, "%s", place->path);
  snprintf(place->requested, sizeof place->requested, "%.255s", wanted);
  snprintf(place->refusal, sizeof place->refusal, "%s", why);
  if (place->folder >= 0) close(place->folder);
  FallbackFolder(wanted, place->path, sizeof place->path);
  place->folder = OpenPrivateFolder(place->path);
  return place->folder >= 0;
}

// False with errno set.
bool CreateTraceIn(const RunPlace& place, SessionHeader* session) {
  char program[64] = "";
  AppendSafe(program, sizeof program, session->program[0] != '\0' ? session->program : "program");
  for (int attempt = 1; attempt < 10000; ++attempt) {
    char suffix[16] = "";
    if (attempt > 1) snprintf(suffix, sizeof suffix, "-%d", attempt);
    snprintf(session->trace_name, sizeof session->trace_name, "%s-%u%s.dlh", program, session->pid, suffix);
    int length = snprintf(session->trace_path, sizeof session->trace_path, "%s/%s", place.path, session->trace_name);
    if (length >= static_cast<int>(sizeof session->trace_path)) {
      errno = ENAMETOOLONG;
      return false;
    }
    int fd = openat(place.folder, session->trace_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
      Describe(fd, place.folder, session);
      close(fd);
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

// This process's session, in memory that a forked child can still read.
struct {
  SessionHeader* session;
  uint64_t bytes;
} g_mapped;

// A signal handler may have forked in the middle of a record, and the child returns into it: its remaining stores go to
// unused memory, where the session was. Its next call starts a session of its own. (Not after _Fork and clone: they run
// no handlers.)
void InForkedChild() {
  SessionHeader* session = g_mapped.session;
  if (session == nullptr) return;
  g_mapped.session = nullptr;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  ErrnoKeeper keeper;
  void* memory = mmap(session, g_mapped.bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (memory != session && memory != MAP_FAILED) munmap(memory, g_mapped.bytes);
  ThreadState* thread = dlhook_thread;
  if (memory == session && thread != nullptr) {
    session->drained_by_host.store(1);  // no check for a drain
    thread->session = session;
    thread->ring.slot = &session->slots[0];
    thread->ring.data = reinterpret_cast<char*>(session) + kRingsStart;  // slot 0's ring is the largest
  }
}

void PrepareForForks(SessionHeader* session, uint64_t bytes) {
  static bool is_registered = pthread_atfork(nullptr, nullptr, &InForkedChild) == 0;
  g_mapped = {is_registered ? session : nullptr, bytes};
}

}  // namespace

SessionHeader* MapSession(ProcessState* process, const RunPlace& place) {
  Room room = RoomFor(*process);
  SessionHeader* session = MapSomewhere(place, process, &room);
  if (session == nullptr && room.growth != 0) {
    room.growth = 0;
    session = MapSomewhere(place, process, &room);
  }
  if (session == nullptr) return nullptr;
  session->chunks_offset = room.rings;
  session->chunk_bytes = ChunkBytes(process->growth_bytes);
  session->chunk_count = static_cast<uint32_t>(room.growth / session->chunk_bytes);
  uint64_t bytes = room.Sum();
  madvise(session, bytes, MADV_DONTFORK);  // a child has its own
  madvise(session, bytes, MADV_DONTDUMP);
  session->mapping_bytes = bytes;
  PrepareForForks(session, bytes);
  return session;
}

bool ChooseRunFolder(const Config& config, const char* run_key, RunPlace* place) {
  char here[2048];
  char name[128];
  const char* wanted = config.out;
  place->folder = -1;
  if (wanted[0] == '\0') {
    snprintf(name, sizeof name, "dlhook-%.96s", run_key);
    wanted = name;
  }
  if (wanted[0] == '/') {
    snprintf(place->path, sizeof place->path, "%s", wanted);
  } else if (getcwd(here, sizeof here) != nullptr && here[0] == '/') {
    snprintf(place->path, sizeof place->path, "%s/%.2000s", here, wanted);
  } else {
    snprintf(place->path, sizeof place->path, "%.2000s", wanted);
    return FallBack("the working directory was removed", place);
  }
  size_t length = strlen(place->path);
  while (length > 1 && place->path[length - 1] == '/') place->path[--length] = '\0';
  place->folder = OpenFolder(place->path, true);
  return place->folder >= 0 || FallBack(strerror(errno), place);
}

bool CreateTrace(RunPlace* place, SessionHeader* session) {
  if (CreateTraceIn(*place, session)) return true;
  return place->refusal[0] == '\0' && FallBack(strerror(errno), place) && CreateTraceIn(*place, session);
}

void NameLink(ProcessState* process) {
  const char* trace = process->session->trace_name;
  if (process->ring_path[0] == '\0') return;
  snprintf(process->link_name, sizeof process->link_name, "%.*s.ring", static_cast<int>(strlen(trace) - strlen(".dlh")),
           trace);
}

bool PublishRing(ProcessState* process, int folder) {
  const SessionHeader* session = process->session;
  if (process->link_name[0] == '\0' || !IsSame(folder, session->folder_device, session->folder_inode)) return false;
  if (symlinkat(process->ring_path, folder, process->link_name) != 0 && errno != EEXIST) process->link_name[0] = '\0';
  return process->link_name[0] != '\0';
}

RingLock LockRing(const ProcessState* process, int* descriptor) {
  int fd = OpenRingFile(process);
  if (fd < 0) return RingLock::kUnknown;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
    *descriptor = fd;
    return RingLock::kOurs;
  }
  bool is_held = errno == EWOULDBLOCK;
  close(fd);
  return is_held ? RingLock::kOfAnother : RingLock::kUnknown;
}

int OpenRunFolder(const SessionHeader* session) {
  int folder = OpenFolderOf(session->trace_path, false);
  if (IsSame(folder, session->folder_device, session->folder_inode)) return folder;
  if (folder >= 0) close(folder);
  return -1;
}

bool OpenRunFolders(const ProcessState* process, RunFolders* folders) {
  folders->run = OpenRunFolder(process->session);
  if (process->ring_path[0] != '\0') folders->mapping = OpenFolderOf(process->ring_path, false);
  return folders->run >= 0;
}

void CloseRunFolders(RunFolders* folders) {
  for (int* folder : {&folders->mapping, &folders->run}) {
    if (*folder >= 0) close(*folder);
    *folder = -1;
  }
}

void RenewRunFolder(ProcessState* process, RunFolders* folders) {
  struct stat info;
  SessionHeader* session = process->session;
  bool is_removed = folders->run >= 0 && fstat(folders->run, &info) == 0 && info.st_nlink == 0;
  if (is_removed) {
    int folder = OpenFolderOf(session->trace_path, true);
    if (folder < 0) return;
    close(folders->run);
    folders->run = folder;
    DescribeFolder(folder, session);
  }
  PublishRing(process, folders->run);
}

void RemoveRing(const ProcessState* process, const RunFolders& folders) {
  if (process->ring_path[0] == '\0') return;
  struct stat info;
  RunFolders own;
  const RunFolders* held = &folders;
  if (folders.run < 0) {
    OpenRunFolders(process, &own);
    held = &own;
  }
  const char* name = BaseName(process->ring_path);
  bool is_ours = fstatat(held->mapping, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_ino == process->ring_inode;
  if (is_ours) unlinkat(held->mapping, name, 0);
  RemoveLink(process, held->run);
  CloseRunFolders(&own);
}

}  // namespace dlhook::inline runtime
