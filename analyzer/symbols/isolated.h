// Runs work in a child process: libraries that read arbitrary files may crash, hang or exhaust memory, and a mapped
// file that is replaced meanwhile kills its reader (SIGBUS). None of this may affect a report.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline symbols {

struct IsolatedResult {
  std::string bytes;    // the result
  std::string failure;  // why there is no result: "it crashed (SIGSEGV)", "it took more than 60 s"; empty: there is one
};

// kBounded: 8 GiB, for readers of files. kFree: for drivers of devices, which map more.
enum class IsolatedMemory : uint8_t { kBounded, kFree };

// work(0) to work(count - 1), in order. A failed one does not prevent the next. For single-threaded programs.
std::vector<IsolatedResult> RunIsolated(size_t count, int seconds_each, absl::FunctionRef<std::string(size_t)> work,
                                        IsolatedMemory memory = IsolatedMemory::kBounded);

}  // namespace dlhook::analyzer::symbols
