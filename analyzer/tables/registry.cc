// All tables, in report order. See tables.h for how to add one.
#include "analyzer/table/table_ops.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {

const std::vector<TableKind>& TableKinds() {
  static const auto* const kinds = new std::vector<TableKind>{
      {"summary", "the run in a few numbers, and what could not be observed", SummaryTable},
      {"layers", "what each layer of the network costs, forward and backward", LayersTable},
      {"accounting", "where the time of a step goes: libraries, framework, Python, input, waiting", AccountingTable},
      {"phases", "input, forward, backward and update of a step; validation, warm-up", PhasesTable},
      {"latency", "request latency, by batch size", LatencyTable},
      {"ops", "what was computed, by problem and direction", OpsTable},
      {"algorithms", "implementations and algorithms that libraries chose", AlgorithmsTable},
      {"convolutions", "cost of convolutions by algorithm: operations, least time", ConvolutionsTable},
      {"layout", "layout conversions: tensors converted between memory formats", LayoutTable},
      {"gemm", "matrix products by shape", GemmTable},
      {"callers", "call sites of each problem: framework function, line of the program, layer", CallersTable},
      {"stacks", "what steps spend time on, by stack: the framework, Python, native functions", StacksTable},
      {"hotspots", "where threads compute, by function (samples of CPU time)", HotspotsTable},
      {"copies", "memory copied between host and GPU, by direction and kind", CopiesTable},
      {"kernels", "kernel launches by name and by launching op", KernelsTable},
      {"launches", "launch cost on the host, and delay until the GPU starts", LaunchesTable},
      {"collectives", "communication between ranks", CollectivesTable},
      {"devices", "GPU time: compute, copies, exposed communication, idle", DevicesTable},
      {"ranks", "load balance of ranks, and which rank the others wait for", RanksTable},
      {"overlap", "how copies, compute and communication overlap on GPUs", OverlapTable},
      {"overlap_over_time", "the same by step, or by --interval", OverlapOverTimeTable},
      {"guided", "GPU utilisation, by the Visual Profiler's metrics", GuidedTable},
      {"gpu_idle", "why GPUs do not compute: launches, waiting, copies, input ...", GpuIdleTable},
      {"memory", "what memory is held for, by kind and layer, at its peak", MemoryTable},
      {"tuning", "cost of searching and preparing algorithms", TuningTable},
      {"candidates", "algorithms that were tried or offered for a problem", CandidatesTable},
      {"compiled", "what torch.compile compiled, why it recompiled, where it broke graphs", CompiledTable},
      {"threads", "thread states: running, waiting for a processor, blocked and in what", ThreadsTable},
      {"steps", "the steps of the program: warm-up, steady, other", StepsTable},
      {"counters", "what the processor counted, by layer and direction, or --by phase ...", CountersTable},
      {"counters_over_time", "the same by step, or by --interval", CountersOverTimeTable},
      {"capabilities", "what was observed and how, what could not be, and what to do about it", CapabilitiesTable},
  };
  return *kinds;
}

const std::vector<std::pair<absl::string_view, std::vector<By>>>& RowChoices() {
  using enum By;
  static const auto& kChoices = *new std::vector<std::pair<absl::string_view, std::vector<By>>>{
      {"layers", {kLayer, kModule, kType, kOp, kLine, kFunction, kStack}},
      {"counters", {kLayer, kModule, kType, kOp, kLine, kFunction, kStack, kPhase, kStep, kScope, kThread}},
      {"hotspots", {kFunction, kLibrary, kLine, kLayer}},
      {"threads", {kThread, kFunction, kLine, kStack}}};
  return kChoices;
}

By TableOptions::RowsOf(absl::string_view table) const {
  const auto& [name, choice] = *absl::c_find_if(RowChoices(), [&](const auto& one) { return one.first == table; });
  const By rows = by && absl::c_linear_search(choice, *by) ? *by : choice.front();
  return rows == By::kLayer && layers_depth > 0 && table != "hotspots" ? By::kModule : rows;
}

absl::StatusOr<Table> MakeTable(const TableKind& kind, const TraceModel& model, const TableOptions& options,
                                size_t* mistakes) {
  absl::StatusOr<Table> table = kind.run(model, options);
  if (!table.ok()) return table;
  if (absl::Status status = CheckTable(*table); !status.ok()) return status;
  const size_t taken = TakeAwayNonsense(&*table);
  if (mistakes != nullptr) *mistakes = taken;
  return table;
}

}  // namespace dlhook::analyzer::tables
