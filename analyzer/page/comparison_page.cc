// See comparison_page.h.
#include "analyzer/page/comparison_page.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "analyzer/export/gzip.h"
#include "analyzer/page/fit_rows.h"
#include "analyzer/page/page_file.h"

namespace dlhook::analyzer::inline page {

std::string ComparisonPage(const std::string& kind, const std::string& title, const Report& report) {
  const nlohmann::ordered_json more = {{"kind", kind}, {"title", title}, {"version", DLHOOK_VERSION}};
  std::string packed;
  for (const size_t rows : {20'000, 5'000, 1'000, 200}) {
    Report fitting = report;
    for (Table& table : fitting.tables) FitRows(rows, &table);
    packed = Gzip(absl::StrCat("{\"report\": ", RenderJson(fitting), ", \"page\": ", PageJson(more), "}"));
    if (packed.size() <= kMostPacked) break;
  }
  return PageFile(packed);
}

}  // namespace dlhook::analyzer::page
