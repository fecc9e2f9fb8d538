// What dlhook finds on this machine: whether its shim loads and records, and what it can rest on. Everything is tried,
// in processes of its own, and leaves nothing behind.
#ifndef DLHOOK_ANALYZER_DOCTOR_MACHINE_H_
#define DLHOOK_ANALYZER_DOCTOR_MACHINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/doctor/finding.h"
#include "analyzer/io/trace_bytes.h"

namespace dlhook::analyzer::inline doctor {

// `shim`: its path, or why it was not found. `scratch`: an empty folder to write into.
std::vector<Finding> CheckMachine(const absl::StatusOr<std::string>& shim, const std::string& scratch,
                                  DrainLeftover drain_leftover);

// Set in the environment of the child that stands for a program: it calls AnswerProbe and ends with what that returns.
inline constexpr char kProbeVariable[] = "DLHOOK_DOCTOR_PROBE";
// Uses the shim that was preloaded into this process as a library would. 0: it answered.
int AnswerProbe();

}  // namespace dlhook::analyzer::doctor

#endif  // DLHOOK_ANALYZER_DOCTOR_MACHINE_H_
