// A trace of torch.profiler (Kineto) as a trace of dlhook's: what docs/kineto.md says.
#pragma once

#include "analyzer/import/kineto/trace_json.h"

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

// The events of a process, whoever recorded them, as a trace of dlhook's.
class EventKeeper;

class ProcessEvents {
 public:
  ProcessEvents();
  ~ProcessEvents();

  void Take(const Event& event);
  // After the last event. Nothing: there are none. `pid`: 0 if only the events tell it.
  std::optional<ImportedTrace> MakeTrace(const TraceFacts& facts, uint32_t pid = 0);

 private:
  std::unique_ptr<EventKeeper> keeper_;
};

// Whether the file is to be read by ImportKineto, and is no process trace.
bool IsKinetoTrace(const std::string& path);

// `progress` gets the bytes of the file that were read; may be unset.
absl::StatusOr<ImportedTrace> ImportKineto(const std::string& path,
                                           const std::function<void(uint64_t done)>& progress = nullptr);

}  // namespace dlhook::analyzer::kineto
