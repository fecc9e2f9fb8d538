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
using Loss = values::Loss;              // records missing from the trace; `calls` of what: LossNoun
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

// What Loss.calls counts: calls, or what the noun says. Shapes are those of calls that are in totals.
bool CountsCalls(LossReason reason);
const char* LossNoun(LossReason reason, bool is_one);
inline bool CountsShapes(LossReason reason) { return reason == LossReason::kShapesDropped; }
inline bool CountsGpuRecords(LossReason reason) {
  return reason == LossReason::kGpuBuffersFull || reason == LossReason::kGpuRecordsDropped;
}

}  // namespace dlhook::analyzer::model
