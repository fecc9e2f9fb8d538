// Files of /proc.
#include "preload/drain/proc_counters.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

namespace dlhook::inline drain {
namespace {

BlockedIn BlockedInCall(long number) {
  auto is = [number](std::initializer_list<long> calls) {
    for (long call : calls) {
      if (call == number) return true;
    }
    return false;
  };
  if (is({SYS_futex})) return BlockedIn::kLock;
  if (is({SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_epoll_wait, SYS_epoll_pwait, SYS_epoll_pwait2}))
    return BlockedIn::kPoll;
  if (is({SYS_read,    SYS_readv,    SYS_pread64, SYS_preadv,    SYS_write,        SYS_writev,        SYS_pwrite64,
          SYS_pwritev, SYS_recvfrom, SYS_recvmsg, SYS_sendto,    SYS_sendmsg,      SYS_accept,        SYS_accept4,
          SYS_connect, SYS_sendfile, SYS_fsync,   SYS_fdatasync, SYS_io_getevents, SYS_io_uring_enter}))
    return BlockedIn::kTransfer;
  if (is({SYS_nanosleep, SYS_clock_nanosleep})) return BlockedIn::kSleep;
  return is({SYS_wait4, SYS_waitid}) ? BlockedIn::kChild : BlockedIn::kOther;
}

bool NumberAfter(const char* text, const char* key, uint64_t* number) {
  const char* found = strstr(text, key);
  if (found == nullptr) return false;
  *number = strtoull(found + strlen(key), nullptr, 10);
  return true;
}

int OpenFile(uint32_t pid, uint32_t tid, ProcFile which) {
  static const char* const kNames[kProcFileCount] = {"schedstat", "stat", "status", "sched", "syscall"};
  char path[64];
  const char* name = kNames[static_cast<uint32_t>(which)];
  if (tid == 0) {
    snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
  } else {
    snprintf(path, sizeof path, "/proc/%u/task/%u/%s", pid, tid, name);
  }
  return open(path, O_RDONLY | O_CLOEXEC);
}

void CloseKept(int* fd) {
  ErrnoKeeper keeper;
  close(*fd);
  GiveBackDescriptors(1);
  *fd = -1;
}

}  // namespace

bool ParseSchedstat(const char* text, uint64_t* task_clock_ns, uint64_t* queued_ns) {
  char* end = nullptr;
  *task_clock_ns = strtoull(text, &end, 10);
  if (end == text || *end != ' ') return false;
  *queued_ns = strtoull(end, nullptr, 10);
  return true;
}

// "running", "202 0x7f… …" (the call's number and arguments), "-1 0x… 0x…" (in no call: a page fault, a stop).
bool ParseBlockedIn(const char* text, BlockedIn* blocked_in) {
  char* end = nullptr;
  const long number = strtol(text, &end, 10);
  if (end == text) return false;
  *blocked_in = number < 0 ? BlockedIn::kFault : BlockedInCall(number);
  return true;
}

bool IsBlocked(const char* text) {
  const char* at = strrchr(text, ')');
  return at != nullptr && at[1] == ' ' && at[2] != 'R';
}

// "4711 (a name) may) contain anything) S 1 …": fields are counted from the last parenthesis.
bool ParseStat(const char* text, ProcStat* stat) {
  const char* const close = strrchr(text, ')');
  if (close == nullptr) return false;
  const char* at = close;
  uint64_t fields[23] = {};
  uint32_t field = 2;
  for (++at; *at == ' ' && field < 22;) {
    ++at;
    fields[++field] = strtoull(at, nullptr, 10);
    while (*at != '\0' && *at != ' ') ++at;
  }
  *stat = {fields[10], fields[12], fields[14] + fields[15], fields[22], {}};
  const char* open = strchr(text, '(');
  if (open != nullptr && open < close)
    snprintf(stat->name, sizeof stat->name, "%.*s", static_cast<int>(close - open - 1), open + 1);
  return field == 22;
}

bool ParseSwitches(const char* text, uint64_t* voluntary, uint64_t* involuntary) {
  return NumberAfter(text, "\nvoluntary_ctxt_switches:", voluntary) &&
         NumberAfter(text, "\nnonvoluntary_ctxt_switches:", involuntary);
}

bool ParseMigrations(const char* text, uint64_t* migrations) {
  const char* line = strstr(text, "nr_migrations ");
  const char* colon = line == nullptr ? nullptr : strchr(line, ':');
  if (colon != nullptr) *migrations = strtoull(colon + 1, nullptr, 10);
  return colon != nullptr;
}

void StartProcFiles(uint32_t pid, uint32_t tid, ProcFiles* files) { *files = {pid, tid, {-1, -1, -1, -1, -1}}; }

void CloseProcFiles(ProcFiles* files) {
  for (int& fd : files->fds) {
    if (fd >= 0) CloseKept(&fd);
  }
}

bool ReadProcFile(ProcFiles* files, ProcFile which, char* text, uint32_t size) {
  int* kept = &files->fds[static_cast<uint32_t>(which)];
  bool is_kept = *kept >= 0;
  int fd = is_kept ? *kept : OpenFile(files->pid, files->tid, which);
  ssize_t bytes = fd < 0 ? -1 : pread(fd, text, size - 1, 0);
  text[bytes < 0 ? 0 : bytes] = '\0';
  if (is_kept && bytes <= 0) {
    CloseKept(kept);  // of a thread that is gone: its number may be reused
  } else if (!is_kept && bytes > 0 && TakeDescriptors(1)) {
    *kept = fd;
  } else if (!is_kept && fd >= 0) {
    ErrnoKeeper keeper;
    close(fd);
  }
  return bytes > 0;
}

// The first look stands for nothing: what the thread did before is not known.
void LookAtThread(ProcFiles* files, BlockedLook look, uint64_t ticks_per_second, const BlockedObserver& observer,
                  ThreadStates* states) {
  char text[1024];
  // Not readable where tracing is restricted.
  const bool is_told = ReadProcFile(files, ProcFile::kSyscall, text, sizeof text);
  const bool is_blocked = is_told ? ParseBlockedIn(text, &look.blocked_in)
                                  : ReadProcFile(files, ProcFile::kStat, text, sizeof text) && IsBlocked(text);
  if (!is_blocked || look.since_ticks == 0) return;
  look.system_call = text;
  if (is_told && observer.see != nullptr) observer.see(observer.self, look);
  states->blocked_ns[static_cast<uint32_t>(look.blocked_in)] += static_cast<uint64_t>(
      static_cast<double>(look.ticks - look.since_ticks) * 1e9 / static_cast<double>(ticks_per_second));
}

CounterReading StatesReading(uint64_t ticks, uint64_t task_clock_ns, const ThreadStates& states) {
  CounterReading reading = {ticks, 0, 0, {task_clock_ns, states.queued_ns}};
  memcpy(reading.values + 2, states.blocked_ns, sizeof states.blocked_ns);
  return reading;
}

// The budget of descriptors.

namespace {

constexpr uint64_t kPartOfTable = 4;
constexpr uint64_t kMostDescriptors = 8192;  // each file of /proc that has been read uses a page

// Process id, and in the lower half the number taken: a forked child's drain has its own table.
std::atomic<uint64_t> g_taken{0};

uint64_t Budget() {
  rlimit limit;
  uint64_t part = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / kPartOfTable : 0;
  return part < kMostDescriptors ? part : kMostDescriptors;
}

}  // namespace

bool TakeDescriptors(uint32_t count) {
  uint64_t process = static_cast<uint64_t>(getpid()) << 32;
  uint64_t budget = Budget();
  uint64_t seen = g_taken.load(std::memory_order_relaxed);
  for (;;) {
    uint64_t taken = (seen >> 32 << 32) == process ? seen & 0xffffffffu : 0;
    if (taken + count > budget) return false;
    if (g_taken.compare_exchange_weak(seen, process | (taken + count))) return true;
  }
}

void GiveBackDescriptors(uint32_t count) { g_taken.fetch_sub(count); }

}  // namespace dlhook::inline drain
