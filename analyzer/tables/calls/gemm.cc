// Table `gemm`: matrix products by shape, from BLAS and oneDNN.

#include "analyzer/model/gemm_shape.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/op_groups.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct GemmKey {
  std::string kind;
  MatmulShape shape;  // all -1: not known
  std::string types;
  Direction direction = Direction::kUnknown;
  auto operator<=>(const GemmKey&) const = default;
};

GemmKey GemmKeyOf(const Op& op) {
  const MatmulShape unknown = {-1, -1, -1, -1, "", ""};
  return {op.kind, MatmulShapeOf(op).value_or(unknown), op.types, op.direction};
}

// A group of calls, and what cuBLAS and cuBLASLt report about them.
struct Product : GemmKey, OpGroup {
  bool on_gpu = false;
  int64_t failed = 0;
  std::set<std::string> row_major, compute_types, math_modes, epilogues, tensor_cores;
};

void AddGpuWords(const Op& op, Product& group) {
  if (!op.on_gpu) return;
  group.on_gpu = true;
  AddWord(op.row_major_problem, group.row_major);
  AddWord(op.compute_type, group.compute_types);
  AddWord(op.math_mode, group.math_modes);
  AddWord(absl::StrJoin(op.post_ops, "+"), group.epilogues);
  if (op.tensor_core) AddWord(TensorCoreLabel(*op.tensor_core), group.tensor_cores);
}

using ProductMap = std::map<GemmKey, Product>;

Product& ProductOf(const Op& op, ProductMap& products) { return GroupOf(GemmKeyOf(op), products); }

TypedColumn<Product> SizeColumn(std::string name, std::string explanation, int64_t MatmulShape::*size) {
  return {As(Role::kShape, NumberColumn(std::move(name), std::move(explanation))), [size](const Product& product) {
            const int64_t value = product.shape.*size;
            return value < 0 ? Cell() : Cell(value);
          }};
}

TypedColumns<Product> GemmColumns(int64_t gemm_ns, int64_t wall_ns) {
  return {
      {As(Role::kKey, TextColumn("kind")),
       "BLAS, cuBLAS: gemm, gemv (n = 1), ger (k = 1) …; oneDNN: matmul, inner_product, gemm_api; cuDNN: matmul.",
       &Product::kind},
      SizeColumn("m", "Rows of the result.", &MatmulShape::m),
      SizeColumn("n", "Columns of the result.", &MatmulShape::n),
      SizeColumn("k", "Length of the sums.", &MatmulShape::k),
      SizeColumn("batch", "Products in one call.", &MatmulShape::batch),
      {As(Role::kKey, TextColumn("trans")), "A, B: N as it lies, T transposed, C conjugate, P packed.",
       [](const Product& product) { return product.shape.trans; }},
      {As(Role::kChoice, TextColumn("types")),
       "Data types; one where all are equal. After a slash: how cuBLASLt scales the matrix (mxfp8, nvfp4, outer: by "
       "row or column, 1x128 and 128x128: by block).",
       &Product::types},
      {CallsColumn("Calls, without those inside another call of the same kind."), &Product::calls},
      OpTotalTime(),
      {PercentColumn("gemm_percent", Better::kNeither), "Total time as a part of all matrix products'.",
       [gemm_ns](const Product& product) { return Percent(product.total_ns, gemm_ns); }},
      OpRate(),
      {TextColumn("tensor_core"),
       "On a GPU: whether it may run on tensor cores, and why not: as the library notes, else by the rules of its "
       "manual.",
       &Product::tensor_cores},
      OpWallPercent(wall_ns),
      OpMeanTime(),
      OpWallShare(),
      OpFlops(),
      {TextColumn("order"), "Order in which m and n are stated: col (BLAS) or row (cblas, oneDNN).",
       [](const Product& product) { return product.shape.order; }},
      {Detail(TextColumn("row_major")), "A column-major product as a row-major program means it: operands exchanged.",
       &Product::row_major},
      {Detail(TextColumn("compute_type")), "Type in which it computes.", &Product::compute_types},
      {Detail(TextColumn("math_mode")), "Math mode that the program allows.", &Product::math_modes},
      {Detail(TextColumn("epilogue")), "Operations fused after the product.", &Product::epilogues},
      {Detail(IntegerColumn("failed", "", Better::kLower)),
       "Of these calls, those that returned an error: they computed nothing. Not known of BLAS.",
       [](const Product& product) { return product.on_gpu ? Cell(product.failed) : Cell(); }},
      {As(Role::kKey, TextColumn("direction")), "Forward or backward, where the library says so.",
       [](const Product& product) { return std::string(DirectionName(product.direction)); }},
      As(Role::kChoice, OpFunctions()),
  };
}

std::string Note(const ProductMap& groups, int64_t gemm_ns, int64_t wall_ns) {
  int64_t calls = 0;
  int64_t wall_share_ns = 0;
  for (const auto& [key, group] : groups) {
    calls += group.calls;
    wall_share_ns += group.wall_share_ns;
  }
  const double percent = wall_ns > 0 ? 100.0 * static_cast<double>(wall_share_ns) / static_cast<double>(wall_ns) : 0;
  return absl::StrFormat(
      "%d matrix products: %s thread time, %s wall share (%.1f %%). One inside another kind of call (a convolution, "
      "say) is part of that call's total time too.",
      calls, HumanTime(gemm_ns), HumanTime(wall_share_ns), percent);
}

bool IsProduct(const Op& op) { return !op.is_creation && !op.is_trial && IsMatrixProduct(op); }

}  // namespace

absl::StatusOr<Table> GemmTable(const TraceModel& model, const TableOptions& options) {
  ProductMap groups;
  int64_t gemm_ns = 0;
  for (const CalledOp& called : CalledOps(model, options)) {
    const Op& op = called.op;
    if (!IsProduct(op)) continue;
    if (op.captured) {  // computes nothing: it becomes part of a CUDA graph, whose launches have the GPU time
      if (called.gpu.activities > 0) ProductOf(op, groups).gpu.Add(called.gpu);
      continue;
    }
    Product& group = ProductOf(model.ops[called.home], groups);
    group.Add(called, options.peaks);
    AddGpuWords(op, group);
    gemm_ns += called.totals.total_ns;
  }
  const SameWork same_work(model);
  for (const FailedCall& failed : model.failed_calls) {
    const Op& op = model.ops[model.calls.op[failed.call]];
    if (IsProduct(op) && !op.captured && !same_work.IsNested(failed.call)) ++ProductOf(op, groups).failed;
  }
  const auto order =
      ByWeight(groups, [](const Product& product) { return std::tie(product.gpu.busy_ns, product.total_ns); });
  TypedColumns<Product> columns = GemmColumns(gemm_ns, model.wall_ns());
  InsertGpuTimes(model, options, &columns);
  InsertBounds(options, &columns);
  Table table = NewTable("gemm", "Matrix products by shape", columns, order);
  if (!groups.empty()) table.notes.push_back(Note(groups, gemm_ns, model.wall_ns()));
  SayWhyNone(model, "shapes", &table);
  AddBoundNotes(options, &table);
  return table;
}

}  // namespace dlhook::analyzer::tables
