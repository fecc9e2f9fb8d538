// Totals of the ops of one table row.
#pragma once

#include "analyzer/calls/op_labels.h"
#include "analyzer/peaks/peaks.h"
#include "analyzer/table/typed_columns.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {

// GPU time of ops: how long GPUs worked for the calls of each op, including work requested by nested calls.
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

// Columns about what a machine could do at most: arithmetic intensity, bound, percent of the bound, lost time.

// Of the calls whose bound is known.
struct BoundSums {
  double flops = 0;  // of those whose bytes are known, too …
  double bytes = 0;  // … and theirs
  double bound_ns = 0;
  double time_ns = 0;
  std::array<double, 5> by_kind_ns{};  // of bound_ns, by BoundKind

  void Add(const Op& op, const Bound& bound, double calls);  // time_ns is added by the caller
  // All calls of an op: those on the CPU with their durations, those on a GPU with what it did for them.
  void AddOp(const Peaks* peaks, const Op& op, const OpTotals& totals, const GpuOpTime& gpu);
  BoundKind Kind() const;                                             // of most of bound_ns
  bool IsBelow() const { return time_ns > 0 && time_ns < bound_ns; }  // so it is no bound
};

// None where no peaks are known. `steps`: the sums are of so many; lost time is of one.
TypedColumns<BoundSums> BoundColumns(const TableOptions& options, int64_t steps = 1);
void AddBoundNotes(const TableOptions& options, Table* table);

// The row in which each op of the model is booked. A call nested in a call of its kind (cblas_sgemm -> sgemm_) is
// another view of the same work. An op whose calls are all nested like that is booked with the enclosing op (the most
// frequent one, if there are several), including time and share. Other ops are their own home.
std::vector<OpIndex> HomeOps(const TraceModel& model, const RunTotals& totals);

// An op with calls; `home`: the one under which it is booked.
struct CalledOp {
  const Op& op;
  OpIndex index = 0;
  OpIndex home = 0;
  const OpTotals& totals;
  GpuOpTime gpu;

  bool IsHome() const { return home == index; }
  int64_t own_calls() const { return totals.calls - totals.nested_calls; }
};
std::vector<CalledOp> CalledOps(const TraceModel& model, const TableOptions& options);

struct OpGroup {
  int64_t calls = 0;         // without calls nested in a call of their own kind
  int64_t nested_calls = 0;  // nested in a call of their own kind
  int64_t total_ns = 0;
  int64_t self_ns = 0;
  int64_t min_ns = 0;
  int64_t max_ns = 0;
  int64_t wall_share_ns = 0;
  std::optional<int64_t> flops;  // of one call, if equal for all
  double total_flops = 0;        // of calls with known FLOPs …
  int64_t flops_ns = 0;          // … and their time
  // False if some calls return before the work is done, or do none: their time says nothing about their speed.
  bool has_rate = true;
  std::set<std::string> functions, families, implementations;
  GpuOpTime gpu;
  BoundSums bounds;

  // An op booked elsewhere adds time and share, but no calls. `peaks`: for bounds; null: none.
  void Add(const CalledOp& called, const Peaks* peaks = nullptr);
};

// The implementation; if the library names none, the algorithm. Without "cudnn" and "cublasLt", which the op's family
// implies.
std::string ChosenLabel(const Op& op);

// "yes: type f16", "no: alignment 4 bytes".
std::string TensorCoreLabel(const TensorCore& tensor_core);

// Unless it is empty.
void AddWord(const std::string& word, std::set<std::string>& words);

// Columns that all groups have.
TypedColumn<OpGroup> OpTotalTime();
TypedColumn<OpGroup> OpMeanTime();
TypedColumn<OpGroup> OpWallShare();
TypedColumn<OpGroup> OpWallPercent(int64_t wall_ns);
TypedColumn<OpGroup> OpRate();  // if all calls have the same FLOPs; else unknown
TypedColumn<OpGroup> OpFlops();
TypedColumn<OpGroup> OpFunctions();

template <typename Group>
void InsertGpuTimes(const TraceModel& model, const TableOptions& options, TypedColumns<Group>* columns) {
  columns->InsertAfter("calls", GpuTimeColumns(model, options).template Of<Group>(&OpGroup::gpu));
}
template <typename Group>
void InsertBounds(const TableOptions& options, TypedColumns<Group>* columns) {
  columns->InsertAfter("flops", BoundColumns(options).template Of<Group>(&OpGroup::bounds));
}

}  // namespace dlhook::analyzer::tables
