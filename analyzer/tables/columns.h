// Words that the tables share: columns with the same meaning are named, explained and filled alike
// in every table.
#ifndef DLHOOK_ANALYZER_TABLES_COLUMNS_H_
#define DLHOOK_ANALYZER_TABLES_COLUMNS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/table/human.h"
#include "analyzer/table/table.h"
#include "analyzer/table/typed_columns.h"

namespace dlhook::analyzer::inline tables {

// The row that makes wall shares add up to the whole.
inline constexpr char kUnattributed[] = "[unattributed]";

Column TextColumn(std::string name, std::string explanation);
Column IntegerColumn(std::string name, std::string unit, Better better, std::string explanation);
Column RealColumn(std::string name, std::string unit, Better better, std::string explanation);

// Of second rank: text shows it where the line has room.
Column Detail(Column column);

// With what it is for those who compare two runs.
Column As(Role role, Column column);

Column Within(Range range, Column column);

template <typename Item>
TypedColumn<Item> Detail(TypedColumn<Item> typed) {
  typed.column = Detail(std::move(typed.column));
  return typed;
}

template <typename Item>
TypedColumn<Item> As(Role role, TypedColumn<Item> typed) {
  typed.column = As(role, std::move(typed.column));
  return typed;
}

// Columns of most tables. `of`: what is counted, e.g. "calls of this problem".
Column CallsColumn(std::string explanation);
Column TotalTimeColumn();
Column MeanTimeColumn();
Column WallShareColumn();
Column WallPercentColumn();
Column RateColumn();

// Not known where it is empty.
Cell KnownText(const std::string& text);
template <typename Item>
auto Known(std::string Item::*text) {
  return [text](const Item& item) { return KnownText(item.*text); };
}

// Not known where `whole` is 0.
Cell Percent(int64_t part, int64_t whole);
Cell Mean(int64_t sum, int64_t count);
Cell OrUnknown(const std::optional<int64_t>& value);
// What one call does (FLOPs, bytes) times calls over their time; 1 per ns is 1 G/s.
Cell Rate(const std::optional<int64_t>& amount, int64_t calls, int64_t total_ns);

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_COLUMNS_H_
