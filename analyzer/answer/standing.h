// Where the threads of a process stand that lives and records nothing any more.
#ifndef DLHOOK_ANALYZER_ANSWER_STANDING_H_
#define DLHOOK_ANALYZER_ANSWER_STANDING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline answer {

// What the system says of a thread ("sleeps in futex_wait"); empty: nothing.
using ThreadNow = std::function<std::string(uint32_t pid, uint32_t tid)>;

// "rank 1, process 4711" …
std::string ProcessName(const TraceModel& model, ProcessIndex process);

// Sentences about each of the processes: the threads that recorded something last with their last call or range, its line, and what came
// after it before, if that was always the same: a call that has not returned is not recorded yet. Of ranks also their last collective
// operation. Times are before `now_ns`, on the model's axis. At most `most` threads of a process.
std::vector<std::string> StandingLines(const TraceModel& model, const std::vector<ProcessIndex>& silent, int64_t now_ns,
                                       size_t most, const ThreadNow& thread_now);

}  // namespace dlhook::analyzer::answer

#endif  // DLHOOK_ANALYZER_ANSWER_STANDING_H_
