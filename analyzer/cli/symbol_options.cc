// Options from environment variables.
#include "analyzer/cli/symbol_options.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline cli {
namespace {

// Empty if unset or empty.
absl::string_view ValueOf(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string CacheFolder() {
  const absl::string_view own = ValueOf("DLHOOK_CACHE");
  if (own == "off") return "";
  if (!own.empty()) return std::string(own);
  const absl::string_view caches = ValueOf("XDG_CACHE_HOME");
  if (!caches.empty() && caches.front() == '/') return absl::StrCat(caches, "/dlhook");
  const absl::string_view home = ValueOf("HOME");
  return home.empty() ? "" : absl::StrCat(home, "/.cache/dlhook");
}

SymbolOptions SymbolOptionsFor(const std::string& run) {
  std::error_code error;
  const std::filesystem::path path(run);
  const std::filesystem::path folder = std::filesystem::is_directory(path, error) ? path : path.parent_path();
  return {.run_folder = folder.empty() ? "." : folder.string(), .cache_folder = CacheFolder()};
}

}  // namespace dlhook::analyzer::cli
