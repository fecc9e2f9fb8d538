// Table `layout`: tensors converted from one memory format to another.

#include "absl/container/flat_hash_set.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/calls/tensor_class.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/calls/move_ends.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/time/counter_division.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kNotKnown[] = "not known";

// A row: conversions of one kind between the same two ops.
struct MoveRow : TensorMove {
  std::string written_by, read_by;  // empty: not known
  auto operator<=>(const MoveRow&) const = default;
};

struct MoveTotals : MoveRow, OpGroup {
  std::optional<int64_t> bytes;
  int64_t round_trip_calls = 0;
  int64_t round_trip_ns = 0;
  std::map<std::string, int64_t> causes;  // calls by the op that causes them
  std::map<OpIndex, int64_t> ns_of_op;
};

using MoveMap = std::map<MoveRow, MoveTotals>;

// "convolution forward (12), not known (3)", most calls first.
std::string CausesLabel(const std::map<std::string, int64_t>& causes) {
  return absl::StrJoin(LargestFirst(causes), ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first, " (", entry.second, ")");
  });
}

TypedColumns<MoveTotals> LayoutColumns(int64_t wall_ns) {
  TypedColumn<MoveTotals> wall_share = OpWallShare();
  absl::StrAppend(&wall_share.column.explanation,
                  " Rows of one conversion between different ops divide it by their total times.");
  return {
      {As(Role::kShape, TextColumn("dims")), "Of the tensor moved; not known of kernels, which do not state them.",
       Known(&MoveTotals::dims)},
      {As(Role::kKey, TextColumn("from")), "Memory format before.", &MoveTotals::from},
      {As(Role::kKey, TextColumn("to")), "Memory format after.", &MoveTotals::to},
      {As(Role::kKey, TextColumn("written_by")),
       "The op that left the tensor in the format before, with its layer. On a CPU the library call before this one, "
       "if a result of it has these dims and this format; of a round trip the one before its first half. On a GPU the "
       "call that wrote this address. Not known: for example the program's weights, or the result of an operator that "
       "calls no library.",
       Known(&MoveTotals::written_by)},
      {As(Role::kKey, TextColumn("read_by")),
       "The op that reads the tensor in the format after: the next library call, if it takes such a tensor; of a round "
       "trip the one after its second half. On a GPU the call that reads this address, or that begins with this "
       "kernel.",
       Known(&MoveTotals::read_by)},
      OpTotalTime(),
      {CallsColumn("Reorders, transforms, transposes; launches of conversion kernels."), &MoveTotals::calls},
      {TextColumn("caused_by"),
       "On a GPU: the ops that these calls are charged to, with the number of calls: the library call around it, else "
       "the next one that reads what was written.",
       [](const MoveTotals& totals) { return CausesLabel(totals.causes); }},
      OpWallPercent(wall_ns),
      {As(Role::kKey, TextColumn("tensor")),
       "weights, bias or activations (gradients too): what ops of this run have such a tensor.",
       [](const MoveTotals& move) { return TensorClassText(move.tensor); }},
      {As(Role::kAmount, IntegerColumn("round_trip_calls", "", Better::kLower)),
       "Of these calls, those that are one half of a round trip: converted and back between two ops.",
       &MoveTotals::round_trip_calls},
      {TimeColumn("round_trip_time"), "Total time of those.", &MoveTotals::round_trip_ns},
      {IntegerColumn("bytes", "bytes", Better::kLower), "Read and written by one call.", &MoveTotals::bytes},
      {RealColumn("throughput", "GB/s", Better::kHigher), "Bytes of all calls over their total time.",
       [](const MoveTotals& totals) {
         return totals.has_rate ? Rate(totals.bytes, totals.calls, totals.total_ns) : Cell();
       }},
      OpMeanTime(),
      wall_share,
      {TextColumn("change"), "format, type, both, or copy where neither changes.", &MoveTotals::change},
      {As(Role::kKey, TextColumn("from_type")), "Data type before.", &MoveTotals::from_type},
      {As(Role::kKey, TextColumn("to_type")), "Data type after.", &MoveTotals::to_type},
      {As(Role::kChoice, TextColumn("implementations")), "Kernels that the library chose.",
       &MoveTotals::implementations},
  };
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
  table.notes.push_back(absl::StrFormat(
      "%d round trips (a tensor converted and back between two ops of the same pass) took %s, both halves together.",
      round_trips, HumanTime(trip_ns)));
}

