// Checks this machine: whether the shim loads and records, and what else is available. Everything is tried, in child
// processes, and leaves nothing behind.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/doctor/finding.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline doctor {

// `shim`: its path, or why it was not found. `scratch`: an empty folder.
std::vector<Finding> CheckMachine(const absl::StatusOr<std::string>& shim, const std::string& scratch,
                                  DrainLeftover drain_leftover);

// Set in the environment of the child that acts as the program: it calls AnswerProbe and exits with its result.
inline constexpr char kProbeVariable[] = "DLHOOK_DOCTOR_PROBE";
// Uses the preloaded shim as a library would. 0: it works.
int AnswerProbe();

// Starts a child process with the shim preloaded that makes one record, and waits for it; afterwards its trace is in `folder`. An error says what happened instead.
absl::Status RunProbe(const std::string& shim, const std::string& folder);

}  // namespace dlhook::analyzer::doctor
