// See fit_rows.h.
#include "analyzer/page/fit_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline page {
namespace {

double Number(const Cell& cell) {
  if (const auto* const integer = std::get_if<int64_t>(&cell)) return static_cast<double>(*integer);
  const auto* const real = std::get_if<double>(&cell);
  return real == nullptr ? 0 : *real;
}

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
    double weight = column ? std::fabs(Number(table->rows[row][*column])) : 0;
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

}  // namespace dlhook::analyzer::page
