// Work on a second processor, if the process may use one (`taskset -c 0` says that it may not), else the same work on the
// caller's thread. What comes out does not depend on it. What both use must not change meanwhile. A task may not ask for
// what LayerAnalysis makes at its first use, unless nobody who waits for the task is making it.
#pragma once

#include <sched.h>

#include <future>
#include <system_error>
#include <utility>

namespace dlhook::analyzer::inline model {

// On a machine with more processors than a cpu_set_t has bits the question fails: it has two.
inline bool MayUseTwoProcessors() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) > 1;
}

// The result of `task`, which runs beside what the caller does before get(); that also throws what `task` threw.
template <typename Task>
auto Beside(Task task) {
  if (MayUseTwoProcessors()) {
    try {
      return std::async(std::launch::async, task);
    } catch (const std::system_error&) {  // no thread is left to the user or the container
    }
  }
  return std::async(std::launch::deferred, std::move(task));
}

}  // namespace dlhook::analyzer::model
