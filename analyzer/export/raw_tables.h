// What a run consists of, as tables of a database: calls, scopes, activities, GPU work, and what these refer to. They are
// streamed: no table is in memory as a whole.
#ifndef DLHOOK_ANALYZER_EXPORT_RAW_TABLES_H_
#define DLHOOK_ANALYZER_EXPORT_RAW_TABLES_H_

#include <string>
#include <vector>

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/export/table_rows.h"
#include "analyzer/export/timeline.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline exports {

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

#endif  // DLHOOK_ANALYZER_EXPORT_RAW_TABLES_H_
