// How the commands of dlhook open runs.
#ifndef DLHOOK_ANALYZER_CLI_LOAD_OPTIONS_H_
#define DLHOOK_ANALYZER_CLI_LOAD_OPTIONS_H_

#include "analyzer/io/trace_bytes.h"

namespace dlhook::analyzer::inline cli {

// Drains what killed processes left in their rings.
DrainLeftover LeftoverDrain();

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_LOAD_OPTIONS_H_
