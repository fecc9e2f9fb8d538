// The rows of the table `threads` by place: where threads were blocked.
#ifndef DLHOOK_ANALYZER_TABLES_RUN_THREAD_WAITS_H_
#define DLHOOK_ANALYZER_TABLES_RUN_THREAD_WAITS_H_

#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline tables {

Table ThreadWaitsTable(const TraceModel& model, ThreadsBy by);

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_RUN_THREAD_WAITS_H_
