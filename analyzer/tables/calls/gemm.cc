// Table `gemm`: matrix products by shape, from BLAS and from oneDNN.
#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/calls/gemm_shape.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/gpu_call_times.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

// kind, shape (all -1: not known), types, direction.
using Key = std::tuple<std::string, GemmShape, std::string, Direction>;

Key KeyOf(const Op& op) {
  const GemmShape unknown = {-1, -1, -1, -1, "", ""};
  return {op.kind, GemmShapeOf(op).value_or(unknown), op.types, op.direction};
}

// A group of calls, and what cuBLAS and cuBLASLt say of them.
struct ProductGroup {
  OpGroup calls;
  GpuOpTime gpu;
  bool on_gpu = false;
  int64_t failed = 0;
  std::set<std::string> row_major, compute_types, math_modes, epilogues, tensor_cores;
};

void AddWord(const std::string& word, std::set<std::string>& words) {
  if (!word.empty()) words.insert(word);
}

void AddGpuWords(const Op& op, ProductGroup& group) {
  if (!op.on_gpu) return;
  group.on_gpu = true;
  AddWord(op.row_major_problem, group.row_major);
  AddWord(op.compute_type, group.compute_types);
  AddWord(op.math_mode, group.math_modes);
  AddWord(absl::StrJoin(op.post_ops, "+"), group.epilogues);
  if (op.tensor_core) AddWord(TensorCoreLabel(*op.tensor_core), group.tensor_cores);
}

using ProductMap = std::map<Key, ProductGroup>;

std::vector<Column> Columns() {
  return {
      As(Role::kKey, TextColumn("kind",
                                "BLAS, cuBLAS: gemm, gemv (n = 1), ger (k = 1) …; oneDNN: matmul, inner_product, "
                                "gemm_api; cuDNN: matmul.")),
      As(Role::kShape, IntegerColumn("m", "", Better::kNeither, "Rows of the result.")),
      As(Role::kShape, IntegerColumn("n", "", Better::kNeither, "Columns of the result.")),
      As(Role::kShape, IntegerColumn("k", "", Better::kNeither, "Length of the sums.")),
      As(Role::kShape, IntegerColumn("batch", "", Better::kNeither, "Products in one call.")),
      As(Role::kKey, TextColumn("trans", "A, B: N as it lies, T transposed, C conjugate, P packed.")),
      As(Role::kChoice, TextColumn("types", "Data types; one where all are equal.")),
      CallsColumn("Calls, without those inside another call of the same kind."),
      TotalTimeColumn(),
      RealColumn("gemm_percent", "%", Better::kNeither, "Total time as a part of all matrix products'."),
      RateColumn(),
      TextColumn("tensor_core",
                 "On a GPU: whether it may run on tensor cores, and why not: as the library notes, "
                 "else by the rules of its manual."),
      WallPercentColumn(),
      MeanTimeColumn(),
      WallShareColumn(),
      IntegerColumn("flops", "flops", Better::kNeither, "Floating-point operations of one call, by the formula."),
      TextColumn("order", "Order in which m and n are stated: col (BLAS) or row (cblas, oneDNN)."),
      Detail(TextColumn("row_major", "A column-major product as a row-major program means it: operands exchanged.")),
      Detail(TextColumn("compute_type", "In what it computes.")),
      Detail(TextColumn("math_mode", "What the program allows the library.")),
      Detail(TextColumn("epilogue", "Operations fused after the product.")),
      Detail(IntegerColumn("failed", "", Better::kLower,
                           "Of these calls, those that returned an error: they computed nothing. "
                           "Not known of BLAS.")),
      As(Role::kKey, TextColumn("direction", "Forward or backward, where the library says so.")),
      As(Role::kChoice, TextColumn("functions", "Functions or taps that the calls were seen through.")),
  };
}

Cell Size(int64_t value) { return value < 0 ? Cell() : Cell(value); }

Row GroupRow(const Key& key, const ProductGroup& product, int64_t gemm_ns, int64_t wall_ns) {
  const auto& [kind, shape, types, direction] = key;
  const OpGroup& group = product.calls;
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
          GroupRate(group),
          Join(product.tensor_cores),
          Percent(group.wall_share_ns, wall_ns),
          Mean(group.total_ns, group.calls),
          group.wall_share_ns,
          OrUnknown(group.flops),
          shape.order,
          Join(product.row_major),
          Join(product.compute_types),
          Join(product.math_modes),
          Join(product.epilogues),
          product.on_gpu ? Cell(product.failed) : Cell(),
          std::string(DirectionName(direction)),
          Join(group.functions)};
}

std::string Note(const ProductMap& groups, int64_t gemm_ns, int64_t wall_ns) {
  int64_t calls = 0;
  int64_t wall_share_ns = 0;
  for (const auto& [key, group] : groups) {
    calls += group.calls.calls;
    wall_share_ns += group.calls.wall_share_ns;
  }
  const double percent = wall_ns > 0 ? 100.0 * static_cast<double>(wall_share_ns) / static_cast<double>(wall_ns) : 0;
  return absl::StrFormat(
      "%d matrix products: %s thread time, %s wall share (%.1f %%). One inside another kind of "
      "call (a convolution, "
      "say) is part of that call's total time too.",
      calls, HumanTime(gemm_ns), HumanTime(wall_share_ns), percent);
}

bool IsProduct(const Op& op) { return !op.is_creation && !op.is_trial && IsMatrixProduct(op); }

// A captured one computes nothing: it becomes a part of a CUDA graph, whose launches have GPU time.
bool IsListed(const Op& op) { return IsProduct(op) && !op.captured; }

}  // namespace

absl::StatusOr<Table> GemmTable(const TraceModel& model, const TableOptions& options) {
  const RunTotals& totals = *options.totals;
  const std::vector<OpIndex> home = HomeOps(model, totals);
  const std::vector<GpuOpTime> gpu_times = GpuTimesOfOps(model, options);
  ProductMap groups;
  int64_t gemm_ns = 0;
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const Op& op = model.ops[i];
    if (totals.ops[i].calls == 0 || !IsProduct(op)) continue;
    if (op.captured) {
      if (gpu_times[i].activities > 0) groups[KeyOf(op)].gpu.Add(gpu_times[i]);
      continue;
    }
    ProductGroup& group = groups[KeyOf(model.ops[home[i]])];
    group.calls.Add(op, totals.ops[i], home[i] == i);
    AddGpuWords(op, group);
    group.gpu.Add(gpu_times[i]);
    gemm_ns += totals.ops[i].total_ns;
  }
  const SameWork same_work(model);
  for (const FailedCall& failed : model.failed_calls) {
    const Op& op = model.ops[model.calls.op[failed.call]];
    if (IsListed(op) && !same_work.IsNested(failed.call)) ++groups[KeyOf(op)].failed;
  }
  std::vector<const ProductMap::value_type*> order;
  for (const auto& group : groups) order.push_back(&group);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tie(a->second.gpu.busy_ns, a->second.calls.total_ns) >
           std::tie(b->second.gpu.busy_ns, b->second.calls.total_ns);
  });

  Table table = NewTable("gemm", "Matrix products by shape", Columns());
  std::vector<GpuOpTime> gpu;
  for (const auto* group : order) {
    table.rows.push_back(GroupRow(group->first, group->second, gemm_ns, model.wall_ns()));
    gpu.push_back(group->second.gpu);
  }
  InsertGpuColumns(model, options, "calls", gpu, &table);
  if (!groups.empty()) table.notes.push_back(Note(groups, gemm_ns, model.wall_ns()));
  return table;
}

}  // namespace dlhook::analyzer::tables
