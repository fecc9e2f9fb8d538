// A self-contained page: what web/ was built to, with data in it.
#ifndef DLHOOK_ANALYZER_PAGE_PAGE_FILE_H_
#define DLHOOK_ANALYZER_PAGE_PAGE_FILE_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline page {

// Of `packed`: a page of at most 5 MB.
inline constexpr size_t kMostPacked = 3'500'000;

// As text; invalid UTF-8 gets replacement characters.
std::string PageJson(const nlohmann::ordered_json& json);

// `packed`: JSON as gzip. It becomes base64, so nothing of it can be taken for HTML.
std::string PageFile(absl::string_view packed);

}  // namespace dlhook::analyzer::page

#endif  // DLHOOK_ANALYZER_PAGE_PAGE_FILE_H_
