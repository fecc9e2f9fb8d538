// The SQLite export of NVIDIA Nsight Systems as traces of dlhook's, one of each process: what docs/kineto.md says.
#pragma once

#include "analyzer/import/kineto/kineto_import.h"

namespace dlhook::analyzer::inline nsight {

// Also a report that is to be exported first.
bool IsNsightExport(const std::string& path);

absl::StatusOr<std::vector<ImportedTrace>> ImportNsight(const std::string& path);

}  // namespace dlhook::analyzer::nsight
