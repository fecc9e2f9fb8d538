// Bytes of a trace, wherever they lie, and the process traces that make up a run.
#ifndef DLHOOK_ANALYZER_IO_BYTE_SOURCE_H_
#define DLHOOK_ANALYZER_IO_BYTE_SOURCE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer {

constexpr absl::string_view kTraceSuffix = ".dlh";

// The contents of one file: mapped where it is a regular file (traces only grow, so the mapping
// stays valid), read to its end where it is a pipe or a device.
class ByteSource {
 public:
  static absl::StatusOr<ByteSource> Open(const std::string& path);

  ByteSource(ByteSource&& other) noexcept { *this = std::move(other); }
  ByteSource& operator=(ByteSource&& other) noexcept;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ~ByteSource();

  absl::string_view bytes() const;

 private:
  ByteSource() = default;

  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::string owned_;
};

// The process traces of one launch.
struct RunFiles {
  std::string name;                // base name of the folder or file
  std::vector<std::string> paths;  // in name order
};

// `path` is a folder with *.dlh files or one such file (of any name).
absl::StatusOr<RunFiles> FindRun(const std::string& path);

// The part after the last slash.
std::string BaseName(absl::string_view path);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_IO_BYTE_SOURCE_H_
