// Finds strings that a statically linked library leaves in the file that contains it.
#include <string.h>

#include <array>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analyzer/doctor/program_report.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline doctor {
namespace {

constexpr uint64_t kSmallestCarrier = 1 << 20;  // a file with a math library is never smaller

constexpr std::array<std::pair<absl::string_view, absl::string_view>, 3> kTexts = {{
    {"simple:any", "oneDNN"},     // in all releases, and not in programs that only read its log
    {"OpenBLAS 0.", "OpenBLAS"},  // openblas_get_config()
    {"MKL_VERBOSE", "MKL"},
}};
constexpr size_t kLongestText = 16;
constexpr size_t kStepBytes = 1 << 20;  // of the file at a time

// The first of the texts [0, end) that occurs in `bytes`; `end`: none.
size_t FirstTextIn(absl::string_view bytes, size_t end) {
  for (size_t i = 0; i < end; ++i) {
    const absl::string_view text = kTexts[i].first;
    if (memmem(bytes.data(), bytes.size(), text.data(), text.size()) != nullptr) return i;
  }
  return end;
}

}  // namespace

std::string LibraryInside(const std::string& path) {
  const absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  if (!file.ok() || file->size() < kSmallestCarrier) return "";
  ByteChunk bytes(&*file, file->size());
  size_t found = kTexts.size();
  for (uint64_t offset = 0; offset < file->size(); offset += kStepBytes) {
    const absl::StatusOr<absl::string_view> part = bytes.At(offset, kStepBytes + kLongestText);
    if (!part.ok()) return "";
    found = FirstTextIn(*part, found);
  }
  return found == kTexts.size() ? "" : std::string(kTexts[found].second);
}

}  // namespace dlhook::analyzer::doctor
