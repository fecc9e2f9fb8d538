// Loads a run from disk into a TraceModel, whatever state its traces are in.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/io/trace_bytes.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline reader {

struct LoadOptions {
  DrainLeftover drain_leftover = nullptr;  // may be unset
  // Called from time to time with the bytes read, and the total. May be unset.
  std::function<void(uint64_t done, uint64_t all)> progress = nullptr;
  std::set<std::string> only = {};  // base names of traces to read; empty: all
  // Of a run larger than twice this, parts of about this many bytes in total are read (read_parts.h), in `parts` spans
  // of each long trace.
  uint64_t most_bytes = UINT64_MAX;
  size_t parts = 1;
};

struct LoadedRun {
  TraceModel model;
  std::vector<absl::Status> damage;  // at most one per process trace; the model contains what was intact
};

// Fails only if there is nothing to read at all.
absl::StatusOr<LoadedRun> LoadRun(const std::string& path, const LoadOptions& options = {});
// Of several folders as well, if they are one job's: see one_job.h.
absl::StatusOr<LoadedRun> LoadRun(const std::vector<std::string>& paths, const LoadOptions& options = {});

}  // namespace dlhook::analyzer::reader
