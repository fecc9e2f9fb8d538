// Where commands look for symbols of a run, and where they cache them.
#ifndef DLHOOK_ANALYZER_CLI_SYMBOL_OPTIONS_H_
#define DLHOOK_ANALYZER_CLI_SYMBOL_OPTIONS_H_

#include <string>

#include "analyzer/symbols/add_symbols.h"

namespace dlhook::analyzer::inline cli {

// $DLHOOK_CACHE, else $XDG_CACHE_HOME/dlhook, else ~/.cache/dlhook; empty: none ($DLHOOK_CACHE is "off").
std::string CacheFolder();

// `run`: its folder or one of its traces.
SymbolOptions SymbolOptionsFor(const std::string& run);

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_SYMBOL_OPTIONS_H_
