// Options from environment variables.
#include "analyzer/cli/cache_folder.h"

#include <cstdlib>

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

}  // namespace dlhook::analyzer::cli
