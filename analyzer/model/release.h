// What is known of the software in a process.
#pragma once

#include "analyzer/model/process_info.h"

namespace dlhook::analyzer::inline model {

// "2.13.0" for "PyTorch" or "Python"; empty if the trace does not state it.
std::string ReleaseOf(const ProcessInfo& process, absl::string_view software);

// Whether its calls of BLAS, oneDNN … are in its trace: not in an imported one, whose calls are made of operators.
bool SeesLibraries(const ProcessInfo& process);

}  // namespace dlhook::analyzer::model
