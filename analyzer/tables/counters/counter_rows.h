// The rows of the tables of counters: layers, phases, steps …, and which row a piece of the run belongs to.
#pragma once

#include "analyzer/table/typed_columns.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/counter_division.h"

namespace dlhook::analyzer::inline tables {

// What names a row: of the layer, scope, step or thread, and what the columns beside it hold.
struct CounterRow {
  Cell name = {}, process = {}, direction = {}, model = {}, phase = {}, steps = {}, thread = {};
  Cell index = {}, start = {}, duration = {};
};

class CounterRows {
 public:
  // `in_order`: rows by their start, not by size.
  explicit CounterRows(bool in_order = false) : in_order(in_order) {}
  virtual ~CounterRows() = default;
  CounterRows(const CounterRows&) = delete;
  CounterRows& operator=(const CounterRows&) = delete;

  const bool in_order;
  const TypedColumns<CounterRow>& columns() const { return columns_; }
  const std::vector<CounterRow>& rows() const { return rows_; }

  // Times at which pieces must be cut so that each belongs to one row; ascending.
  virtual std::vector<int64_t> Boundaries(ProcessIndex) const { return {}; }
  // The number of its row. The pieces of a process come thread by thread, then those of the process as a whole.
  virtual size_t RowOf(ProcessIndex process, const CountedPiece& piece) = 0;

 protected:
  TypedColumns<CounterRow> columns_;
  std::vector<CounterRow> rows_;
};

inline constexpr char kNotSampled[] = "[not sampled]";  // the name of the row for what no reading covers

// By layers (or what they are folded into), phases, steps or scopes; not by threads.
std::unique_ptr<CounterRows> RowsBy(By by, const TraceModel& model, const TableOptions& options);

// For tables over time: by step, or by the interval that is asked for. Where there are `data` but no steps, by intervals of a
// round number of ms that gives a readable number of rows; the note says so.
struct RowsOverTime {
  std::unique_ptr<CounterRows> rows;
  std::vector<std::string> notes;
};
RowsOverTime RowsOverTimeOf(const TraceModel& model, const TableOptions& options, bool has_data);

// Sorts rows by their start; rows without one come last.
void SortByStart(Table* table);

}  // namespace dlhook::analyzer::tables
