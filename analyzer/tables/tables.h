// The tables, one function each. See table_kind.h for how to add one.
#pragma once

#include "absl/status/statusor.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline tables {

absl::StatusOr<Table> SummaryTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> LayersTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> AccountingTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> PhasesTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> LatencyTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> OpsTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> ConvolutionsTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> AlgorithmsTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> LayoutTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> GemmTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> CallersTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> StacksTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> HotspotsTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> CopiesTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> KernelsTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> LaunchesTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> CollectivesTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> DevicesTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> RanksTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> OverlapTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> OverlapOverTimeTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> GuidedTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> GpuIdleTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> MemoryTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> TuningTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> CandidatesTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> CountersTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> CountersOverTimeTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> CompiledTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> ThreadsTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> StepsTable(const TraceModel& model, const TableOptions& options);
absl::StatusOr<Table> CapabilitiesTable(const TraceModel& model, const TableOptions& options);

// The table `threads` by place: where threads were blocked.
Table ThreadWaitsTable(const TraceModel& model, ThreadsBy by);

}  // namespace dlhook::analyzer::tables
