// A table is made from the model by one pure function: no I/O, no printing, no state.
//
// To add a table (in every format):
//   1. write analyzer/tables/ROOM/NAME.cc with `absl::StatusOr<Table> NameTable(const TraceModel&, const TableOptions&)`;
//   2. declare it in analyzer/tables/tables.h and add its line to TableKinds() in analyzer/tables/registry.cc.
#ifndef DLHOOK_ANALYZER_TABLES_TABLE_KIND_H_
#define DLHOOK_ANALYZER_TABLES_TABLE_KIND_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/calls/choices.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline tables {

// Rows of the table `layers`: layers, or what they are folded into.
enum class LayersBy : uint8_t { kLayer, kModule, kType, kOp, kLine, kFunction, kStack };

// Rows of the table `counters`: as those of `layers`, or …
enum class CountersBy : uint8_t { kLayers, kPhase, kIteration, kScope, kThread };

// What is known of GPUs' times: nothing, of copies and calls as a whole, also of each kernel.
enum class GpuTimes : uint8_t { kNone, kOfWork, kOfKernels };

struct TableOptions {
  // Of the same model, computed once for all tables; never null. ResolveChoices first: it gives
  // some calls other ops.
  const Choices* choices = nullptr;
  const RunTotals* totals = nullptr;
  const LayerAnalysis* analysis = nullptr;
  // Of the table `layers`: what its rows are; modules' names are cut after `layers_depth` parts (0: not at all).
  LayersBy layers_by = LayersBy::kLayer;
  int layers_depth = 0;
  CountersBy counters_by = CountersBy::kLayers;
  int64_t interval_ns = 0;  // of the tables `..._over_time`: rows are so long instead of iterations; 0: iterations
  // As which kind of run it is to be told. Not set: as what it is. Runs that are compared must be told alike.
  std::optional<GpuTimes> gpu_times = std::nullopt;
  // Of the tables `callers` and `stacks`: only calls of these functions or tables; empty: all.
  std::vector<std::string> functions = {};
};

GpuTimes GpuTimesOf(const TraceModel& model);
// As the table is to tell it.
GpuTimes GpuTimesOf(const TraceModel& model, const TableOptions& options);

struct TableKind {
  absl::string_view name;
  absl::string_view summary;  // for --help
  absl::StatusOr<Table> (*run)(const TraceModel&, const TableOptions&);
};

const std::vector<TableKind>& TableKinds();  // in report order

// The table of a kind, well-formed and without numbers that can't be; `mistakes`, where not null: see TakeAwayNonsense.
absl::StatusOr<Table> MakeTable(const TableKind& kind, const TraceModel& model, const TableOptions& options,
                                size_t* mistakes = nullptr);

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_TABLE_KIND_H_
