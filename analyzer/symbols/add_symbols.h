// Names the addresses of native stacks after the run: from the files that were mapped, if they are unchanged
// (build-id), their separate debug files, and the files that JIT compilers left.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline symbols {

struct SymbolOptions {
  std::string cache_folder;    // empty: no cache
  bool use_debug_info = true;  // lines and inlined functions; otherwise only names
};

// Sets model->native_symbols. Never fails: its notes say what could not be named. Does nothing for a run without native
// stacks.
void AddSymbols(const SymbolOptions& options, TraceModel* model);

}  // namespace dlhook::analyzer::symbols
