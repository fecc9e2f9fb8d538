// A table is made from the model by one pure function: no I/O, no printing, no state.
//
// To add a table (in every format):
//   1. write analyzer/tables/ROOM/NAME.cc with `absl::StatusOr<Table> NameTable(const TraceModel&, const TableOptions&)`;
//   2. declare it in analyzer/tables/tables.h and add its line to TableKinds() in analyzer/tables/registry.cc.
#pragma once

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/calls/choices.h"
#include "analyzer/model/process_info.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline peaks {
class Peaks;
}

namespace dlhook::analyzer::inline tables {

// What the rows of a table are: layers, or what to fold them into; phases …
enum class By { kLayer, kModule, kType, kOp, kLine, kFunction, kStack, kPhase, kStep, kScope, kThread, kLibrary };
inline constexpr absl::string_view kByNames[] = {"layer", "module", "type", "op",    "line",   "function",
                                                 "stack", "phase",  "step", "scope", "thread", "library"};

// What a table leaves the choice of, the first one by default; by name, none of tables that leave none.
const std::vector<std::pair<absl::string_view, std::vector<By>>>& RowChoices();

// How much is known of GPU times: nothing, copies and calls as a whole, or each kernel.
enum class GpuTimes : uint8_t { kNone, kOfWork, kOfKernels };

// What tables are made with: what was computed of the run, and what its user wants to see.
struct TableOptions {
  // Computed once per model and shared by all tables; never null. Call ResolveChoices first: it gives some calls other
  // ops.
  const Choices* choices = nullptr;
  const RunTotals* totals = nullptr;
  const LayerAnalysis* analysis = nullptr;
  const Peaks* peaks = nullptr;  // of the run's machines; null: not wanted
  std::optional<By> by = std::nullopt;
  By RowsOf(absl::string_view table) const;  // `by`, if the table has it; layers that are cut are modules
  // Modules' names are cut after so many parts (0: not at all).
  int layers_depth = 0;
  // Of the table `layers`: steps of this kind; by default training, else inference, else whatever there is.
  std::optional<StepKind> layers_of = std::nullopt;
  std::optional<size_t> first_rows = std::nullopt;  // others aren't wanted, of a table with a row for each step
  int64_t interval_ns = 0;  // for tables `..._over_time`: the length of a row's interval; 0: one row per step
  // GPU times to show; by default those that the run has. Runs that are compared must show the same.
  std::optional<GpuTimes> gpu_times = std::nullopt;
  // For the tables `callers` and `stacks`: only calls of these functions or kinds; empty: all.
  std::vector<std::string> functions = {};
  bool library_only = false;           // for the table `stacks`: library calls alone, over the whole run
  bool use_framework_evidence = true;  // of `analysis`; false: layers from operands, shapes and order alone
};

GpuTimes GpuTimesOf(const TraceModel& model);
// The GPU times to show.
GpuTimes GpuTimesOf(const TraceModel& model, const TableOptions& options);

using TableFunction = absl::StatusOr<Table>(const TraceModel& model, const TableOptions& options);

struct TableKind {
  absl::string_view name;
  absl::string_view summary;  // for --help
  TableFunction* run;
};

const std::vector<TableKind>& TableKinds();  // in report order

// The table of a kind, checked and without impossible numbers; `mistakes`, if not null: see TakeAwayNonsense.
absl::StatusOr<Table> MakeTable(const TableKind& kind, const TraceModel& model, const TableOptions& options,
                                size_t* mistakes = nullptr);

TableFunction SummaryTable, LayersTable, AccountingTable, PhasesTable, LatencyTable, OpsTable, ConvolutionsTable,
    AlgorithmsTable, LayoutTable, GemmTable, CallersTable, StacksTable, HotspotsTable, CopiesTable, KernelsTable,
    LaunchesTable, CollectivesTable, DevicesTable, RanksTable, OverlapTable, OverlapOverTimeTable, GuidedTable,
    GpuIdleTable, MemoryTable, TuningTable, CandidatesTable, CountersTable, CountersOverTimeTable, CompiledTable,
    ThreadsTable, StepsTable, CapabilitiesTable;

// The names that TableOptions.functions can use in this run.
std::vector<std::string> FunctionsAndKinds(const TraceModel& model);

// Advice on what dlhook could not see, or saw only in part.

// Capabilities of counters are named like "counter:cycles"; unknown names in DLHOOK_COUNTERS: "counters".
inline constexpr char kCounterPrefix[] = "counter:";
bool IsOfCounters(const Capability& capability);

// A sentence; empty if nothing is missing or nothing can be done.
std::string AdviceFor(const Capability& capability);
std::string AdviceFor(const Loss& loss);

// True if something was refused or lost; false if the user switched it off.
bool IsMissing(const Capability& capability);

}  // namespace dlhook::analyzer::tables
