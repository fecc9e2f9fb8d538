// GPU time of ops: see gpu_call_times.h.
#include "analyzer/tables/gpu_call_times.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline tables {
namespace {

// Real nesting is a few calls deep; only a damaged trace goes beyond.
constexpr int kMaxDepth = 64;

// A call's execution; for a captured call, a launch of its graph.
using Execution = std::pair<CallIndex, CallIndex>;

void AddBooks(const Op& op, GpuOpTime* time) {
  const auto executions = static_cast<double>(time->executions);
  time->bytes = executions * static_cast<double>(op.bytes.value_or(0));
  if (!op.flops) return;
  time->flops = executions * static_cast<double>(*op.flops);
  time->flops_ns = time->busy_ns;
}

}  // namespace

GpuTimes GpuTimesOf(const TraceModel& model) {
  if (model.gpu.empty()) return GpuTimes::kNone;
  const auto is_kernel = [](GpuActivityKind kind) {
    return kind == GpuActivityKind::kKernel || kind == GpuActivityKind::kGraph;
  };
  const bool any = std::any_of(model.gpu.kind.begin(), model.gpu.kind.end(), is_kernel);
  return any ? GpuTimes::kOfKernels : GpuTimes::kOfWork;
}

GpuTimes GpuTimesOf(const TraceModel& model, const TableOptions& options) {
  return options.gpu_times.value_or(GpuTimesOf(model));
}

void GpuOpTime::Add(const GpuOpTime& other) {
  busy_ns += other.busy_ns;
  executions += other.executions;
  activities += other.activities;
  flops += other.flops;
  flops_ns += other.flops_ns;
  bytes += other.bytes;
}

std::vector<GpuOpTime> GpuTimesOfOps(const TraceModel& model, const TableOptions& options) {
  const GpuActivityColumns& gpu = model.gpu;
  std::vector<GpuOpTime> times(model.ops.size());
  if (GpuTimesOf(model, options) == GpuTimes::kNone) return times;
  const SameWork same_work(model);
  absl::flat_hash_set<Execution> executions;
  for (GpuIndex activity = 0; activity < gpu.size(); ++activity) {
    const CallIndex launch = gpu.graph[activity] == 0 ? kNone : gpu.launch_call[activity];
    CallIndex call = gpu.call[activity];
    for (int depth = 0; call != kNone && depth < kMaxDepth; call = model.calls.parent[call], ++depth) {
      if (same_work.IsNested(call)) continue;
      GpuOpTime& time = times[model.calls.op[call]];
      time.busy_ns += gpu.DurationNs(activity);
      ++time.activities;
      if (executions.insert({call, launch}).second) ++time.executions;
    }
  }
  for (OpIndex op = 0; op < model.ops.size(); ++op) AddBooks(model.ops[op], &times[op]);
  return times;
}

TypedColumns<GpuOpTime> GpuTimeColumns(const TraceModel& model, const TableOptions& options) {
  if (GpuTimesOf(model, options) == GpuTimes::kNone) return {};
  return {
      {TimeColumn("gpu_time",
                  "Durations of what GPUs did for these calls; of captured ones in every launch of their graph."),
       [](const GpuOpTime& time) { return time.activities > 0 ? Cell(time.busy_ns) : Cell(); }},
      {RealColumn("gpu_rate", "GFLOP/s", Better::kHigher, "FLOPs of what GPUs executed over GPU time."),
       [](const GpuOpTime& time) {
         return time.flops_ns > 0 ? Cell(time.flops / static_cast<double>(time.flops_ns)) : Cell();
       }},
  };
}

}  // namespace dlhook::analyzer::tables
