// What takes a table row by row: a database, or columns of Arrow. AllTables gives the tables of an export to it.
#ifndef DLHOOK_ANALYZER_EXPORT_TABLE_ROWS_H_
#define DLHOOK_ANALYZER_EXPORT_TABLE_ROWS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/export/timeline.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline exports {

constexpr int64_t kSchemaVersion = 1;  // of the raw tables: another one where a column is not what it was

// The rows of a table, cell by cell in the order of its columns; each holds its column's type or NULL.
class TableRows {
 public:
  virtual ~TableRows() = default;
  virtual TableRows& Integer(int64_t value) = 0;
  virtual TableRows& Real(double value) = 0;
  virtual TableRows& Text(absl::string_view value) = 0;  // control characters are spelled out; empty: NULL
  virtual TableRows& Null() = 0;
  virtual void End() = 0;
  TableRows& Index(uint32_t value) { return value == kNone ? Null() : Integer(value); }
};

// `has_id`: the first column identifies a row.
using StartTable =
    std::function<std::unique_ptr<TableRows>(const std::string& name, const std::vector<Column>& columns, bool has_id)>;

// The tables of the report, the raw tables, and those that describe all of them and `views` (name and title); one after another.
void WriteAllTables(const Timeline& run, const std::vector<Table>& tables,
                    const std::vector<std::pair<std::string, std::string>>& views, const StartTable& start);

}  // namespace dlhook::analyzer::exports

#endif  // DLHOOK_ANALYZER_EXPORT_TABLE_ROWS_H_
