// Operations on any table.
#pragma once

#include <cstddef>

#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline table {

std::optional<size_t> FindColumn(const Table& table, absl::string_view name);

// The first column with the role; kNoColumn if there is none.
inline constexpr size_t kNoColumn = static_cast<size_t>(-1);
size_t ColumnOf(const Table& table, Role role);

// What a row holds in the column of this name: the text, or the number; "" and 0 if it is of another type or not known.
std::string TextOf(const Table& table, const Row& row, absl::string_view column);
double NumberOf(const Table& table, const Row& row, absl::string_view column);
double NumberOf(const Cell& cell);

// A row in which only these cells are known, given by column name.
void AddRow(std::initializer_list<std::pair<absl::string_view, Cell>> known, Table* table);

// Numbers descending, text ascending, unknown values last. Stable.
void SortBy(size_t column, Table* table);

// Keeps the first `limit` rows and adds a note on how many there were.
void LimitRows(size_t limit, Table* table);
// The note, if there were more rows than the table has.
void NoteRowsLeftOut(size_t all, Table* table);

// Checks the requirements of table.h: unique column names, rows of the right length and types.
absl::Status CheckTable(const Table& table);

// Removes numbers that are not finite or out of range (see Range), and adds a note. Returns how many of them are
// defects of the table's code rather than of the trace.
size_t TakeAwayNonsense(Table* table);

// Numbers for people: three significant digits and a prefix, in tables and in sentences.

// "1.23 ms" for 1234567 with unit "ns", "4.00 KiB" for 4096 "bytes", "12.3%" for 12.34 "%", "-" for unknown.
std::string HumanCell(const Cell& cell, absl::string_view unit);

// A time in a sentence: "1.23 ms".
std::string HumanTime(double ns);

// Whether HumanCell writes the unit after the number; if not, it belongs in the column header.
bool IsUnitInCell(absl::string_view unit);

}  // namespace dlhook::analyzer::table
