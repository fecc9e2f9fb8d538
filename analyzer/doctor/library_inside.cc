// Texts that a statically linked library leaves in the file of its carrier.
#include <string.h>

#include <array>
#include <filesystem>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analyzer/doctor/program_report.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer {
namespace {

constexpr uintmax_t kSmallestCarrier = 1 << 20;  // a math library is never smaller

constexpr std::array<std::pair<absl::string_view, absl::string_view>, 5> kTexts = {{
    {"onednn_verbose", "oneDNN"},   // 2.5 and later
    {"dnnl_verbose,", "oneDNN"},    // 1.1 to 2.4
    {"mkldnn_verbose,", "oneDNN"},  // before
    {"OpenBLAS 0.", "OpenBLAS"},    // openblas_get_config()
    {"MKL_VERBOSE", "MKL"},
}};

}  // namespace

std::string LibraryInside(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes < kSmallestCarrier) return "";
  const absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  if (!file.ok()) return "";
  const absl::string_view text = file->bytes();
  for (const auto& [needle, library] : kTexts) {
    if (memmem(text.data(), text.size(), needle.data(), needle.size()) != nullptr) return std::string(library);
  }
  return "";
}

}  // namespace dlhook::analyzer
