// What the last dlhook replay of a run measured, in the run's own tables.
#pragma once

#include "analyzer/model/trace_model.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline tables {

// Kept in a file beside the run's first trace, with lines of cells between tabs. The first line tells the run from a later one of
// that name.
struct ReplayFile {
  std::string path, first_line;
};
ReplayFile ReplayFileOf(const TraceModel& model);

// To `algorithms` and `candidates`, if there is such a file.
void AddReplayed(const TraceModel& model, Table* table);

}  // namespace dlhook::analyzer::tables
