// GPU time of ops: how long GPUs worked for the calls of each, wherever among the calls inside of them the work was
// asked for.
#ifndef DLHOOK_ANALYZER_TABLES_GPU_CALL_TIMES_H_
#define DLHOOK_ANALYZER_TABLES_GPU_CALL_TIMES_H_

#include <cstdint>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/table/typed_columns.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline tables {

struct GpuOpTime {
  int64_t busy_ns = 0;     // durations of all activities that were computed for these calls
  int64_t executions = 0;  // calls with any; of captured calls one for each launch of their graph
  int64_t activities = 0;
  double flops = 0;      // of the executions whose FLOPs are known …
  int64_t flops_ns = 0;  // … and their part of busy_ns
  double bytes = 0;      // operands of the executions, where known

  void Add(const GpuOpTime& other);
};

// By op of the model; all zero where no GPU times are to be told. A call inside another view of the same work
// (model/same_work.h) gives its time to that one. An op inside one of another kind (a launch in a product) has it too,
// as in total_time.
std::vector<GpuOpTime> GpuTimesOfOps(const TraceModel& model, const TableOptions& options);

// Columns `gpu_time` and `gpu_rate`; none where no GPU times are to be told.
TypedColumns<GpuOpTime> GpuTimeColumns(const TraceModel& model, const TableOptions& options);

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_GPU_CALL_TIMES_H_
