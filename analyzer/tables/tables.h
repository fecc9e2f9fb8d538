// The tables, one function each. See table_kind.h for how to add one.
#pragma once

#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline tables {

TableFunction SummaryTable, LayersTable, AccountingTable, PhasesTable, LatencyTable, OpsTable, ConvolutionsTable,
    AlgorithmsTable, LayoutTable, GemmTable, CallersTable, StacksTable, HotspotsTable, CopiesTable, KernelsTable,
    LaunchesTable, CollectivesTable, DevicesTable, RanksTable, OverlapTable, OverlapOverTimeTable, GuidedTable,
    GpuIdleTable, MemoryTable, TuningTable, CandidatesTable, CountersTable, CountersOverTimeTable, CompiledTable,
    ThreadsTable, StepsTable, CapabilitiesTable;

// The table `threads` by place: where threads were blocked.
Table ThreadWaitsTable(const TraceModel& model, ThreadsBy by);

}  // namespace dlhook::analyzer::tables
