// Table `layout`: tensors converted from one memory format to another.
#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/calls/call_context.h"
#include "analyzer/calls/consumers.h"
#include "analyzer/calls/tensor_class.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/calls/round_trips.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/layout_moves.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kNotKnown[] = "not known";

struct MoveTotals : Move, OpGroup {
  explicit MoveTotals(Move move) : Move(std::move(move)) {}
  std::optional<int64_t> bytes;
  int64_t round_trip_calls = 0;
  int64_t round_trip_ns = 0;
  std::map<std::string, int64_t> causes;  // calls by the op that causes them
};

using MoveMap = std::map<Move, MoveTotals>;

// "convolution forward (12), not known (3)", most calls first.
std::string CausesLabel(const std::map<std::string, int64_t>& causes) {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [cause, calls] : causes) order.emplace_back(-calls, cause);
  std::sort(order.begin(), order.end());
  return absl::StrJoin(order, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second, " (", -entry.first, ")");
  });
}

TypedColumns<MoveTotals> Columns(int64_t wall_ns) {
  return {
      {As(Role::kShape, TextColumn("dims", "Of the tensor moved; of a kernel, which does not state them, its name.")),
       &MoveTotals::dims},
      {As(Role::kKey,
          TextColumn("tensor",
                     "weights, bias or activations (gradients too): what ops of this run have such a tensor.")),
       &MoveTotals::tensor},
      {As(Role::kKey, TextColumn("from", "Memory format before.")), &MoveTotals::from},
      {As(Role::kKey, TextColumn("to", "Memory format after.")), &MoveTotals::to},
      {CallsColumn("Reorders, transforms, transposes; launches of conversion kernels."), &MoveTotals::calls},
      OpTotalTime(),
      {TextColumn("caused_by",
                  "On a GPU: the ops that these calls are charged to, with the number of calls: the "
                  "library call around it, else the next one that reads what was written."),
       [](const MoveTotals& totals) { return CausesLabel(totals.causes); }},
      OpWallPercent(wall_ns),
      {As(Role::kAmount, IntegerColumn("round_trip_calls", "", Better::kLower,
                                       "Of these calls, those that are one half of a round trip: moved away and back "
                                       "between two ops.")),
       &MoveTotals::round_trip_calls},
      {IntegerColumn("round_trip_time", "ns", Better::kLower, "Total time of those."), &MoveTotals::round_trip_ns},
      {IntegerColumn("bytes", "bytes", Better::kLower, "Read and written by one call."), &MoveTotals::bytes},
      {RealColumn("throughput", "GB/s", Better::kHigher, "Bytes of all calls over their total time."),
       [](const MoveTotals& totals) {
         return totals.has_rate ? Rate(totals.bytes, totals.calls, totals.total_ns) : Cell();
       }},
      OpMeanTime(),
      OpWallShare(),
      {TextColumn("change", "format, type, both, or copy where neither changes."), &MoveTotals::change},
      {As(Role::kKey, TextColumn("from_type", "Data type before.")), &MoveTotals::from_type},
      {As(Role::kKey, TextColumn("to_type", "Data type after.")), &MoveTotals::to_type},
      {As(Role::kChoice, TextColumn("implementations", "Kernels that the library chose.")),
       &MoveTotals::implementations},
  };
}

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
    calls += totals.calls;
    total_ns += totals.total_ns;
    share_ns += totals.wall_share_ns;
    trip_ns += totals.round_trip_ns;
  }
  const double percent = wall_ns > 0 ? 100.0 * static_cast<double>(share_ns) / static_cast<double>(wall_ns) : 0;
  table.notes.push_back(absl::StrFormat("%d reorders: %s thread time, %s wall share (%.1f %%).", calls,
                                        HumanTime(total_ns), HumanTime(share_ns), percent));
  table.notes.push_back(
      absl::StrFormat("%d round trips (a tensor moved away and back between two ops of the same "
                      "pass) took %s, both halves together.",
                      round_trips, HumanTime(trip_ns)));
}

// Books the calls of GPU libraries and conversion kernels. A kernel inside a call that is itself a move
// (cudnnTransformTensor) is another view of that move: its wall share is booked there.
class GpuMoves {
 public:
  GpuMoves(const TraceModel& model, const RunTotals& totals, std::vector<MoveTotals*>& of_op)
      : model_(model), totals_(totals), same_work_(model), of_op_(of_op), around_(model.ops.size(), kNone) {}

