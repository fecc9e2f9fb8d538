// Where JIT compilers leave their perf maps and jitdumps, and which of them belong to a process of the run.
#ifndef DLHOOK_ANALYZER_SYMBOLS_JIT_FILES_H_
#define DLHOOK_ANALYZER_SYMBOLS_JIT_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/symbols/jit_symbols.h"

namespace dlhook::analyzer::inline symbols {

struct JitOwner {
  uint32_t pid = 0;
  std::optional<int64_t> start_realtime_s;  // when the process started, seconds since 1970; unset: not known
};

// Reads perf-PID.map and jit-PID.dump: in the run's folder; in the folders into which programs write them (/tmp, the
// working folder,
// ~/.debug/jit) only files of this user that were written after the process began, since pids come again. What is
// refused is told in `notes`.
JitSymbols ReadJitFiles(const std::string& run_folder, const JitOwner& owner, std::vector<std::string>* notes);

}  // namespace dlhook::analyzer::symbols

#endif  // DLHOOK_ANALYZER_SYMBOLS_JIT_FILES_H_
