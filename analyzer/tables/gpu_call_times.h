// GPU time of ops: how long GPUs worked for the calls of each op, including work requested by nested calls.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/table/typed_columns.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline tables {

struct GpuOpTime {
  int64_t busy_ns = 0;     // durations of all activities of these calls
  int64_t executions = 0;  // calls with GPU work; a captured call counts once per launch of its graph
  int64_t activities = 0;
  double flops = 0;      // of executions with known FLOPs …
  int64_t flops_ns = 0;  // … and their part of busy_ns
  double bytes = 0;      // operands of the executions, if known

  void Add(const GpuOpTime& other);
};

// By op of the model; all zero if GPU times are not to be shown. A call inside another view of the same work
// (model/same_work.h) adds its time to the outer call. An op nested in one of another kind (a launch in a product) has
// the time, too, as in total_time.
std::vector<GpuOpTime> GpuTimesOfOps(const TraceModel& model, const TableOptions& options);

// Columns `gpu_time` and `gpu_rate`; none if GPU times are not to be shown.
TypedColumns<GpuOpTime> GpuTimeColumns(const TraceModel& model, const TableOptions& options);

}  // namespace dlhook::analyzer::tables
