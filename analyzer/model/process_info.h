// A recorded process: its identity, how it was recorded, and what is missing.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/model/trace_enums.h"
#include "proto/values.h"

namespace dlhook::analyzer::inline model {

using Mapping = values::Mapping;        // a mapped ELF file that calls came from or went to
using Capability = values::Capability;  // something that could, or could not, be seen
using Loss = values::Loss;              // records missing from the trace; `calls` of what: below
// As preload/format/processor_id.h has it. Not known (an older trace): without vendor.
using ProcessorInfo = values::Processor;

using NamesAndValues = std::vector<std::pair<std::string, std::string>>;

struct ProcessInfo {
  std::string file;  // name of the process trace; with that of its folder where the run has several
  std::string path;  // of the process trace, where it was read
  uint32_t pid = 0;
  uint32_t parent_pid = 0;
  std::string host;
  std::string boot_id;
  std::string program;            // base name of argv[0]
  std::string script;             // base name of the interpreter's first argument that names a file; may be empty
  NamesAndValues rank_variables;  // RANK, SLURM_PROCID, MASTER_ADDR …
  std::string job;                // as its launcher names it, the same on all machines; empty: it does not
  NamesAndValues settings;        // environment variables that control how libraries compute and what dlhook records
  uint32_t processors = 0;        // available to it at start; 0: not known
  ProcessorInfo processor;
  std::string tool_version;
  std::string capture_families;  // as granted, comma separated
  std::string requested_output;  // if it could not be used
  std::string output_refusal;    // why
  ClockKind clock = ClockKind::kUnknown;
  uint64_t ticks_per_second = 0;
  std::string clock_fallback_reason;  // why the time-stamp counter is not used
  // Observed interval: from loading the shim to the footer (or the last record if there is none).
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::optional<int64_t> realtime_offset_ns;  // from times of the run to CLOCK_REALTIME; not known: no clock sample
  uint64_t calls = 0;  // that the trace holds or tells totals of, also where only parts of it were read
  bool has_footer = false;
  ProcessEnd end = ProcessEnd::kUnknown;
  std::vector<Mapping> mappings;
  std::vector<Capability> capabilities;  // the last one of each (name, object)
  std::vector<Loss> losses;              // summed by (reason, thread, detail)
};

// "train.py".
inline const std::string& ProgramOf(const ProcessInfo& process) {
  return process.script.empty() ? process.program : process.script;
}

// From its launcher; empty: not known.
std::string RankOf(const ProcessInfo& process);  // RANK, SLURM_PROCID …
std::string RankCountOf(const ProcessInfo& process);
// The first of its rank variables that is one of these; empty: none.
std::string RankVariable(const ProcessInfo& process, std::initializer_list<absl::string_view> names);

// Whether all oneDNN calls come from JAX's own library. If the process has a second oneDNN (PyTorch's, TensorFlow's),
// the calls can't be distinguished.
bool OneDnnIsXlas(const ProcessInfo& process);

// What the losses of a trace count.

// For these, Loss.calls counts scopes.
inline bool CountsScopes(LossReason reason) {
  return reason == LossReason::kScopesTooDeep || reason == LossReason::kTraceLimit;
}

// For these, counter readings.
inline bool CountsReadings(LossReason reason) { return reason == LossReason::kReadingsDropped; }

// For these, GPU activities, or links to their calls.
inline bool CountsGpuRecords(LossReason reason) {
  return reason == LossReason::kGpuBuffersFull || reason == LossReason::kGpuRecordsDropped;
}

// For these, intervals of CPU time without a sample.
inline bool CountsSamples(LossReason reason) { return reason == LossReason::kSamplesDropped; }

// For these, profiles and programs of a compiler's library.
inline bool CountsProfiles(LossReason reason) { return reason == LossReason::kProfilesDropped; }

// For these, calls that are in totals, but not by shape.
inline bool CountsShapes(LossReason reason) { return reason == LossReason::kShapesDropped; }

inline bool CountsCalls(LossReason reason) {
  return !CountsShapes(reason) && !CountsScopes(reason) && !CountsReadings(reason) && !CountsGpuRecords(reason) &&
         !CountsSamples(reason) && !CountsProfiles(reason);
}

// The noun for Loss.calls.
inline const char* LossNoun(LossReason reason, bool is_one) {
  if (CountsScopes(reason)) return is_one ? "scope" : "scopes";
  if (CountsShapes(reason)) return is_one ? "shape of a call" : "shapes of calls";
  if (CountsReadings(reason)) return is_one ? "reading of counters" : "readings of counters";
  if (CountsSamples(reason)) return is_one ? "sample" : "samples";
  if (CountsProfiles(reason)) return is_one ? "profile or program of XLA" : "profiles and programs of XLA";
  if (reason == LossReason::kGpuBuffersFull) return is_one ? "activity of a GPU" : "activities of GPUs";
  if (CountsGpuRecords(reason)) return is_one ? "record of GPU work" : "records of GPU work";
  return is_one ? "call" : "calls";
}

}  // namespace dlhook::analyzer::model
