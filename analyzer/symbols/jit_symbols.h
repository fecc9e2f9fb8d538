// Code compiled at run time, as reported by compilers: perf map files (perf-PID.map) and jitdump (jit-PID.dump).
#pragma once

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline symbols {

struct JitLine {
  uint64_t address = 0;  // start of the line's code
  uint32_t line = 0;
  std::string file;
};

struct JitFunction {
  uint64_t start = 0;
  uint64_t size = 0;
  std::string name;
  std::vector<JitLine> lines;  // sorted by address; jitdump only
};

// Functions by address. Compilers reuse the memory of dropped code: the last recorded function wins. (A native frame
// has no time by which to choose.)
class JitSymbols {
 public:
  void Add(JitFunction function);
  void Finish();  // call before the first look-up

  const JitFunction* Find(uint64_t address) const;  // null: none
  bool empty() const { return functions_.empty(); }
  size_t replaced() const { return replaced_; }  // functions whose memory was reused

 private:
  std::vector<JitFunction> functions_;
  size_t replaced_ = 0;
};

// Lines "START SIZE NAME" with hexadecimal numbers. Other lines are ignored. Returns the number of functions.
size_t ReadPerfMap(absl::string_view text, JitSymbols* symbols);

// See tools/perf/Documentation/jitdump-specification.txt in Linux. False: not a jitdump of this process on this
// architecture. A file that is cut off inside a record is read up to there.
bool ReadJitDump(absl::string_view bytes, uint32_t pid, JitSymbols* symbols);

struct JitOwner {
  uint32_t pid = 0;
  std::optional<int64_t> start_realtime_s;  // when the process started, in seconds since 1970; unset: not known
};

// Reads perf-PID.map and jit-PID.dump. In the trace's folder and the process's own (preload/format/folders.h): any; in
// the folders where programs write them (/tmp, the working folder, ~/.debug/jit): only this user's files written after
// the process began, because pids are reused. `trace`: path of the process's trace. `notes` says what was refused.
JitSymbols ReadJitFiles(const std::string& trace, const JitOwner& owner, std::vector<std::string>* notes);

}  // namespace dlhook::analyzer::symbols
