// The events of a process, whoever recorded them, as a trace of dlhook's.
#pragma once

#include <memory>
#include <optional>

#include "analyzer/import/kineto/kineto_import.h"
#include "analyzer/import/kineto/trace_json.h"

namespace dlhook::analyzer::inline kineto {

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

}  // namespace dlhook::analyzer::kineto
