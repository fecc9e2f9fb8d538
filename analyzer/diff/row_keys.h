// The identity of a table row as a string: rows of two runs with equal keys describe the same thing.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline diff {

// Selects columns by role (table.h).
enum class KeyParts {
  kAll,             // what it is and how it is done
  kWithoutChoices,  // what it is, however it is done
  kWithoutShape,    // … and whatever its sizes
  kShape            // only its sizes
};

// Layer names in BASE -> names in NEW.
using NameMap = std::map<std::string, std::string, std::less<>>;

// `names` translates columns of Role::kName; null: unchanged.
std::string RowKey(const Table& table, size_t row, KeyParts parts, const NameMap* names = nullptr);

std::string CellText(const Cell& cell);  // "" if unknown

}  // namespace dlhook::analyzer::diff
