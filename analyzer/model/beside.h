// Work on a second processor, if the process may use one (`taskset -c 0` says that it may not), else the same work on the
// caller's thread. What comes out does not depend on it. What both use must not change meanwhile. A task may not ask for
// what LayerAnalysis makes at its first use, unless nobody who waits for the task is making it.
#pragma once

#include <future>
#include <system_error>
#include <utility>

namespace dlhook::analyzer::inline model {

bool MayUseTwoProcessors();

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
