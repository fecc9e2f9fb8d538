// The exact division of a run's time as rows: who did what when, and how much of the wall time counts for it.
#ifndef DLHOOK_ANALYZER_EXPORT_RAW_TIME_H_
#define DLHOOK_ANALYZER_EXPORT_RAW_TIME_H_

#include "analyzer/export/sqlite_file.h"
#include "analyzer/export/timeline.h"

namespace dlhook::analyzer::inline exports {

// One for each uninterrupted piece of one activity in one step and phase. share_ns of a process adds up to its part of the
// run's wall time exactly.
void FillTime(const Timeline& run, SqliteRows& rows);

}  // namespace dlhook::analyzer::exports

#endif  // DLHOOK_ANALYZER_EXPORT_RAW_TIME_H_
