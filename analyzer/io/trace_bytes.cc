// File plus leftover. The rings are drained first, because that may append to the file.
#include "analyzer/io/trace_bytes.h"

#include <algorithm>
#include <utility>

namespace dlhook::analyzer::inline io {

absl::StatusOr<TraceBytes> TraceBytes::Open(const std::string& path, const DrainLeftover& drain_leftover) {
  absl::StatusOr<Leftover> leftover = Leftover{};
  if (drain_leftover) leftover = drain_leftover(path);
  absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  if (!file.ok()) return file.status();
  TraceBytes trace(*std::move(file));
  trace.leftover_status_ = leftover.status();
  if (leftover.ok()) trace.leftover_ = *std::move(leftover);
  return trace;
}

std::vector<ByteChunk> TraceBytes::chunks() const {
  const uint64_t bytes = leftover_.cut_file ? std::min(leftover_.file_bytes, file_.size()) : file_.size();
  std::vector<ByteChunk> chunks = {ByteChunk(&file_, bytes)};
  if (!leftover_.packets.empty()) chunks.emplace_back(leftover_.packets);
  return chunks;
}

}  // namespace dlhook::analyzer::io
