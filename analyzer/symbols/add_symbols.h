// Names for the addresses of native stacks, after the run: from the files that were mapped then, if they are still the
// same (build-id), their separate debug files, and what JIT compilers left.
#ifndef DLHOOK_ANALYZER_SYMBOLS_ADD_SYMBOLS_H_
#define DLHOOK_ANALYZER_SYMBOLS_ADD_SYMBOLS_H_

#include <string>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline symbols {

struct SymbolOptions {
  std::string run_folder;      // perf maps and jitdumps are looked for here, too
  std::string cache_folder;    // empty: nothing is kept from one run to the next
  bool use_debug_info = true;  // lines and inlined functions; else names only
};

// Fills model->native_symbols. Never fails: what can't be named is told in its notes. Does nothing for a run without
// native stacks.
void AddSymbols(const SymbolOptions& options, TraceModel* model);

}  // namespace dlhook::analyzer::symbols

#endif  // DLHOOK_ANALYZER_SYMBOLS_ADD_SYMBOLS_H_
