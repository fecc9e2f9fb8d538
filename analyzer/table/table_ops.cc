// Sorting, cutting and checking of tables.
#include "analyzer/table/table_ops.h"

#include <algorithm>
#include <set>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer {
namespace {

bool IsUnknown(const Cell& cell) { return std::holds_alternative<std::monostate>(cell); }

bool ComesBefore(const Cell& a, const Cell& b) {
  if (IsUnknown(a) || IsUnknown(b)) return !IsUnknown(a) && IsUnknown(b);
  if (std::holds_alternative<std::string>(a)) return a < b;
  return a > b;
}

// Index of the alternative that a cell of this type holds.
size_t Alternative(ColumnType type) {
  switch (type) {
    case ColumnType::kText:
      return Cell(std::string()).index();
    case ColumnType::kInteger:
      return Cell(int64_t{0}).index();
    case ColumnType::kReal:
      return Cell(0.0).index();
  }
  return 0;
}

}  // namespace

std::optional<size_t> FindColumn(const Table& table, absl::string_view name) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].name == name) return i;
  }
  return std::nullopt;
}

size_t ColumnOf(const Table& table, Role role) {
  for (size_t column = 0; column < table.columns.size(); ++column) {
    if (table.columns[column].role == role) return column;
  }
  return kNoColumn;
}

void SortBy(size_t column, Table* table) {
  std::stable_sort(table->rows.begin(), table->rows.end(), [column](const Row& a, const Row& b) {
    return ComesBefore(a[column], b[column]);
  });
}

void LimitRows(size_t limit, Table* table) {
  if (table->rows.size() <= limit) return;
  table->notes.push_back(absl::StrCat("The first ", limit, " of ", table->rows.size(), " rows."));
  table->rows.resize(limit);
}

absl::Status CheckTable(const Table& table) {
  std::set<absl::string_view> names;
  for (const Column& column : table.columns) {
    if (!names.insert(column.name).second) {
      return absl::InternalError(absl::StrCat("table ", table.name, ": two columns ", column.name));
    }
  }
  for (const Row& row : table.rows) {
    if (row.size() != table.columns.size()) {
      return absl::InternalError(absl::StrCat("table ", table.name, ": a row of ", row.size(),
                                              " cells, expected ", table.columns.size()));
    }
    for (size_t i = 0; i < row.size(); ++i) {
      if (!IsUnknown(row[i]) && row[i].index() != Alternative(table.columns[i].type)) {
        return absl::InternalError(absl::StrCat(
            "table ", table.name, ": a cell of another type in column ", table.columns[i].name));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace dlhook::analyzer
