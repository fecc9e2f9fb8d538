// See page_file.h.
#include "analyzer/page/page_file.h"

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

// page_html.S
extern "C" const char dlhook_page_html[], dlhook_page_html_end[];

namespace dlhook::analyzer::inline page {

std::string PageJson(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string PageFile(absl::string_view packed) {
  constexpr absl::string_view kPlace = "@DLHOOK_DATA@";  // in web/index.html
  const absl::string_view html(dlhook_page_html, static_cast<size_t>(dlhook_page_html_end - dlhook_page_html));
  const size_t place = html.rfind(kPlace);
  return absl::StrCat(html.substr(0, place), absl::Base64Escape(packed), html.substr(place + kPlace.size()));
}

}  // namespace dlhook::analyzer::page
