// What a row of a table is about, as one string: rows of two runs with equal keys are about the same thing.
#ifndef DLHOOK_ANALYZER_DIFF_ROW_KEYS_H_
#define DLHOOK_ANALYZER_DIFF_ROW_KEYS_H_

#include <functional>
#include <map>
#include <string>

#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline diff {

// Columns by their roles (table.h).
enum class KeyParts {
  kAll,             // what it is and how it is done
  kWithoutChoices,  // what it is, however it is done
  kWithoutShape,    // … and whatever its size
  kShape            // its size alone
};

// Names of layers of the base run -> those of the new run.
using NameMap = std::map<std::string, std::string, std::less<>>;

// `names` translates columns of Role::kName; null: they stay as they are.
std::string RowKey(const Table& table, size_t row, KeyParts parts, const NameMap* names = nullptr);

std::string CellText(const Cell& cell);  // "" where it is not known

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_ROW_KEYS_H_
