// What a step's time consists of, as finely as possible: explains why a layer's time changed.
#ifndef DLHOOK_ANALYZER_WORK_WORK_TABLE_H_
#define DLHOOK_ANALYZER_WORK_WORK_TABLE_H_

#include "absl/status/statusor.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline work {

// Table `work`: one row per layer, direction, op, problem and implementation, with its exact wall share. Over all steps
// of the analysis, or the whole run if it has none.
absl::StatusOr<Table> WorkTable(const TraceModel& model, const TableOptions& options);
// Over the steady steps of the kind that takes most time: for a report.
absl::StatusOr<Table> MeanWorkTable(const TraceModel& model, const TableOptions& options);

inline constexpr char kMovesData[] = "layout";  // in the column `purpose`

}  // namespace dlhook::analyzer::work

#endif  // DLHOOK_ANALYZER_WORK_WORK_TABLE_H_
