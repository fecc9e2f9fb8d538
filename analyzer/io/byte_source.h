// The bytes of a trace, in a file or in memory, and the process traces of a run.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline io {

constexpr absl::string_view kTraceSuffix = ".dlh";
// Of traces of other tools, as JSON.
bool HasJsonName(absl::string_view path);
// Left by launchers in a run folder: a line with the launch's key and, if the program failed or nothing was recorded, one with
// the program and one that says how it failed.
constexpr char kRunFileName[] = "dlhook.run";

// A regular file that is read in pieces. Never mapped: a reader of a mapping is killed if the file is truncated.
class ByteSource {
 public:
  // Anything but a regular file is refused: a FIFO or a device may never end.
  static absl::StatusOr<ByteSource> Open(const std::string& path);

  ByteSource(ByteSource&& other) noexcept { *this = std::move(other); }
  ByteSource& operator=(ByteSource&& other) noexcept;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ~ByteSource();

  // At the time of opening: what is appended later is not read.
  uint64_t size() const { return size_; }
  uid_t owner() const { return owner_; }

  // Fills `to` with the bytes from `offset` on. Fails if the file has become shorter.
  absl::Status Read(uint64_t offset, absl::Span<char> to) const;

 private:
  ByteSource() = default;
  absl::Status Shortened() const;

  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  uid_t owner_ = 0;
};

// The values at `offset`; none: they are not all in the file.
template <typename T>
std::vector<T> ReadValues(const ByteSource& file, uint64_t offset, uint64_t count) {
  if (offset > file.size() || count > (file.size() - offset) / sizeof(T)) return {};
  std::vector<T> values(count);
  const bool is_read = file.Read(offset, {reinterpret_cast<char*>(values.data()), count * sizeof(T)}).ok();
  return is_read ? values : std::vector<T>();
}

// Bytes in memory, or in a file of which a part at a time is in memory. Its source must outlive it.
class ByteChunk {
 public:
  ByteChunk(absl::string_view bytes) : memory_(bytes), size_(bytes.size()) {}
  ByteChunk(const std::string& bytes) : ByteChunk(absl::string_view(bytes)) {}
  ByteChunk(const char* bytes) : ByteChunk(absl::string_view(bytes)) {}
  // The first `size` bytes of `file`.
  ByteChunk(const ByteSource* file, uint64_t size) : file_(file), size_(size) {}

  uint64_t size() const { return size_; }

  // The bytes from `offset` on: at least `wanted`, or all if there are fewer. Valid until the next call.
  absl::StatusOr<absl::string_view> At(uint64_t offset, size_t wanted);

 private:
  absl::string_view memory_;
  const ByteSource* file_ = nullptr;
  uint64_t size_ = 0;
  std::vector<char> window_;  // of the file
  uint64_t window_offset_ = 0;
  size_t window_bytes_ = 0;
};

// The process traces of one launch.
struct RunFiles {
  std::string name;                // base name of the folder or file, or of all folders
  std::vector<std::string> paths;  // in name order
  std::string common_folder = "";  // what all paths begin with, up to a slash
  std::string failure = "";        // "ended with code 1"; empty: it did not fail, or that is not known

  // Within the common folder: the base name unless the traces lie in several folders.
  std::string NameOf(absl::string_view path) const;
};

// A path is a folder with *.dlh files, a folder of such folders, or one such file (of any name). Whether several folders
// are one run is not asked here: see reader/one_job.h.
absl::StatusOr<RunFiles> FindRun(const std::string& path);
absl::StatusOr<RunFiles> FindRun(const std::vector<std::string>& paths);

// The part after the last slash.
std::string BaseName(absl::string_view path);
// The part before it; ".": there is none.
std::string FolderOf(const std::string& path);

// What the process of a trace left in its rings (it was killed, or still runs).
struct Leftover {
  bool cut_file = false;  // only the first file_bytes bytes of the file count
  uint64_t file_bytes = 0;
  std::string packets = {};  // to be read after these
  std::string note = {};     // a sentence for the user: what can't be recovered here
};
// Recovers it from the rings of the trace at `path`; called before the file is read, because it may append to it.
using DrainLeftover = std::function<absl::StatusOr<Leftover>(const std::string& path)>;

// All bytes of one process trace: those in its file and those that its process left in memory.
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
