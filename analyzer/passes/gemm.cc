// Table `gemm`: matrix products by shape, from BLAS and from oneDNN.
#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_format.h"
#include "analyzer/passes/columns.h"
#include "analyzer/passes/gemm_shape.h"
#include "analyzer/passes/op_groups.h"
#include "analyzer/passes/pass.h"
#include "analyzer/passes/tables.h"

namespace dlhook::analyzer {
namespace {

// kind, shape (all -1: not known), types, direction.
using Key = std::tuple<std::string, GemmShape, std::string, Direction>;

Key KeyOf(const Op& op) {
  const GemmShape unknown = {-1, -1, -1, -1, "", ""};
  return {op.kind, GemmShapeOf(op).value_or(unknown), op.types, op.direction};
}

std::vector<Column> Columns() {
  return {
      TextColumn(
          "kind",
          "BLAS: gemm, gemv (n = 1), ger (k = 1) …; oneDNN: matmul, inner_product, gemm_api."),
      IntegerColumn("m", "", Better::kNeither, "Rows of the result."),
      IntegerColumn("n", "", Better::kNeither, "Columns of the result."),
      IntegerColumn("k", "", Better::kNeither, "Length of the sums."),
      IntegerColumn("batch", "", Better::kNeither, "Products in one call."),
      TextColumn("trans", "A, B: N as it lies, T transposed, C conjugate, P packed."),
      TextColumn("types", "Data types; one where all are equal."),
      CallsColumn("Calls, without those inside another call of the same kind."),
      TotalTimeColumn(),
      RealColumn("gemm_percent", "%", Better::kNeither,
                 "Total time as a part of all matrix products'."),
      RateColumn(),
      WallPercentColumn(),
      MeanTimeColumn(),
      WallShareColumn(),
      IntegerColumn("flops", "flops", Better::kNeither,
                    "Floating-point operations of one call, by the books."),
      TextColumn("order", "Order in which m and n are stated: col (BLAS) or row (cblas, oneDNN)."),
      TextColumn("direction", "Forward or backward, where the library says so."),
      TextColumn("functions", "Functions or taps that the calls were seen through."),
  };
}

Cell Size(int64_t value) { return value < 0 ? Cell() : Cell(value); }

Row GroupRow(const Key& key, const OpGroup& group, int64_t gemm_ns, int64_t wall_ns) {
  const auto& [kind, shape, types, direction] = key;
  return {kind,
          Size(shape.m),
          Size(shape.n),
          Size(shape.k),
          Size(shape.batch),
          shape.trans,
          types,
          group.calls,
          group.total_ns,
          Percent(group.total_ns, gemm_ns),
          Rate(group.flops, group.calls, group.total_ns),
          Percent(group.wall_share_ns, wall_ns),
          Mean(group.total_ns, group.calls),
          group.wall_share_ns,
          OrUnknown(group.flops),
          shape.order,
          std::string(DirectionName(direction)),
          Join(group.functions)};
}

std::string Note(const std::map<Key, OpGroup>& groups, int64_t gemm_ns, int64_t wall_ns) {
  int64_t calls = 0;
  int64_t wall_share_ns = 0;
  for (const auto& [key, group] : groups) {
    calls += group.calls;
    wall_share_ns += group.wall_share_ns;
  }
  const double percent =
      wall_ns > 0 ? 100.0 * static_cast<double>(wall_share_ns) / static_cast<double>(wall_ns) : 0;
  return absl::StrFormat(
      "%d matrix products: %s thread time, %s wall share (%.1f %%). One inside another kind of "
      "call (a convolution, "
      "say) is part of that call's total time too.",
      calls, HumanTime(gemm_ns), HumanTime(wall_share_ns), percent);
}

}  // namespace

absl::StatusOr<Table> GemmTable(const TraceModel& model, const PassOptions& options) {
  const RunTotals& totals = *options.totals;
  const std::vector<OpIndex> home = HomeOps(model, totals);
  std::map<Key, OpGroup> groups;
  int64_t gemm_ns = 0;
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const Op& op = model.ops[i];
    if (totals.ops[i].calls == 0 || op.is_creation || !IsMatrixProduct(op)) continue;
    groups[KeyOf(model.ops[home[i]])].Add(op, totals.ops[i], home[i] == i);
    gemm_ns += totals.ops[i].total_ns;
  }
  std::vector<const std::pair<const Key, OpGroup>*> order;
  for (const auto& group : groups) order.push_back(&group);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second.total_ns > b->second.total_ns;
  });

  Table table = NewTable("gemm", "Matrix products by shape", Columns());
  for (const auto* group : order) {
    table.rows.push_back(GroupRow(group->first, group->second, gemm_ns, model.wall_ns()));
  }
  if (!groups.empty()) table.notes.push_back(Note(groups, gemm_ns, model.wall_ns()));
  return table;
}

}  // namespace dlhook::analyzer
