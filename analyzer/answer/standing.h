// Where the threads of a process stand that lives and records nothing any more.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline answer {

// What the system says of a thread.
struct ThreadNow {
  std::string state;               // "sleeps in futex_wait"; empty: nothing
  std::vector<std::string> stack;  // innermost first; empty: not known
};
using ThreadNowOf = std::function<ThreadNow(uint32_t pid, uint32_t tid)>;

// A process that records nothing any more.
struct SilentProcess {
  ProcessIndex process = 0;
  bool has_open = false;  // the model holds what has not ended (DrainOpen), as if it ended after `now_ns`
};

// "rank 1, process 4711" …
std::string ProcessName(const TraceModel& model, ProcessIndex process);

// Sentences about each of the processes: of threads, those first that are inside a call or range, which one and for how long, else what
// they recorded last, its line, and what came after it before, if that was always the same; their stacks. Of ranks also which collective
// operation they have begun or returned from. Times are before `now_ns`, on the model's axis. At most `most` threads of a process.
std::vector<std::string> StandingLines(const TraceModel& model, const std::vector<SilentProcess>& silent,
                                       int64_t now_ns, size_t most, const ThreadNowOf& thread_now);

}  // namespace dlhook::analyzer::answer
