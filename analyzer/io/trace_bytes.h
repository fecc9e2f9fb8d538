// All bytes of one process trace: those in its file and those that its process left in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline io {

// What the process of a trace left in its rings (it was killed, or still runs).
struct Leftover {
  bool cut_file = false;  // only the first file_bytes bytes of the file count
  uint64_t file_bytes = 0;
  std::string packets = {};  // to be read after these
  std::string note = {};     // a sentence for the user: what can't be recovered here
};
// Recovers it from the rings of the trace at `path`; called before the file is read, because it may append to it.
using DrainLeftover = std::function<absl::StatusOr<Leftover>(const std::string& path)>;

class TraceBytes {
 public:
  // `drain_leftover` may be unset. If it fails, the file is opened nevertheless: see leftover_status().
  static absl::StatusOr<TraceBytes> Open(const std::string& path, const DrainLeftover& drain_leftover);

  // For PacketReader; valid as long as this object.
  std::vector<ByteChunk> chunks() const;

  const absl::Status& leftover_status() const { return leftover_status_; }
  const std::string& leftover_note() const { return leftover_.note; }
  bool empty() const { return file_.size() == 0 && leftover_.packets.empty(); }

 private:
  explicit TraceBytes(ByteSource file) : file_(std::move(file)) {}

  ByteSource file_;
  Leftover leftover_;
  absl::Status leftover_status_;
};

}  // namespace dlhook::analyzer::io
