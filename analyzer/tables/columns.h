// Columns that several tables share, named, explained and filled in the same way everywhere.
#pragma once

#include "analyzer/table/table_ops.h"
#include "analyzer/table/typed_columns.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline tables {

// The explanation of a TypedColumn may stand behind it.
Column TextColumn(absl::string_view name, absl::string_view explanation = {});
Column IntegerColumn(absl::string_view name, absl::string_view unit, Better better, absl::string_view explanation = {});
Column TimeColumn(absl::string_view name, absl::string_view explanation = {});    // ns, less is better
Column NumberColumn(absl::string_view name, absl::string_view explanation = {});  // without unit, neither is better
Column RealColumn(absl::string_view name, absl::string_view unit, Better better, absl::string_view explanation = {});
Column PercentColumn(absl::string_view name, Better better, absl::string_view explanation = {});

// Less important: text output shows it only if the line has room.
Column Detail(Column column);

// With its role when two runs are compared.
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

// Whether a launcher gave any process a rank.
bool HasRanks(const TraceModel& model);
// A process's id; a detail where all rows are of one process.
Column ProcessColumn(bool are_several);
// Columns of most tables. `explanation`: what is counted, e.g. "calls of this problem".
Column CallsColumn(absl::string_view explanation);
Column TotalTimeColumn();
Column MeanTimeColumn();
Column WallShareColumn();
Column WallPercentColumn();
Column RateColumn();

// Unknown if it is empty.
Cell KnownText(const std::string& text);
template <typename Item>
auto Known(std::string Item::*text) {
  return [text](const Item& item) { return KnownText(item.*text); };
}

// Unknown if `whole` is 0.
Cell Percent(int64_t part, int64_t whole);
Cell Mean(int64_t sum, int64_t count);
// The amount (FLOPs, bytes) of one call times calls, divided by their time; 1 per ns is 1 G/s.
Cell Rate(const std::optional<int64_t>& amount, int64_t calls, int64_t total_ns);

// Of a table without rows: why the capability that would give it some is missing, where the trace tells.
void SayWhyNone(const TraceModel& model, absl::string_view capability, Table* table);

// Columns of tables whose rows are divided by looks at threads (time/thread_states.h).
struct LookRow {
  const LookSums& looks;
  int64_t total_ns;
  int64_t steps;
};

TypedColumns<LookRow> LookColumns();
std::string LookNote();

}  // namespace dlhook::analyzer::tables
