// The environment variables of libdlhook.so, for `dlhook help variables` and the man page. README.md has the same
// table, and preload/runtime/config.cc reads them: tests/analyzer/variables_test.py compares the three.
#ifndef DLHOOK_ANALYZER_CLI_VARIABLES_H_
#define DLHOOK_ANALYZER_CLI_VARIABLES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline cli {

struct Variable {
  absl::string_view name;
  absl::string_view values;
  absl::string_view standard;  // the default
  absl::string_view meaning;
};

// Those that people may set, in the order of the help.
const std::vector<Variable>& Variables();

// What DLHOOK_CAPTURE may name: "blas, blas2, …", and which of them are off unless asked for.
std::string FamiliesSentence();

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_VARIABLES_H_
