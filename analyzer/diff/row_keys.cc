// Identifies rows: see row_keys.h.
#include "analyzer/diff/row_keys.h"

#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dlhook::analyzer::inline diff {
namespace {

bool IsPart(Role role, KeyParts parts) {
  switch (role) {
    case Role::kKey:
    case Role::kName:
      return parts != KeyParts::kShape;
    case Role::kShape:
      return parts != KeyParts::kWithoutShape;
    case Role::kChoice:
      return parts == KeyParts::kAll;
    default:
      return false;
  }
}

}  // namespace

std::string CellText(const Cell& cell) {
  if (const auto* text = std::get_if<CellString>(&cell)) return *text;
  if (const auto* integer = std::get_if<int64_t>(&cell)) return absl::StrCat(*integer);
  if (const auto* real = std::get_if<double>(&cell)) return absl::StrCat(*real);
  return "";
}

namespace {

// "others (115)" matches "others" with any number.
std::string WithoutNumber(const std::string& text) { return absl::StartsWith(text, "others (") ? "others" : text; }

}  // namespace

std::string RowKey(const Table& table, size_t row, KeyParts parts, const NameMap* names) {
  std::string key;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    if (!IsPart(table.columns[column].role, parts)) continue;
    std::string text = WithoutNumber(CellText(table.rows[row][column]));
    if (names != nullptr && table.columns[column].role == Role::kName) {
      const auto translated = names->find(text);
      if (translated != names->end()) text = translated->second;
    }
    absl::StrAppend(&key, text, "\x1f");
  }
  return key;
}

}  // namespace dlhook::analyzer::diff
