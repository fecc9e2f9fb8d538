// Loads a run from disk into a TraceModel, whatever state its traces are in.
#pragma once

#include "analyzer/io/byte_source.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline reader {

// The spans of a long trace that are read, where some thousand steps are enough. Calls and scopes that overlap none are only
// counted.
class ReadParts {
 public:
  using Span = std::pair<uint64_t, uint64_t>;  // ticks, the second exclusive

  ReadParts() = default;  // all
  explicit ReadParts(std::vector<Span> spans) : spans_(std::move(spans)) {}
  // `count` spans: the first from the beginning of the trace to `first_end`. The time from there to `last_ticks` is
  // divided into `count` - 1 equal stretches, of which `fraction` is read, at the end of each.
  ReadParts(uint64_t first_end, uint64_t last_ticks, double fraction, size_t count);

  bool all() const { return spans_.empty(); }
  const std::vector<Span>& spans() const { return spans_; }
  // Whether [start_ticks, end_ticks] overlaps a span.
  bool Has(uint64_t start_ticks, uint64_t end_ticks) const;

 private:
  std::vector<Span> spans_;  // ascending, disjoint
};

// Parts that make up `fraction` of a trace, an eighth of them at its beginning, so that the first steps are among them. The
// whole trace where parts would not do (GPU work, light scopes), or where its length in time is not known.
ReadParts ChooseParts(std::vector<ByteChunk> chunks, double fraction, size_t count);

// What is read from a serialized CallBatch or ScopeBatch without parsing all of it.
struct BatchOutline {
  uint32_t thread_id = 0;
  int64_t count = 0;         // of its elements
  uint64_t start_ticks = 0;  // none began earlier
  uint64_t end_ticks = 0;    // none ended later
};
// nullopt: damaged. `ticks_per_ns`, rounded up: durations of taps are in nanoseconds.
std::optional<BatchOutline> OutlineOfCalls(absl::string_view batch, uint64_t ticks_per_ns);
std::optional<BatchOutline> OutlineOfScopes(absl::string_view batch);

struct LoadOptions {
  DrainLeftover drain_leftover = nullptr;  // may be unset
  // Called from time to time with the bytes read, and the total. May be unset.
  std::function<void(uint64_t done, uint64_t all)> progress = nullptr;
  std::set<std::string> only = {};  // base names of traces to read; empty: all
  // Of a run larger than twice this, parts of about this many bytes in total are read, in `parts` spans
  // of each long trace.
  uint64_t most_bytes = UINT64_MAX;
  size_t parts = 1;
};

struct LoadedRun {
  TraceModel model;
  std::vector<absl::Status> damage;  // at most one per process trace; the model contains what was intact
  std::string failure;               // of the program: see RunFiles
};

// Fails only if there is nothing to read at all.
absl::StatusOr<LoadedRun> LoadRun(const std::string& path, const LoadOptions& options = {});
// Of several folders as well, if they are one job's: see one_job.h.
absl::StatusOr<LoadedRun> LoadRun(const std::vector<std::string>& paths, const LoadOptions& options = {});

}  // namespace dlhook::analyzer::reader
