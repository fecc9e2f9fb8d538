// What can be done with any table, whatever it is about.
#ifndef DLHOOK_ANALYZER_TABLE_TABLE_OPS_H_
#define DLHOOK_ANALYZER_TABLE_TABLE_OPS_H_

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline table {

std::optional<size_t> FindColumn(const Table& table, absl::string_view name);

// The first column with the role; kNoColumn where there is none.
inline constexpr size_t kNoColumn = static_cast<size_t>(-1);
size_t ColumnOf(const Table& table, Role role);

// A row of which only these cells are known, each by its column's name.
void AddRow(std::initializer_list<std::pair<absl::string_view, Cell>> known, Table* table);

// Numbers from the largest, text from A; what is not known comes last. Rows that are equal keep
// their order.
void SortBy(size_t column, Table* table);

// Keeps the first `limit` rows and adds a note on how many there were.
void LimitRows(size_t limit, Table* table);

// Checks what table.h demands of a table: unique column names, rows of the right length and types.
absl::Status CheckTable(const Table& table);

// Takes away numbers that are none (not finite) or can't be (see Range), and says so in a note. Returns how many of them are
// mistakes of who made the table, whatever the trace said.
size_t TakeAwayNonsense(Table* table);

}  // namespace dlhook::analyzer::table

#endif  // DLHOOK_ANALYZER_TABLE_TABLE_OPS_H_
