// Table `layout`: tensors moved from one memory format to another.
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/passes/columns.h"
#include "analyzer/passes/op_groups.h"
#include "analyzer/passes/pass.h"
#include "analyzer/passes/round_trips.h"
#include "analyzer/passes/tables.h"
#include "analyzer/passes/tensor_class.h"

namespace dlhook::analyzer {
namespace {

struct Move {
  std::string dims;
  std::string tensor;
  std::string change;
  std::string from, to;
  std::string from_type, to_type;
  auto operator<=>(const Move&) const = default;
};

struct MoveTotals {
  OpGroup group;
  std::optional<int64_t> bytes;
  int64_t round_trip_calls = 0;
  int64_t round_trip_ns = 0;
};

std::string FormatLabel(const Tensor& tensor) {
  return tensor.strides.empty() ? tensor.format
                                : absl::StrCat(tensor.format, "(", tensor.strides, ")");
}

const char* ChangeOf(const Tensor& from, const Tensor& to) {
  const bool format = FormatLabel(from) != FormatLabel(to);
  const bool type = from.type != to.type;
  if (format) return type ? "format and type" : "format";
  return type ? "type" : "copy";
}

Move MoveOf(const Op& op, const TensorClasses& classes) {
  Move move;
  move.dims = op.problem;
  move.tensor = classes.Of(op);
  const Tensor* from = nullptr;
  const Tensor* to = nullptr;
  for (const Tensor& tensor : op.tensors) {
    if (tensor.role == "src") from = &tensor;
    if (tensor.role == "dst") to = &tensor;
  }
  if (!from || !to) {
    move.change = "unknown";
    move.from = FormatsLabel(op);
    return move;
  }
  move.change = ChangeOf(*from, *to);
  move.from = FormatLabel(*from);
  move.to = FormatLabel(*to);
  move.from_type = from->type;
  move.to_type = to->type;
  return move;
}

std::vector<Column> Columns() {
  return {
      TextColumn("dims", "Of the tensor moved."),
      TextColumn(
          "tensor",
          "weights, bias or activations (gradients too): what ops of this run have such a tensor."),
      TextColumn("from", "Memory format before."),
      TextColumn("to", "Memory format after."),
      CallsColumn("Reorders."),
      TotalTimeColumn(),
      WallPercentColumn(),
      IntegerColumn("round_trip_calls", "", Better::kLower,
                    "Of these calls, those that are one half of a round trip: moved away and back "
                    "between two ops."),
      IntegerColumn("round_trip_time", "ns", Better::kLower, "Total time of those."),
      IntegerColumn("bytes", "bytes", Better::kLower, "Read and written by one call."),
      RealColumn("throughput", "GB/s", Better::kHigher,
                 "Bytes of all calls over their total time."),
      MeanTimeColumn(),
      WallShareColumn(),
      TextColumn("change", "format, type, both, or copy where neither changes."),
      TextColumn("from_type", "Data type before."),
      TextColumn("to_type", "Data type after."),
      TextColumn("implementations", "Kernels that the library chose."),
  };
}

Row MoveRow(const Move& move, const MoveTotals& totals, int64_t wall_ns) {
  const OpGroup& group = totals.group;
  return {move.dims,
          move.tensor,
          move.from,
          move.to,
          group.calls,
          group.total_ns,
          Percent(group.wall_share_ns, wall_ns),
          totals.round_trip_calls,
          totals.round_trip_ns,
          OrUnknown(totals.bytes),
          Rate(totals.bytes, group.calls, group.total_ns),
          Mean(group.total_ns, group.calls),
          group.wall_share_ns,
          move.change,
          move.from_type,
          move.to_type,
          Join(group.implementations)};
}

using MoveMap = std::map<Move, MoveTotals>;

void AddRoundTrips(const TraceModel& model, const std::vector<RoundTrip>& trips,
                   const std::vector<MoveTotals*>& of_op) {
  for (const RoundTrip& trip : trips) {
    for (CallIndex call : {trip.away, trip.back}) {
      MoveTotals* totals = of_op[model.calls.op[call]];
      ++totals->round_trip_calls;
      totals->round_trip_ns += model.calls.duration_ns[call];
    }
  }
}

void AddNotes(const MoveMap& moves, size_t round_trips, int64_t wall_ns, Table& table) {
  int64_t calls = 0, total_ns = 0, share_ns = 0, trip_ns = 0;
  for (const auto& [move, totals] : moves) {
    calls += totals.group.calls;
    total_ns += totals.group.total_ns;
    share_ns += totals.group.wall_share_ns;
    trip_ns += totals.round_trip_ns;
  }
  const double percent =
      wall_ns > 0 ? 100.0 * static_cast<double>(share_ns) / static_cast<double>(wall_ns) : 0;
  table.notes.push_back(absl::StrFormat("%d reorders: %s thread time, %s wall share (%.1f %%).",
                                        calls, HumanTime(total_ns), HumanTime(share_ns), percent));
  table.notes.push_back(
      absl::StrFormat("%d round trips (a tensor moved away and back between two ops of the same "
                      "pass) took %s, both halves together.",
                      round_trips, HumanTime(trip_ns)));
}

}  // namespace

absl::StatusOr<Table> LayoutTable(const TraceModel& model, const PassOptions& options) {
  const RunTotals& totals = *options.totals;
  const TensorClasses classes(model, totals);
  MoveMap moves;
  std::vector<MoveTotals*> of_op(model.ops.size(), nullptr);
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const Op& op = model.ops[i];
    if (op.kind != "reorder" || op.is_creation || totals.ops[i].calls == 0) continue;
    of_op[i] = &moves[MoveOf(op, classes)];
    of_op[i]->group.Add(op, totals.ops[i], /*at_home=*/true);
    of_op[i]->bytes = op.bytes;
  }
  const std::vector<RoundTrip> trips = FindRoundTrips(model);
  AddRoundTrips(model, trips, of_op);
  std::vector<const MoveMap::value_type*> order;
  for (const auto& move : moves) order.push_back(&move);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second.group.total_ns > b->second.group.total_ns;
  });

  Table table = NewTable("layout", "Tensors moved from one memory format to another", Columns());
  for (const auto* move : order)
    table.rows.push_back(MoveRow(move->first, move->second, model.wall_ns()));
  if (!moves.empty()) AddNotes(moves, trips.size(), model.wall_ns(), table);
  return table;
}

}  // namespace dlhook::analyzer
