// The writer thread, which drains a process's rings if no other process does. It has its own table of file descriptors:
// the host may close all of its descriptors, or reuse their numbers, without affecting the writer's. All signals except
// the C library's own two are blocked in it.
#include <sched.h>
#include <stdlib.h>

#include <new>

#include "preload/base/own_thread.h"
#include "preload/drain/counter_sampler.h"
#include "preload/drain/nap.h"
#include "preload/format/folders.h"
#include "preload/format/identity.h"
#include "preload/link/resolver.h"
#include "preload/runtime/session_files.h"
#include "preload/runtime/undisturbed.h"

namespace dlhook::inline process {
namespace {

// Whether this user may have more threads.
// The limit counts all threads of a user on the machine. Their number is only available from /proc, which is read only
// if the number of all users' threads, which is cheap, does not decide.

constexpr uint64_t kSpareThreads = 32;

// The fourth field is "running/all". 0: unknown.
uint64_t AllThreads() {
  char text[128];
  ReadFileAt(AT_FDCWD, "/proc/loadavg", text, sizeof text);
  const char* all = strchr(text, '/');
  return all == nullptr ? 0 : strtoull(all + 1, nullptr, 10);
}

uint64_t ThreadsOfProcess(int proc, const char* pid) {
  char path[48];
  char text[2048];
  struct stat info;
  if (fstatat(proc, pid, &info, 0) != 0 || info.st_uid != getuid()) return 0;
  snprintf(path, sizeof path, "%.32s/status", pid);
  ReadFileAt(proc, path, text, sizeof text);
  const char* threads = strstr(text, "\nThreads:");
  return threads == nullptr ? 0 : strtoull(threads + strlen("\nThreads:"), nullptr, 10);
}

uint64_t ThreadsOfUser() {
  uint64_t threads = 0;
  int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return 0;
  VisitEntries(proc, [&](const char* name) {
    if (name[0] >= '1' && name[0] <= '9') threads += ThreadsOfProcess(proc, name);
  });
  close(proc);
  return threads;
}

// False if the limit (RLIMIT_NPROC) leaves this process's user so few threads that the host may need them all itself.
bool IsRoomForThread() {
  rlimit limit;
  bool has_limit = getuid() != 0 && getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (!has_limit || AllThreads() + kSpareThreads <= limit.rlim_cur) return true;
  return ThreadsOfUser() + kSpareThreads <= limit.rlim_cur;
}

constexpr size_t kStackBytes = 512 << 10;
constexpr time_t kLongestStartSeconds = 2;
constexpr time_t kLongestEndSeconds = 10;
constexpr long kCloseRange = 436;  // SYS_close_range, for older headers
constexpr unsigned kUnshare = 2;   // CLOSE_RANGE_UNSHARE

// ProcessState.writer_stop
enum StopWord : uint32_t { kGoOn = 0, kFinish = 1, kPause = 2, kAlone = 3 };  // the last: found by the writer itself
// ProcessState.writer_ready
enum ReadyWord : uint32_t { kNotYet = 0, kReady = 1, kCannot = 2 };

struct Writer {
  int lock = -1;  // of the ring file, if the host cannot close the descriptor
  int proc = -1;  // /proc/self, likewise: the host may change its root directory
  FileSink sink;
  Drain drain;
  CounterSampler sampler;
  RunFolders folders;
};

// In pages of its own (not from the host's heap), and new for each process: a forked child must not see its parent's.
Writer* NewWriter() {
  void* memory = MapOwnPages(sizeof(Writer));
  return memory == nullptr ? nullptr : new (memory) Writer;
}

// Tools that inspect a run from outside hold the lock for a moment. False: another process drains.
bool TakeLock(const ProcessState* process, int* lock) {
  constexpr int kTries = 20;
  constexpr timespec kNap = {0, 5 * 1000 * 1000};
  if (process->ring_path[0] == '\0') return true;
  for (int i = 0; i < kTries; ++i) {
    if (LockRing(process, lock) != RingLock::kOfAnother) return true;  // if unknown, drained_by_host decides
    clock_nanosleep(CLOCK_MONOTONIC, 0, &kNap, nullptr);
  }
  return false;
}

bool OpenTrace(const ProcessState* process, Writer* writer) {
  const SessionHeader& session = *process->session;
  if (writer->folders.run >= 0) {
    return writer->sink.OpenAt(writer->folders.run, session.trace_name, session.trace_inode, true);
  }
  return writer->sink.OpenAt(AT_FDCWD, session.trace_path, session.trace_inode, true);
}

bool OpenWriter(ProcessState* process, Writer* writer) {
  // Before Linux 5.9 the table is shared with the host: then use as few descriptors as possible, and the sink checks
  // that its descriptor is still its own.
  bool has_own_table = syscall(kCloseRange, 0, ~0u, kUnshare) == 0;
  if (has_own_table && !(TakeLock(process, &writer->lock) && OpenRunFolders(process, &writer->folders))) return false;
  if (has_own_table) writer->proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
  bool is_open = OpenTrace(process, writer) &&
                 writer->drain.Open(process->session, process->session->mapping_bytes, &writer->sink);
  // The host's table has no room for files of all its threads.
  if (is_open && has_own_table) writer->sampler.Open(process->session, true, &writer->drain);
  return is_open;
}

void CloseWriter(Writer* writer) {
  CloseRunFolders(&writer->folders);
  if (writer->lock >= 0) close(writer->lock);
  if (writer->proc >= 0) close(writer->proc);
  writer->~Writer();
  munmap(writer, sizeof(Writer));
}

void Announce(ProcessState* process, ReadyWord word) {
  process->writer_ready.store(word, std::memory_order_release);
  FutexWake(&process->writer_ready, 1);
}

// The trace, or the whole run, may have been removed.
void FollowTrace(ProcessState* process, Writer* writer) {
  process->session->trace_inode = writer->sink.inode();
  if (!writer->sink.IsRemoved() || writer->folders.run < 0) return;
  RenewRunFolder(process, &writer->folders);
  writer->sink.MoveTo(writer->folders.run, process->session->trace_name);
}

// Whether the program's last thread has ended by itself (the system call exit, as when a child of clone returns): what is
// left is the process's first thread, which has no memory any more, and this one.
bool IsAlone(const Writer& writer) {
  constexpr nlink_t kTwo = 2 + 2;  // two tasks; a folder is linked in its parent and in itself
  const bool is_open = writer.proc >= 0;
  struct stat tasks, program;
  return fstatat(writer.proc, is_open ? "task" : "/proc/self/task", &tasks, 0) == 0 && tasks.st_nlink == kTwo &&
         fstatat(writer.proc, is_open ? "exe" : "/proc/self/exe", &program, 0) != 0 && errno == ENOENT;
}

// That of its first thread: those of others are not kept. 52 fields; the last one is a wait status.
int ExitCode(const Writer& writer) {
  char text[1024];
  ReadFileAt(writer.proc, writer.proc >= 0 ? "stat" : "/proc/self/stat", text, sizeof text);
  const char* status = strrchr(text, ' ');
  return status == nullptr ? 0 : static_cast<int>(strtoul(status, nullptr, 10) >> 8 & 0xff);
}

// No destructor has run, as after _exit.
void CloseSession(ProcessState* process) {
  SessionHeader* session = process->session;
  process->phase.store(kFinished);
  session->enabled_families.store(0);
  session->left_ticks.store(NowTicks(*session));
}

// Returns the word that ended it.
StopWord DrainUntilStopped(ProcessState* process, Writer* writer) {
  DrainNap naps;
  bool rings_grow = process->session->chunk_count != 0;
  for (;;) {
    uint32_t stop = process->writer_stop.load(std::memory_order_acquire);
    if (stop != kGoOn) return static_cast<StopWord>(stop);
    FollowTrace(process, writer);
    uint32_t fullness = writer->drain.Step(false, true);
    writer->sampler.Step(&writer->drain);
    if (fullness == 0 && IsAlone(*writer)) return kAlone;
    timespec nap = {0, naps.Next(fullness, rings_grow, writer->sampler.NanosecondsToNext())};
    FutexWait(&process->writer_stop, kGoOn, nap);
  }
}

void* WriterMain(void* argument) {
  UncountedThread uncounted;
  auto process = static_cast<ProcessState*>(argument);
  Writer* writer = NewWriter();
  if (writer == nullptr || !OpenWriter(process, writer)) {
    if (writer != nullptr) CloseWriter(writer);
    Announce(process, kCannot);
    return nullptr;
  }
  Announce(process, kReady);
  StopWord stop = DrainUntilStopped(process, writer);
  FollowTrace(process, writer);
  writer->sampler.Finish(&writer->drain);
  writer->sampler.Close();
  if (stop == kPause) writer->drain.Suspend();
  if (stop == kFinish) writer->drain.Finish(ProcessEnd::kExited, true);
  if (stop == kAlone) {
    CloseSession(process);
    writer->drain.Finish(ProcessEnd::kLeft, true);
  }
  writer->sink.Close();
  if (stop != kPause) RemoveRing(process, writer->folders);
  // Otherwise newer kernels take this thread's for the process's.
  if (stop == kAlone) syscall(SYS_exit_group, ExitCode(*writer));
  CloseWriter(writer);
  return nullptr;
}

bool CreateThread(ProcessState* process) {
  static void* stack = nullptr;
  return StartOwnThread(&stack, kStackBytes, &WriterMain, process, &process->writer);
}

// The files must be open when the first call returns: the host may then change its root, user or limits.
bool WaitUntilReady(ProcessState* process) {
  timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    uint32_t ready = process->writer_ready.load(std::memory_order_acquire);
    if (ready != kNotYet) return ready == kReady;
    FutexWait(&process->writer_ready, kNotYet, {0, 100 * 1000 * 1000});
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - start.tv_sec <= kLongestStartSeconds);
  return true;  // the machine is very busy
}

// False if it does not end in time.
bool Stop(ProcessState* process, StopWord word) {
  process->writer_stop.store(word, std::memory_order_release);
  FutexWake(&process->writer_stop, 1);
  return JoinWithin(process->writer, kLongestEndSeconds);
}

}  // namespace