  void Book() {
    std::vector<bool> is_move(model_.ops.size());
    for (OpIndex op = 0; op < is_move.size(); ++op) is_move[op] = IsGpuMove(op);
    consumers_ = FindConsumers(model_, is_move);
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      if (IsGpuMove(model_.calls.op[call])) BookCall(call);
    }
    for (const AggregateRow& row : model_.aggregates) {
      const int64_t calls = row.count - row.nested_count;
      if (!IsGpuMove(row.op) || calls == 0) continue;
      Add(row.op, calls, row.sum_ns - row.nested_sum_ns, kNotKnown);
    }
    for (OpIndex op = 0; op < model_.ops.size(); ++op) {
      if (!IsGpuMove(op)) continue;
      MoveTotals* home = around_[op] == kNone ? of_op_[op] : of_op_[around_[op]];
      home->wall_share_ns += totals_.ops[op].wall_share_ns;
    }
  }

 private:
  bool IsGpuMove(OpIndex op) const { return of_op_[op] != nullptr && model_.ops[op].on_gpu; }

  void BookCall(CallIndex call) {
    const OpIndex op = model_.calls.op[call];
    if (same_work_.IsNested(call)) return;
    const CallIndex enclosing = EnclosingLibraryOp(model_, call);
    if (enclosing == kNone) return Add(op, 1, model_.calls.duration_ns[call], ConsumerOf(call));
    const OpIndex cause = model_.calls.op[enclosing];
    if (IsGpuMove(cause)) {
      around_[op] = cause;
    } else {
      Add(op, 1, model_.calls.duration_ns[call], KindAndDirection(model_.ops[cause]));
    }
  }

  std::string ConsumerOf(CallIndex call) const {
    const auto it = consumers_.find(call);
    if (it == consumers_.end()) return kNotKnown;
    return KindAndDirection(model_.ops[model_.calls.op[it->second]]);
  }

  void Add(OpIndex index, int64_t calls, int64_t ns, const std::string& cause) {
    const Op& op = model_.ops[index];
    MoveTotals& totals = *of_op_[index];
    totals.calls += calls;
    totals.total_ns += ns;
    totals.has_rate &= !op.is_asynchronous && !op.captured;
    totals.causes[cause] += calls;
    if (!op.implementation.empty()) totals.implementations.insert(op.implementation);
  }

  const TraceModel& model_;
  const RunTotals& totals_;
  const SameWork same_work_;
  std::vector<MoveTotals*>& of_op_;
  std::vector<OpIndex> around_;  // per op: the enclosing move, if any
  absl::flat_hash_map<CallIndex, CallIndex> consumers_;
};

}  // namespace

absl::StatusOr<Table> LayoutTable(const TraceModel& model, const TableOptions& options) {
  const RunTotals& totals = *options.totals;
  const TensorClasses classes(model, totals);
  MoveMap moves;
  std::vector<MoveTotals*> of_op(model.ops.size(), nullptr);
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const Op& op = model.ops[i];
    const std::optional<Move> move = MoveOf(op, classes);
    if (!move || totals.ops[i].calls == 0) continue;
    of_op[i] = &moves.try_emplace(*move, *move).first->second;
    of_op[i]->bytes = op.bytes;
    if (!op.on_gpu) of_op[i]->Add(op, totals.ops[i], /*at_home=*/true);
  }
  GpuMoves(model, totals, of_op).Book();
  const std::vector<RoundTrip> trips = FindRoundTrips(model);
  AddRoundTrips(model, trips, of_op);
  std::vector<const MoveTotals*> order;
  for (const auto& [move, of_move] : moves) {
    if (of_move.calls + of_move.nested_calls > 0) order.push_back(&of_move);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const MoveTotals* a, const MoveTotals* b) { return a->total_ns > b->total_ns; });

  Table table =
      NewTable("layout", "Tensors converted from one memory format to another", Columns(model.wall_ns()), order);
  if (!order.empty()) AddNotes(moves, trips.size(), model.wall_ns(), table);
  return table;
}

}  // namespace dlhook::analyzer::tables
