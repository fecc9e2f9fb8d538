// What /proc says of threads: pure functions that parse the files' text (unit-tested), the files of one thread kept open, and
// what looks from outside find (format/thread_states.h): how long a thread waited for a processor, which the kernel counts, and
// how long it was blocked and in what, which the looks estimate.
// Thread: the drain's.
#pragma once

#include "preload/counters/rusage_counters.h"
#include "preload/drain/batches.h"
#include "preload/format/thread_states.h"

namespace dlhook::inline drain {

// The first two numbers of "schedstat": CPU time, and time in which the thread was ready to run but had no processor, in
// ns. False if there are none.
bool ParseSchedstat(const char* text, uint64_t* task_clock_ns, uint64_t* queued_ns);

// From "syscall". False if the thread runs, or would if it had a processor.
bool ParseBlockedIn(const char* text, BlockedIn* blocked_in);
// The same from "stat".
bool IsBlocked(const char* text);

struct ProcStat {
  uint64_t minor_faults;
  uint64_t major_faults;
  uint64_t cpu_jiffies;    // user and system
  uint64_t start_jiffies;  // since boot
  char name[16];           // of the thread; it may contain anything
};
bool ParseStat(const char* text, ProcStat* stat);

// From "status". False if missing.
bool ParseSwitches(const char* text, uint64_t* voluntary, uint64_t* involuntary);

// From "sched": migrations to other processors.
bool ParseMigrations(const char* text, uint64_t* migrations);

enum class ProcFile : uint32_t { kSchedstat, kStat, kStatus, kSched, kSyscall };
constexpr uint32_t kProcFileCount = 5;

// Files of /proc/PID/task/TID, or of the process as a whole (`tid` 0).
struct ProcFiles {
  uint32_t pid;
  uint32_t tid;
  // Reading an open file takes a fifth of the time of opening and reading. -1: not open, also if beyond the budget.
  int fds[kProcFileCount];
};
void StartProcFiles(uint32_t pid, uint32_t tid, ProcFiles* files);
void CloseProcFiles(ProcFiles* files);
// The file from its beginning, as a string; false, with errno, if the thread is gone, the kernel has no such file, or
// no descriptor is available.
bool ReadProcFile(ProcFiles* files, ProcFile which, char* text, uint32_t size);

// A look at a thread, and what it says of one that it found blocked.
struct BlockedLook {
  uint32_t tid;
  uint32_t thread_id;
  uint64_t since_ticks;  // the look before, for the time since which this one stands; 0: it is the first
  uint64_t ticks;
  uint64_t task_clock_ns;  // as long as it is the same, the thread did not run
  BlockedIn blocked_in = BlockedIn::kOther;
  const char* system_call = nullptr;  // the line of /proc/PID/task/TID/syscall
};
struct BlockedObserver {
  void (*see)(void* self, const BlockedLook& look) = nullptr;
  void* self = nullptr;
};

struct ThreadStates {
  uint64_t queued_ns;
  uint64_t blocked_ns[kBlockedIns];  // what the looks stand for that found it there
};

// Looks at the thread of `files`, tells the observer of a blocked one, and adds what this look stands for.
void LookAtThread(ProcFiles* files, BlockedLook look, uint64_t ticks_per_second, const BlockedObserver& observer,
                  ThreadStates* states);

// As values of kThreadStateList.
CounterReading StatesReading(uint64_t ticks, uint64_t task_clock_ns, const ThreadStates& states);

// Limits the descriptors kept open for sampling counters to a quarter of the process's limit, over all its samplers
// (`dlhook run` has one per recorded process). A sampler without descriptors opens its files for each read.
// Thread: any. One system call.

// All or, false, none.
bool TakeDescriptors(uint32_t count);
void GiveBackDescriptors(uint32_t count);

}  // namespace dlhook::inline drain
