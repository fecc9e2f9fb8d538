// Finds the perf maps and jitdumps of JIT compilers, and checks which belong to a process of the run.
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
  std::optional<int64_t> start_realtime_s;  // when the process started, in seconds since 1970; unset: not known
};

// Reads perf-PID.map and jit-PID.dump. In the trace's folder and the process's own (preload/format/jit_folder.h): any; in
// the folders where programs write them (/tmp, the working folder, ~/.debug/jit): only this user's files written after
// the process began, because pids are reused. `trace`: path of the process's trace. `notes` says what was refused.
JitSymbols ReadJitFiles(const std::string& trace, const JitOwner& owner, std::vector<std::string>* notes);

}  // namespace dlhook::analyzer::symbols

#endif  // DLHOOK_ANALYZER_SYMBOLS_JIT_FILES_H_
