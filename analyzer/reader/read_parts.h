// Which parts of a long trace are read, where some thousand steps are enough: spans of time, spread evenly over the run. Calls
// and scopes that overlap a span are read; the others are only counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline reader {

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

// Chooses parts that make up `fraction` of a trace; reads the trace once without parsing it. An eighth of the chosen
// bytes are the beginning of the trace, so that the first steps are among them. Chooses the whole trace where parts are
// not sufficient (GPU work, light scopes), or where its length in time is not known.
ReadParts ChooseParts(std::vector<ByteChunk> chunks, double fraction, size_t count);

// What is read from a serialized CallBatch or ScopeBatch without parsing it.
struct BatchOutline {
  uint32_t thread_id = 0;
  int64_t count = 0;         // of its elements
  uint64_t start_ticks = 0;  // none began earlier
  uint64_t end_ticks = 0;    // none ended later
};
// nullopt: not encoded as the drain encodes it, so it has to be parsed. `ticks_per_ns`, rounded up: durations of taps are
// in nanoseconds.
std::optional<BatchOutline> OutlineOfCalls(absl::string_view batch, uint64_t ticks_per_ns);
std::optional<BatchOutline> OutlineOfScopes(absl::string_view batch);

}  // namespace dlhook::analyzer::reader
