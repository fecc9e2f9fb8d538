// Packets of the process traces of a run -> TraceModel.
#pragma once

#include "analyzer/io/byte_source.h"
#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/gpu_links.h"
#include "analyzer/reader/load_run.h"
#include "analyzer/reader/staging.h"

namespace dlhook::analyzer::inline reader {

// Called from time to time with the bytes of the current trace read so far.
using ReadProgress = std::function<void(uint64_t)>;

// The run's time axis is that of its first trace: CLOCK_MONOTONIC of its boot. Traces of the same boot share it; those
// of other machines are shifted by CLOCK_REALTIME; one without a common clock starts where the run starts (an oddity).
class TraceBuilder {
 public:
  explicit TraceBuilder(std::string run_name) : TraceBuilder(RunFiles{std::move(run_name), {}}) {}
  explicit TraceBuilder(RunFiles files) : files_(std::move(files)) { model_.name = files_.name; }
  TraceBuilder(const TraceBuilder&) = delete;
  TraceBuilder& operator=(const TraceBuilder&) = delete;

  // Adds one process trace, or `parts` of it. `path`: its name in messages; `chunks`: see PacketReader. Not OK: why it was
  // refused, or the damage; the intact packets before that are part of the model.
  absl::Status AddTrace(const std::string& path, std::vector<ByteChunk> chunks, const ReadProgress& progress = nullptr,
                        ReadParts parts = {});

  // A trace's name in the run.
  std::string NameOf(absl::string_view path) const { return files_.NameOf(path); }

  // An oddity of the run as a whole.
  void Note(absl::string_view sentence) { oddities_.Count(sentence); }

  TraceModel Build() &&;

 private:
  friend class ProcessBuilder;

  OpIndex InternOp(trace::OpDefinition definition);
  void PlaceOnAxis(ProcessInfo* process, ClockMap* clock, int64_t start_ns);

  RunFiles files_;
  TraceModel model_;
  NameTable names_{&model_};
  GpuKernelTable gpu_kernels_{&model_, &names_};
  Oddities oddities_;
  TimeBudget call_time_;
  TimeBudget scope_time_;
  TimeBudget sample_time_;
  TimeBudget gpu_time_;
  TimeBudget counter_budget_;  // for counts, nanoseconds or not
  absl::flat_hash_map<std::string, OpIndex> op_by_definition_;
  bool has_axis_ = false;
  std::string axis_boot_id_;
  std::optional<int64_t> axis_realtime_offset_ns_;
};

}  // namespace dlhook::analyzer::reader
