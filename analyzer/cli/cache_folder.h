// Where commands keep what they look up.
#ifndef DLHOOK_ANALYZER_CLI_CACHE_FOLDER_H_
#define DLHOOK_ANALYZER_CLI_CACHE_FOLDER_H_

#include <string>

namespace dlhook::analyzer::inline cli {

// $DLHOOK_CACHE, else $XDG_CACHE_HOME/dlhook, else ~/.cache/dlhook; empty: none ($DLHOOK_CACHE is "off").
std::string CacheFolder();

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_CACHE_FOLDER_H_
