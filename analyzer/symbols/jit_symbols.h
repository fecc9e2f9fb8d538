// Code that was compiled while the program ran, as the compilers tell of it: perf map files (perf-PID.map) and jitdump
// (jit-PID.dump).
#ifndef DLHOOK_ANALYZER_SYMBOLS_JIT_SYMBOLS_H_
#define DLHOOK_ANALYZER_SYMBOLS_JIT_SYMBOLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline symbols {

struct JitLine {
  uint64_t address = 0;  // from here on
  uint32_t line = 0;
  std::string file;
};

struct JitFunction {
  uint64_t start = 0;
  uint64_t size = 0;
  std::string name;
  std::vector<JitLine> lines;  // by address; jitdump only
};

// Functions by address. Compilers use the place of code that was dropped again: the last function told holds. (A native
// frame has no time by which the one of its own time could be chosen.)
class JitSymbols {
 public:
  void Add(JitFunction function);
  void Finish();  // before the first look-up

  const JitFunction* Find(uint64_t address) const;  // null: none
  bool empty() const { return functions_.empty(); }
  size_t replaced() const { return replaced_; }  // functions whose place another one took

 private:
  std::vector<JitFunction> functions_;
  size_t replaced_ = 0;
};

// Lines "START SIZE NAME", hexadecimal numbers. What is no such line is left out. -> number of functions.
size_t ReadPerfMap(absl::string_view text, JitSymbols* symbols);

// See tools/perf/Documentation/jitdump-specification.txt of Linux. False: not a jitdump of this process on this
// architecture. A file that ends in the middle of a record is read as far as it goes.
bool ReadJitDump(absl::string_view bytes, uint32_t pid, JitSymbols* symbols);

}  // namespace dlhook::analyzer::symbols

#endif  // DLHOOK_ANALYZER_SYMBOLS_JIT_SYMBOLS_H_
