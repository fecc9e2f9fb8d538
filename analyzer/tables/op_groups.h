// Totals of ops that belong in one row of a table.
#ifndef DLHOOK_ANALYZER_TABLES_OP_GROUPS_H_
#define DLHOOK_ANALYZER_TABLES_OP_GROUPS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/calls/op_labels.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/table/typed_columns.h"

namespace dlhook::analyzer::inline tables {

// Where to book each op of the model. A call inside another call of its kind (cblas_sgemm ->
// sgemm_) is another view of the same work: an op all of whose calls are such is booked with the op
// around it (the most frequent one, where there are several), so that its time and share stand in
// that row. All others: themselves.
std::vector<OpIndex> HomeOps(const TraceModel& model, const RunTotals& totals);

struct OpGroup {
  int64_t calls = 0;         // without those nested in a call of their own kind
  int64_t nested_calls = 0;  // with those
  int64_t total_ns = 0;
  int64_t self_ns = 0;
  int64_t min_ns = 0;
  int64_t max_ns = 0;
  int64_t wall_share_ns = 0;
  std::optional<int64_t> flops;  // of one call, if the same for all
  double total_flops = 0;        // of the calls whose FLOPs are known …
  int64_t flops_ns = 0;          // … and their time
  // Some calls return before the work is done, or do none: their time says nothing about its speed.
  bool has_rate = true;
  std::set<std::string> functions, families, implementations, algorithms;

  // `home`: the op under whose name this one is booked. An op away from home adds to time and
  // share, not to calls.
  void Add(const Op& op, const OpTotals& totals, bool at_home);
};

// The implementation; if the library names none, the algorithm. Without "cudnn" and "cublasLt",
// which the op's family says.
std::string ChosenLabel(const Op& op);

// "yes: type f16", "no: alignment 4 bytes".
std::string TensorCoreLabel(const TensorCore& tensor_core);

// Columns of what all groups have.
TypedColumn<OpGroup> OpTotalTime();
TypedColumn<OpGroup> OpMeanTime();
TypedColumn<OpGroup> OpWallShare();
TypedColumn<OpGroup> OpWallPercent(int64_t wall_ns);
TypedColumn<OpGroup> OpRate();  // where all calls have the same FLOPs; else not known
TypedColumn<OpGroup> OpFlops();
TypedColumn<OpGroup> OpFunctions();

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_OP_GROUPS_H_
