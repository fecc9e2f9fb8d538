// The man page, generated from the same data as the help.
#ifndef DLHOOK_ANALYZER_CLI_MAN_H_
#define DLHOOK_ANALYZER_CLI_MAN_H_

#include <string>

namespace dlhook::analyzer::inline cli {

// dlhook.1 in roff's man macros.
std::string ManPage();

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_MAN_H_
