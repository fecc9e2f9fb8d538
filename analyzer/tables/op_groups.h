// Totals of the ops of one table row.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/calls/op_labels.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/table/typed_columns.h"

namespace dlhook::analyzer::inline tables {

// The row in which each op of the model is booked. A call nested in a call of its kind (cblas_sgemm -> sgemm_) is
// another view of the same work. An op whose calls are all nested like that is booked with the enclosing op (the most
// frequent one, if there are several), including time and share. Other ops are their own home.
std::vector<OpIndex> HomeOps(const TraceModel& model, const RunTotals& totals);

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
  std::set<std::string> functions, families, implementations, algorithms;

  // `home`: the op under which this one is booked. An op booked elsewhere adds time and share, but no calls.
  void Add(const Op& op, const OpTotals& totals, bool at_home);
};

// The implementation; if the library names none, the algorithm. Without "cudnn" and "cublasLt", which the op's family
// implies.
std::string ChosenLabel(const Op& op);

// "yes: type f16", "no: alignment 4 bytes".
std::string TensorCoreLabel(const TensorCore& tensor_core);

// Columns that all groups have.
TypedColumn<OpGroup> OpTotalTime();
TypedColumn<OpGroup> OpMeanTime();
TypedColumn<OpGroup> OpWallShare();
TypedColumn<OpGroup> OpWallPercent(int64_t wall_ns);
TypedColumn<OpGroup> OpRate();  // if all calls have the same FLOPs; else unknown
TypedColumn<OpGroup> OpFlops();
TypedColumn<OpGroup> OpFunctions();

}  // namespace dlhook::analyzer::tables
