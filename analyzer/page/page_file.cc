#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "analyzer/export/gzip.h"
#include "analyzer/page/report_page.h"
#include "analyzer/table/table_ops.h"

// page_html.S
extern "C" const char dlhook_page_html[], dlhook_page_html_end[];

namespace dlhook::analyzer::inline page {
namespace {

using Json = nlohmann::ordered_json;

// From the most to the least.
constexpr Room kRooms[] = {{20'000, 12'000, 12'000}, {5'000, 6'000, 6'000}, {1'000, 3'000, 3'000}, {200, 1'000, 1'000}};
constexpr size_t kMostPacked = 3'500'000;  // of the data: a page of at most 5 MB

// The column by which rows are chosen: its weight, or a row's duration.
std::optional<size_t> ChoosingColumn(const Table& table) {
  const size_t weight = ColumnOf(table, Role::kWeight);
  if (weight != kNoColumn) return weight;
  for (const char* const name : {"duration", "change", "total_time", "time"}) {
    if (const std::optional<size_t> column = FindColumn(table, name)) return column;
  }
  return std::nullopt;
}

}  // namespace

void FitRows(size_t most, Table* table) {
  const size_t all = table->rows.size();
  if (all <= most) return;
  const bool is_over_time = FindColumn(*table, "duration").has_value();
  const std::optional<size_t> column = ChoosingColumn(*table);
  std::vector<std::pair<double, size_t>> order;  // the first `most` are kept
  const size_t stride = 2 * all / most + 1;
  for (size_t row = 0; row < all; ++row) {
    double weight = column ? std::fabs(NumberOf(table->rows[row][*column])) : 0;
    if (is_over_time && row % stride == 0) weight = 1e300;
    order.emplace_back(-weight, row);
  }
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most), order.end());
  std::vector<bool> is_kept(all);
  for (size_t i = 0; i < most; ++i) is_kept[order[i].second] = true;
  std::vector<Row> rows;
  for (size_t row = 0; row < all; ++row) {
    if (is_kept[row]) rows.push_back(std::move(table->rows[row]));
  }
  table->rows = std::move(rows);
  const std::string which = is_over_time ? absl::StrCat("every ", stride, "th row and the longest")
                            : column     ? absl::StrCat("those with most ", table->columns[*column].name)
                                         : "the first";
  table->notes.push_back(absl::StrCat("This page has ", most, " of ", all, " rows, ", which,
                                      ": dlhook report RUN --table ", table->name, " --format csv has all."));
}

std::string PageFile(const Report& report, const std::function<Json(const Room&)>& more) {
  std::string packed;
  for (const Room& room : kRooms) {
    Report fitting = report;
    for (Table& table : fitting.tables) FitRows(room.rows, &table);
    // Invalid UTF-8 gets replacement characters.
    const std::string of_page = more(room).dump(-1, ' ', false, Json::error_handler_t::replace);
    packed = Gzip(absl::StrCat("{\"report\": ", RenderJson(fitting), ", \"page\": ", of_page, "}"));
    if (packed.size() <= kMostPacked) break;
  }
  constexpr absl::string_view kPlace = "@DLHOOK_DATA@";  // in web/index.html
  const absl::string_view html(dlhook_page_html, static_cast<size_t>(dlhook_page_html_end - dlhook_page_html));
  const size_t place = html.rfind(kPlace);
  // As base64 nothing of it can be taken for HTML.
  return absl::StrCat(html.substr(0, place), absl::Base64Escape(packed), html.substr(place + kPlace.size()));
}

std::string ComparisonPage(const std::string& kind, const std::string& title, const Report& report) {
  return PageFile(report, [&](const Room&) {
    return Json{{"kind", kind}, {"title", title}, {"version", DLHOOK_VERSION}};
  });
}

}  // namespace dlhook::analyzer::page
