// What a run consists of, as tables of a database: calls, scopes, activities, GPU work, and what these refer to. They are
// streamed: no table is in memory as a whole.
#pragma once

#include "analyzer/export/timeline.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline exports {

constexpr int64_t kSchemaVersion = 1;  // of the raw tables: another one where a column is not what it was

// What takes a table row by row, cell by cell in the order of its columns: a database, or columns of Arrow. Each cell holds
// its column's type or NULL.
class TableRows {
 public:
  virtual ~TableRows() = default;
  virtual TableRows& Integer(int64_t value) = 0;
  virtual TableRows& Real(double value) = 0;
  virtual TableRows& Text(absl::string_view value) = 0;  // control characters are spelled out; empty: NULL
  virtual TableRows& Null() = 0;
  virtual void End() = 0;
  TableRows& Index(uint32_t value) { return value == kNone ? Null() : Integer(value); }
  TableRows& Known(std::optional<int64_t> value) { return value ? Integer(*value) : Null(); }
};

std::string DirectionWord(LayerDirection direction);  // empty: not known

// `has_id`: the first column identifies a row.
using StartTable =
    std::function<std::unique_ptr<TableRows>(const std::string& name, const std::vector<Column>& columns, bool has_id)>;

// The tables of the report, the raw tables, and those that describe all of them and `views` (name and title); one after another.
void WriteAllTables(const Timeline& run, const std::vector<Table>& tables,
                    const std::vector<std::pair<std::string, std::string>>& views, const StartTable& start);

struct RawTable {
  std::string name;
  std::string title;
  bool has_id;  // the first column identifies a row
  std::vector<Column> columns;
  void (*fill)(const Timeline& run, TableRows& rows);
};

const std::vector<RawTable>& RawTables();

// The collective operations of each rank in order, and sums of its work over windows of steps: what ranks are compared by.
void FillCollectives(const Timeline& run, TableRows& rows);
void FillWork(const Timeline& run, TableRows& rows);

// One for each uninterrupted piece of one activity in one step and phase. share_ns of a process adds up to its part of the
// run's wall time exactly.
void FillTime(const Timeline& run, TableRows& rows);

}  // namespace dlhook::analyzer::exports
