// Table `ops`: what was computed, one row per problem and direction.

#include "analyzer/tables/columns.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline tables {
namespace {

using OpsKey = std::tuple<std::string, std::string, std::string, std::string>;  // kind, problem, types, direction

// The direction that the library reports for each op; otherwise that of the layers of all its calls. Not known if they
// differ.
std::vector<std::string> DirectionsOf(const TraceModel& model, const Attribution& attribution) {
  std::vector<std::set<LayerDirection>> of_calls(model.ops.size());
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    of_calls[model.calls.op[call]].insert(attribution.of_call[call].direction);
  }
  std::vector<std::string> directions;
  for (OpIndex op = 0; op < model.ops.size(); ++op) {
    const bool is_known = model.ops[op].direction == Direction::kUnknown && of_calls[op].size() == 1 &&
                          !of_calls[op].contains(LayerDirection::kUnknown);
    directions.emplace_back(is_known ? LayerDirectionName(*of_calls[op].begin())
                                     : DirectionName(model.ops[op].direction));
  }
  return directions;
}

// The sums of one row.
struct RowSums : OpGroup {
  const Op* op = nullptr;  // any of them, for what they have in common
  std::string direction;
};

TypedColumns<RowSums> OpsColumns(int64_t wall_ns) {
  return {
      {As(Role::kKey, TextColumn("kind")),
       "What was computed; create: the library prepared a primitive for it; search: it was asked for an algorithm; "
       "trial: an algorithm was only tried; capture: the call was recorded into a CUDA graph.",
       [](const RowSums& row) { return KindLabel(*row.op); }},
      {As(Role::kKey, TextColumn("direction")),
       "Forward or backward, where the library says so, or the layers of all these calls.", &RowSums::direction},
      {As(Role::kShape, TextColumn("problem")), "Its size, as the library states it.",
       [](const RowSums& row) { return ProblemLabel(*row.op); }},
      {CallsColumn("Calls, without those inside another call of the same kind."), &RowSums::calls},
      OpWallShare(),
      OpWallPercent(wall_ns),
      OpTotalTime(),
      OpMeanTime(),
      {Detail(RateColumn()),
       [](const RowSums& row) {
         return row.flops_ns > 0 ? Cell(row.total_flops / static_cast<double>(row.flops_ns)) : Cell();
       }},
      {As(Role::kChoice, Detail(TextColumn("types"))),
       "Data types of source, weights and destination; one where all are equal.",
       [](const RowSums& row) { return row.op->types; }},
      {Detail(TimeColumn("self_time")), "Total time without calls inside of other kinds.", &RowSums::self_ns},
      {Detail(TimeColumn("min_time")), "Shortest call.", &RowSums::min_ns},
      {Detail(TimeColumn("max_time")), "Longest call.", &RowSums::max_ns},
      Detail(OpFlops()),
      {Detail(NumberColumn("nested_calls")), "Calls inside another call of the same kind: the same work seen again.",
       &RowSums::nested_calls},
      Detail(OpFunctions()),
      {As(Role::kChoice, Detail(TextColumn("families"))), "Libraries.", &RowSums::families},
      {As(Role::kChoice, Detail(TextColumn("implementations"))),
       "Kernels that the library chose; see the table algorithms.", &RowSums::implementations},
  };
}

}  // namespace

absl::StatusOr<Table> OpsTable(const TraceModel& model, const TableOptions& options) {
  const RunTotals& totals = *options.totals;
  const std::vector<std::string> directions = DirectionsOf(model, options.analysis->attribution());
  std::map<OpsKey, RowSums> groups;
  for (const CalledOp& called : CalledOps(model, options)) {
    const Op& home = model.ops[called.home];
    RowSums& row = groups[{KindLabel(home), ProblemLabel(home), home.types, directions[called.home]}];
    if (row.op == nullptr) row.op = &home;
    row.direction = directions[called.home];
    row.Add(called, options.peaks);
  }
  const auto order = ByWeight(
      groups, [](const RowSums& sums) { return std::tie(sums.gpu.busy_ns, sums.wall_share_ns, sums.total_ns); });
  TypedColumns<RowSums> columns = OpsColumns(model.wall_ns());
  InsertGpuTimes(model, options, &columns);
  InsertBounds(options, &columns);
  Table table = NewTable("ops", "What was computed, by problem and direction", columns, order);
  AddRow({{"kind", kUnattributed},
          {"wall_share", totals.unattributed_ns},
          {"wall_percent", Percent(totals.unattributed_ns, model.wall_ns())}},
         &table);
  AddBoundNotes(options, &table);
  return table;
}

}  // namespace dlhook::analyzer::tables
