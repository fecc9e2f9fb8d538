// Table `ops`: what was computed, one row for each problem and direction.
#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/tables/columns.h"
#include "analyzer/tables/gpu_call_times.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

using Key = std::tuple<std::string, std::string, std::string, std::string>;

Key KeyOf(const Op& op, const std::string& direction) { return {KindLabel(op), ProblemLabel(op), op.types, direction}; }

// What the library says of each op; where it says nothing, what the layers of all its calls say. Unknown: also several.
std::vector<std::string> DirectionsOf(const TraceModel& model, const Attribution& attribution) {
  constexpr auto kSeveral = static_cast<LayerDirection>(0xff);
  std::vector<LayerDirection> of_calls(model.ops.size(), LayerDirection::kUnknown);
  std::vector<bool> is_met(model.ops.size());
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const OpIndex op = model.calls.op[call];
    const LayerDirection direction = attribution.of_call[call].direction;
    of_calls[op] = is_met[op] && of_calls[op] != direction ? kSeveral : direction;
    is_met[op] = true;
  }
  std::vector<std::string> directions;
  for (OpIndex op = 0; op < model.ops.size(); ++op) {
    const bool is_told = model.ops[op].direction != Direction::kUnknown;
    const bool is_known = of_calls[op] != LayerDirection::kUnknown && of_calls[op] != kSeveral;
    directions.emplace_back(is_told    ? DirectionName(model.ops[op].direction)
                            : is_known ? LayerDirectionName(of_calls[op])
                                       : DirectionName(Direction::kUnknown));
  }
  return directions;
}

std::vector<Column> Columns() {
  return {
      As(Role::kKey, TextColumn("kind",
                                "What was computed; create: the library prepared a primitive for it; search: it "
                                "was asked for an algorithm; trial: an algorithm was only tried; capture: the call "
                                "was recorded into a CUDA graph.")),
      As(Role::kKey,
         TextColumn("direction", "Forward or backward, where the library says so, or the layers of all these calls.")),
      As(Role::kShape, TextColumn("problem", "Its size, as the library states it.")),
      CallsColumn("Calls, without those inside another call of the same kind."),
      WallShareColumn(),
      WallPercentColumn(),
      TotalTimeColumn(),
      MeanTimeColumn(),
      Detail(RateColumn()),
      As(Role::kChoice,
         Detail(TextColumn("types", "Data types of source, weights and destination; one where all are equal."))),
      Detail(IntegerColumn("self_time", "ns", Better::kLower, "Total time without calls inside of other kinds.")),
      Detail(IntegerColumn("min_time", "ns", Better::kLower, "Shortest call.")),
      Detail(IntegerColumn("max_time", "ns", Better::kLower, "Longest call.")),
      Detail(
          IntegerColumn("flops", "flops", Better::kNeither, "Floating-point operations of one call, by the formula.")),
      Detail(IntegerColumn("nested_calls", "", Better::kNeither,
                           "Calls inside another call of the same kind: the same work seen again.")),
      Detail(TextColumn("functions", "Functions or taps that the calls were seen through.")),
      As(Role::kChoice, Detail(TextColumn("families", "Libraries."))),
      As(Role::kChoice,
         Detail(TextColumn("implementations", "Kernels that the library chose; see the table algorithms."))),
  };
}

// What is booked in one row.
struct RowSums {
  OpGroup group;
  GpuOpTime gpu;
  std::string direction;
};

Row GroupRow(const Op& op, const std::string& direction, const OpGroup& group, int64_t wall_ns) {
  return {KindLabel(op),
          direction,
          ProblemLabel(op),
          group.calls,
          group.wall_share_ns,
          Percent(group.wall_share_ns, wall_ns),
          group.total_ns,
          Mean(group.total_ns, group.calls),
          group.flops_ns > 0 ? Cell(group.total_flops / static_cast<double>(group.flops_ns)) : Cell(),
          op.types,
          group.self_ns,
          group.min_ns,
          group.max_ns,
          OrUnknown(group.flops),
          group.nested_calls,
          Join(group.functions),
          Join(group.families),
          Join(group.implementations)};
}

Row UnattributedRow(const TraceModel& model, const RunTotals& totals, size_t columns) {
  Row row(columns);
  row[0] = std::string(kUnattributed);
  row[4] = totals.unattributed_ns;
  row[5] = Percent(totals.unattributed_ns, model.wall_ns());
  return row;
}

}  // namespace

absl::StatusOr<Table> OpsTable(const TraceModel& model, const TableOptions& options) {
  const RunTotals& totals = *options.totals;
  const std::vector<OpIndex> home = HomeOps(model, totals);
  const std::vector<GpuOpTime> gpu_times = GpuTimesOfOps(model, options);
  const std::vector<std::string> directions = DirectionsOf(model, options.analysis->attribution());
  std::map<Key, RowSums> groups;
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    if (totals.ops[i].calls == 0) continue;
    const auto [it, is_new] = groups.try_emplace(KeyOf(model.ops[home[i]], directions[home[i]]));
    if (is_new) {
      it->second.group.first = home[i];
      it->second.direction = directions[home[i]];
    }
    it->second.group.Add(model.ops[i], totals.ops[i], home[i] == i);
    it->second.gpu.Add(gpu_times[i]);
  }
  std::vector<const RowSums*> order;
  for (const auto& [key, rows] : groups) order.push_back(&rows);
  std::stable_sort(order.begin(), order.end(), [](const RowSums* a, const RowSums* b) {
    return std::tie(a->gpu.busy_ns, a->group.wall_share_ns, a->group.total_ns) >
           std::tie(b->gpu.busy_ns, b->group.wall_share_ns, b->group.total_ns);
  });

  Table table = NewTable("ops", "What was computed, by problem and direction", Columns());
  std::vector<GpuOpTime> gpu;
  for (const RowSums* rows : order) {
    table.rows.push_back(GroupRow(model.ops[rows->group.first], rows->direction, rows->group, model.wall_ns()));
    gpu.push_back(rows->gpu);
  }
  table.rows.push_back(UnattributedRow(model, totals, table.columns.size()));
  InsertGpuColumns(model, options, "calls", gpu, &table);
  return table;
}

}  // namespace dlhook::analyzer::tables
