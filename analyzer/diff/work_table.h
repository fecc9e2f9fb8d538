// What a step's time consists of, as finely as it can be told: the table that says why a layer's time changed.
#ifndef DLHOOK_ANALYZER_DIFF_WORK_TABLE_H_
#define DLHOOK_ANALYZER_DIFF_WORK_TABLE_H_

#include "absl/status/statusor.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline diff {

// Table `work`: one row for each layer, direction, op, problem and way in which it is done, with its exact wall share.
// Of all steps of the analysis; of the whole run where it has none.
absl::StatusOr<Table> WorkTable(const TraceModel& model, const TableOptions& options);
// Of the steady steps that most time goes to: for a report.
absl::StatusOr<Table> MeanWorkTable(const TraceModel& model, const TableOptions& options);

inline constexpr char kMovesData[] = "layout";  // in the column `purpose`

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_WORK_TABLE_H_
