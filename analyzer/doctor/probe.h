// A child process with the shim preloaded that makes one record.
#ifndef DLHOOK_ANALYZER_DOCTOR_PROBE_H_
#define DLHOOK_ANALYZER_DOCTOR_PROBE_H_

#include <string>

#include "absl/status/status.h"

namespace dlhook::analyzer::inline doctor {

// Starts it and waits for it; afterwards its trace is in `folder`. An error says what happened instead.
absl::Status RunProbe(const std::string& shim, const std::string& folder);

}  // namespace dlhook::analyzer::doctor

#endif  // DLHOOK_ANALYZER_DOCTOR_PROBE_H_