void StartWriter(ProcessState* process) {
  Undisturbed undisturbed;  // the writer inherits blocked signals
  SessionHeader* session = process->session;
  if (session == nullptr) return;  // a signal handler has forked since the caller checked: this is the child
  if (session->pid != static_cast<uint32_t>(getpid())) return;  // a child in this memory: the thread would end with it
  bool nobody_drains = session->is_private == 0 && (GetConfig().drain == DrainMode::kNone || !IsRoomForThread());
  if (nobody_drains || process->writer_started.exchange(1) != 0) return;
  session->drained_by_host.store(1);
  process->writer_ready.store(kNotYet);
  bool created = CreateThread(process);
  if (created && WaitUntilReady(process)) return;
  if (created) pthread_join(process->writer, nullptr);
  session->drained_by_host.store(0);
  process->writer_failures.fetch_add(1);
  process->writer_started.store(0);
}

void StopWriter(ProcessState* process) {
  if (process->writer_started.load() != 0) Stop(process, kFinish);
}

// While it exists the process has no writer thread.
class WithoutWriter {
 public:
  explicit WithoutWriter(bool wanted) {
    ProcessState* process = wanted ? GetProcess() : nullptr;
    if (process == nullptr || process->writer_started.load() == 0) return;
    Undisturbed undisturbed;
    if (Stop(process, kPause)) process_ = process;
  }
  ~WithoutWriter() {
    if (process_ == nullptr) return;
    process_->writer_stop.store(kGoOn);
    process_->writer_started.store(0);
    StartWriter(process_);
  }
  WithoutWriter(const WithoutWriter&) = delete;
  WithoutWriter& operator=(const WithoutWriter&) = delete;

 private:
  ProcessState* process_ = nullptr;  // whose writer is resumed afterwards
};

}  // namespace dlhook::inline process

// System calls that fail in a process with a second thread (EINVAL): the writer thread is stopped for their duration.
// Thread: any application thread.
extern "C" {

__attribute__((visibility("default"))) int unshare(int flags) noexcept {
  constexpr int kNotWithThreads = CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
  dlhook::WithoutWriter without_writer((flags & kNotWithThreads) != 0);
  return dlhook::RealOf<int(int)>("unshare")(flags);
}

// Into a user, mount or time namespace; if `kind` is 0, only the kernel knows the kind of `descriptor`.
__attribute__((visibility("default"))) int setns(int descriptor, int kind) noexcept {
  dlhook::WithoutWriter without_writer(true);
  return dlhook::RealOf<int(int, int)>("setns")(descriptor, kind);
}

}  // extern "C"
