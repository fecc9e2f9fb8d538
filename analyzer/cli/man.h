// The man page, made of what the help is made of.
#ifndef DLHOOK_ANALYZER_CLI_MAN_H_
#define DLHOOK_ANALYZER_CLI_MAN_H_

#include <string>

namespace dlhook::analyzer::inline cli {

// dlhook.1 in the man macros of roff.
std::string ManPage();

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_MAN_H_
