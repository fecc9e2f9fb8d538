// What the end of a program must not wait for.
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline cli {

// From here on the signals that ask a process to end (SIGTERM, SIGINT, SIGHUP, SIGQUIT) wait for MakeInTime.
void HoldEndingSignals();

struct Made {
  absl::Status status;  // not OK: why pieces are missing, to follow "the analysis"
  std::vector<std::string> pieces;
};

// The pieces (some lines each) that `make` gives, in a child process: it has two seconds of processor time, or six on a
// busy machine, and a held signal ends it at once.
using GivePiece = absl::FunctionRef<void(absl::string_view)>;
Made MakeInTime(absl::FunctionRef<void(GivePiece)> make);

}  // namespace dlhook::analyzer::cli
