// Work in a process of its own: libraries that read files of any kind may crash, hang or ask for all of the memory, and
// a mapped file that is replaced in the middle kills its reader (SIGBUS). None of that may happen to a report.
#ifndef DLHOOK_ANALYZER_SYMBOLS_ISOLATED_H_
#define DLHOOK_ANALYZER_SYMBOLS_ISOLATED_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

namespace dlhook::analyzer::inline symbols {

struct IsolatedResult {
  std::string bytes;    // what the work returned
  std::string failure;  // why there is none: "it crashed (SIGSEGV)", "it took more than 60 s"; empty: there is
};

// work(0) to work(count - 1), in order. One that fails does not keep the next ones from being done. For programs with a
// single thread.
std::vector<IsolatedResult> RunIsolated(size_t count, int seconds_each, absl::FunctionRef<std::string(size_t)> work);

}  // namespace dlhook::analyzer::symbols

#endif  // DLHOOK_ANALYZER_SYMBOLS_ISOLATED_H_
