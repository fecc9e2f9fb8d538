// The environment variables of libdlhook.so (preload/format/variables.inc), for `dlhook help variables` and the man
// page.
#ifndef DLHOOK_ANALYZER_CLI_VARIABLES_H_
#define DLHOOK_ANALYZER_CLI_VARIABLES_H_

#include <string>
#include <vector>

namespace dlhook::analyzer::inline cli {

struct Variable {
  std::string name;
  std::string values;
  std::string standard;  // the default
  std::string meaning;
};

// Those for users, in the order of the help.
const std::vector<Variable>& Variables();

// The values of DLHOOK_CAPTURE: "blas, blas2, …", and which of them are off by default.
std::string FamiliesSentence();

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_VARIABLES_H_
