// Traces of other tools, whichever they are, as process traces.
#pragma once

#include "analyzer/import/kineto/kineto_import.h"

namespace dlhook::analyzer::inline imports {

// Whether the file is to be read by ImportTraces, and is no process trace.
bool IsOthersTrace(const std::string& path);

// Of the processes that the file tells of. `progress` gets the bytes of the file that were read; may be unset.
absl::StatusOr<std::vector<ImportedTrace>> ImportTraces(const std::string& path,
                                                        const std::function<void(uint64_t done)>& progress = nullptr);

// Of each process the last time that was recorded: schedule(repeat=3) writes a file for each of its times.
class LastTraces {
 public:
  struct Trace {
    std::string path;
    ImportedTrace imported;
  };

  void Add(const std::string& path, std::vector<ImportedTrace> imported);
  bool is_empty() const { return traces_.empty(); }
  std::vector<Trace> Take() { return std::move(traces_); }
  // A sentence for the user; empty: nothing was left out.
  std::string Note() const;

 private:
  std::vector<Trace> traces_;
  std::vector<std::string> earlier_;  // base names
};

}  // namespace dlhook::analyzer::imports