// The op at an end of a move, and its place in the network.
struct End {
  OpIndex op = kNone;  // kNone: not known
  Place place;
};

// Books the calls of ops that convert. A kernel inside a call that is itself a move (cudnnTransformTensor) is another
// view of that move: its wall share is booked there.
class Moves {
 public:
  Moves(const TraceModel& model, const TableOptions& options)
      : model_(model),
        analysis_(*options.analysis),
        totals_(*options.totals),
        places_(options.analysis->attribution().of_call),
        layers_(options.analysis->attribution().layers),
        same_work_(model),
        moves_(model.ops.size()),
        is_move_(model.ops.size()),
        home_(model.ops.size()) {
    std::set<std::string> models;
    for (const Layer& layer : layers_) models.insert(layer.model);
    models.erase("");
    for (Layer& layer : layers_) layer.model = models.size() == 1 ? "" : layer.model;
    const TensorClasses classes(model, totals_);
    for (OpIndex op = 0; op < moves_.size(); ++op) {
      if (totals_.ops[op].calls > 0) moves_[op] = MoveOf(model.ops[op], classes);
      is_move_[op] = moves_[op].has_value();
      home_[op] = op;
    }
  }

  void Book() {
    if (!absl::c_linear_search(is_move_, true)) return;  // finding steps takes time
    const std::vector<RoundTrip> trips = FindRoundTrips(model_, analysis_.steps());
    for (const RoundTrip& trip : trips) round_trip_calls_.insert({trip.away, trip.back});
    round_trips_ = trips.size();
    ends_ = FindMoveEnds(model_, analysis_.steps(), is_move_, trips);
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      if (is_move_[model_.calls.op[call]] && !same_work_.IsNested(call)) BookCall(call);
    }
    for (const AggregateRow& row : model_.aggregates) {
      const int64_t calls = row.count - row.nested_count;
      if (!is_move_[row.op] || calls == 0) continue;
      MoveTotals& totals = Add(row.op, {}, {}, calls, row.sum_ns - row.nested_sum_ns);
      if (model_.ops[row.op].on_gpu) totals.causes[kNotKnown] += calls;
    }
    DivideWallShares();
  }

  const MoveMap& rows() const { return rows_; }
  size_t round_trips() const { return round_trips_; }

 private:
  // The op that converts, and the ends.
  using RowId = std::tuple<OpIndex, OpIndex, LayerIndex, LayerDirection, OpIndex, LayerIndex, LayerDirection>;

  void BookCall(CallIndex call) {
    const OpIndex op = model_.calls.op[call];
    const CallIndex around = model_.ops[op].on_gpu ? EnclosingLibraryOp(model_, call) : kNone;
    if (around != kNone && is_move_[model_.calls.op[around]]) {
      home_[op] = model_.calls.op[around];
      return;
    }
    const auto found = ends_.find(call);
    const MoveEnds ends = found == ends_.end() ? MoveEnds{} : found->second;
    const int64_t ns = model_.calls.duration_ns[call];
    MoveTotals& totals = Add(op, EndOf(ends.written_by), EndOf(ends.read_by), 1, ns);
    if (round_trip_calls_.contains(call)) {
      ++totals.round_trip_calls;
      totals.round_trip_ns += ns;
    }
    if (!model_.ops[op].on_gpu) return;
    const CallIndex cause = around != kNone ? around : ends.read_by;
    ++totals.causes[cause == kNone ? kNotKnown : KindAndDirection(model_.ops[model_.calls.op[cause]])];
  }

  End EndOf(CallIndex call) const { return call == kNone ? End{} : End{model_.calls.op[call], places_[call]}; }

  // "conv2 backward-data"; "convolution backward-data" where the layer is not known.
  std::string LabelOf(const End& end) const {
    if (end.op == kNone) return "";
    const Op& op = model_.ops[end.op];
    if (end.place.layer == kNone) return KindAndDirection(op);
    std::string label = PlaceTitle(layers_, end.place);
    if (end.place.direction == LayerDirection::kUnknown && op.direction != Direction::kUnknown) {
      absl::StrAppend(&label, " ", DirectionName(op.direction));
    }
    return label;
  }

  MoveTotals& Add(OpIndex index, const End& writer, const End& reader, int64_t calls, int64_t ns) {
    MoveTotals*& row = row_of_[{index, writer.op, writer.place.layer, writer.place.direction, reader.op,
                                reader.place.layer, reader.place.direction}];
    const Op& op = model_.ops[index];
    if (row == nullptr) row = &GroupOf<MoveRow>({*moves_[index], LabelOf(writer), LabelOf(reader)}, rows_);
    row->calls += calls;
    row->total_ns += ns;
    row->bytes = op.bytes;
    row->has_rate &= !op.is_asynchronous && !op.captured;
    const std::string& implementation = op.launch() ? op.kernel_short : op.implementation;
    if (!implementation.empty()) row->implementations.insert(implementation);
    row->ns_of_op[index] += ns;
    return *row;
  }

  // The share of an op is exact; among its rows it is divided by their times.
  void DivideWallShares() {
    std::vector<int64_t> share_ns(moves_.size());
    for (OpIndex op = 0; op < home_.size(); ++op) {
      if (is_move_[op]) share_ns[home_[op]] += totals_.ops[op].wall_share_ns;
    }
    std::map<OpIndex, std::vector<MoveTotals*>> rows_of;
    for (auto& [key, row] : rows_) {
      for (const auto& [op, ns] : row.ns_of_op) rows_of[op].push_back(&row);
    }
    for (const auto& [op, rows] : rows_of) {
      double sum_ns = 0;
      for (const MoveTotals* row : rows) sum_ns += static_cast<double>(row->ns_of_op.at(op));
      std::vector<double> parts;
      for (const MoveTotals* row : rows) {
        const double part = sum_ns > 0 ? static_cast<double>(row->ns_of_op.at(op)) / sum_ns : 0;
        parts.push_back(part * static_cast<double>(share_ns[op]));
      }
      const std::vector<int64_t> rounded = RoundToSum(parts, share_ns[op]);
      for (size_t i = 0; i < rows.size(); ++i) rows[i]->wall_share_ns += rounded[i];
    }
  }

  const TraceModel& model_;
  const LayerAnalysis& analysis_;
  const RunTotals& totals_;
  const std::vector<Place>& places_;
  std::vector<Layer> layers_;  // a network that is the only one is not named
  const SameWork same_work_;
  std::vector<std::optional<TensorMove>> moves_;  // by op
  std::vector<bool> is_move_;                     // by op
  std::vector<OpIndex> home_;                     // by op: the move around it, if any
  absl::flat_hash_map<CallIndex, MoveEnds> ends_;
  absl::flat_hash_set<CallIndex> round_trip_calls_;
  size_t round_trips_ = 0;
  MoveMap rows_;
  absl::flat_hash_map<RowId, MoveTotals*> row_of_;
};

}  // namespace

absl::StatusOr<Table> LayoutTable(const TraceModel& model, const TableOptions& options) {
  Moves moves(model, options);
  moves.Book();
  const auto order = ByWeight(moves.rows(), &MoveTotals::total_ns);
  Table table =
      NewTable("layout", "Tensors converted from one memory format to another", LayoutColumns(model.wall_ns()), order);
  if (!order.empty()) AddNotes(moves.rows(), moves.round_trips(), model.wall_ns(), table);
  return table;
}

}  // namespace dlhook::analyzer::tables
