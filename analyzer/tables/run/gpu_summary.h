// What the table `summary` says of GPUs.
#ifndef DLHOOK_ANALYZER_TABLES_RUN_GPU_SUMMARY_H_
#define DLHOOK_ANALYZER_TABLES_RUN_GPU_SUMMARY_H_

#include "analyzer/model/trace_model.h"
#include "analyzer/table/table.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline tables {

// Rows metric, value, unit, percent, note. None where the run has no times of GPUs.
void AddGpuMetrics(const TraceModel& model, const TableOptions& options, Table* summary);

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_RUN_GPU_SUMMARY_H_
