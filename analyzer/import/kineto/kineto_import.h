// A trace of torch.profiler (Kineto) as a trace of dlhook's: what docs/kineto.md says.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace dlhook::analyzer::inline kineto {

// Of a process, whoever recorded it.
struct ImportedTrace {
  std::string packets;  // the bytes of a process trace
  std::string program;  // as DefaultTraceName would have it: for a file's name
  uint32_t pid = 0;
  std::string identity;              // of the process: its number, machine and rank, as far as they are told
  int64_t start_ns = 0, end_ns = 0;  // CLOCK_REALTIME
  absl::Status damage = {};          // why a part is missing
};

// Whether the file is to be read by ImportKineto, and is no process trace.
bool IsKinetoTrace(const std::string& path);

// `progress` gets the bytes of the file that were read; may be unset.
absl::StatusOr<ImportedTrace> ImportKineto(const std::string& path,
                                           const std::function<void(uint64_t done)>& progress = nullptr);

}  // namespace dlhook::analyzer::kineto
