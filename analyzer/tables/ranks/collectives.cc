// Table `collectives`: communication between ranks: calls of NCCL and MPI, ranges of Gloo and UCC.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/calls/collective_ranges.h"
#include "analyzer/gpu/gpu_busy.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/gpu_call_times.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

// family, kind, communicator, ranks in it, bytes, data type, reduction. A communicator's number is
// one of its process: data-parallel processes number theirs alike, and stand in one row.
using Key = std::tuple<std::string, trace::Collective::Kind, uint64_t, int32_t, uint64_t, trace::DataType, int32_t>;

struct CollectiveGroup {
  OpGroup ops;
  GpuOpTime gpu;
  int64_t failed = 0;
  bool is_asynchronous = false;
  std::set<int32_t> ranks;
  std::set<int32_t> peers;
};

Key KeyOf(const Op& op) {
  const trace::Collective& collective = op.definition.collective();
  return {op.family,          collective.kind(),      collective.communicator(), collective.ranks(),
          collective.bytes(), collective.data_type(), collective.reduction()};
}

std::string Words(const std::string& enumerator) {
  std::string words = absl::AsciiStrToLower(enumerator);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

// ncclRedOp_t; MPI's operations are handles that tell nothing.
std::string ReductionName(int32_t reduction) {
  constexpr const char* kNames[] = {"sum", "product", "max", "min", "average"};
  if (reduction < 0) return "";
  if (reduction < static_cast<int32_t>(std::size(kNames))) return kNames[reduction];
  return absl::StrCat("custom ", reduction);
}

std::string TypeLabel(trace::DataType type) {
  return type == trace::DATA_TYPE_UNKNOWN ? "" : Words(trace::DataType_Name(type));
}

std::vector<Column> Columns() {
  return {
      As(Role::kKey, TextColumn("kind", "What is done.")),
      As(Role::kKey,
         IntegerColumn("communicator", "", Better::kNeither, "Its number in each process, in the order of first use.")),
      As(Role::kChoice, IntegerColumn("ranks", "", Better::kNeither, "Processes in the communicator.")),
      As(Role::kShape, IntegerColumn("size", "bytes", Better::kNeither,
                                     "Bytes that the caller contributes to one call (receives, where it only "
                                     "receives).")),
      As(Role::kChoice, TextColumn("type", "Data type of the elements.")),
      As(Role::kKey, TextColumn("reduction", "How elements are combined.")),
      CallsColumn("Calls of all ranks of this run."),
      As(Role::kAmount, IntegerColumn("bytes", "bytes", Better::kLower, "Of all these calls.")),
      TotalTimeColumn(),
      RealColumn("rate", "GB/s", Better::kHigher,
                 "Bytes over time of blocking calls, waiting for the others included. Others: not "
                 "known."),
      WallPercentColumn(),
      MeanTimeColumn(),
      IntegerColumn("failed", "", Better::kLower, "Calls that returned an error."),
      TextColumn("callers", "Ranks that called, where known."),
      TextColumn("peers", "Roots or partners, where there are any."),
      TextColumn(
          "functions",
          "Functions called; ranges of torch.distributed's backend (gloo:all_reduce), of which sizes are not known."),
      WallShareColumn(),
  };
}

std::string JoinNumbers(const std::set<int32_t>& numbers) { return absl::StrJoin(numbers, ","); }

// Of ranges neither size nor communicator is known, and shares of wall time are those of calls.
void AddRanges(const TraceModel& model, Table* table) {
  const std::vector<bool> is_collective = CollectiveNames(model);
  std::map<NameIndex, CollectiveGroup> groups;
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    const NameIndex name = model.scopes.name[scope];
    if (!is_collective[name]) continue;
    CollectiveGroup& group = groups[name];
    ++group.ops.calls;
    group.ops.total_ns += model.scopes.duration_ns[scope];
    int32_t rank = 0;
    if (absl::SimpleAtoi(RankOf(model, model.threads[model.scopes.thread[scope]].process), &rank))
      group.ranks.insert(rank);
  }
  for (const auto& [name, group] : groups) {
    Row row(table->columns.size());
    const auto set = [&](const char* column, Cell cell) {
      for (size_t i = 0; i < row.size(); ++i) {
        if (table->columns[i].name == column) row[i] = cell;
      }
    };
    set("kind", Words(trace::Collective::Kind_Name(*CollectiveOf(model.names[name]))));
    set("calls", group.ops.calls);
    set("total_time", group.ops.total_ns);
    set("mean_time", Mean(group.ops.total_ns, group.ops.calls));
    set("callers", JoinNumbers(group.ranks));
    set("functions", model.names[name]);
    table->rows.push_back(std::move(row));
  }
}

Row GroupRow(const Key& key, const CollectiveGroup& group, int64_t wall_ns) {
  const auto& [family, kind, communicator, ranks, size, type, reduction] = key;
  const OpGroup& ops = group.ops;
  const auto bytes = static_cast<int64_t>(size);
  // 0: the type was not understood; a barrier has none.
  const bool known = bytes > 0 || kind == trace::Collective::BARRIER;
  return {Words(trace::Collective::Kind_Name(kind)),
          communicator == 0 ? Cell() : Cell(static_cast<int64_t>(communicator)),
          ranks <= 0 ? Cell() : Cell(int64_t{ranks}),
          known ? Cell(bytes) : Cell(),
          TypeLabel(type),
          ReductionName(reduction),
          ops.calls,
          known ? Cell(bytes * ops.calls) : Cell(),
          ops.total_ns,
          group.is_asynchronous || bytes == 0 ? Cell() : Rate(bytes, ops.calls, ops.total_ns),
          Percent(ops.wall_share_ns, wall_ns),
          Mean(ops.total_ns, ops.calls),
          group.failed,
          JoinNumbers(group.ranks),
          JoinNumbers(group.peers),
          Join(ops.functions),
          ops.wall_share_ns};
}

using CollectiveMap = std::map<Key, CollectiveGroup>;

// What the slowest link moves for each byte of NCCL's count, by the best algorithm: nccl-tests, doc/PERFORMANCE.md
// ("bus bandwidth"), which states it for the bytes of all ranks together where the count is one rank's part (gather,
// scatter, all-to-all).
double BusBytes(const Key& key) {
  const auto ranks = static_cast<double>(std::get<3>(key));
  switch (std::get<1>(key)) {
    case trace::Collective::ALL_REDUCE:
      return 2 * (ranks - 1) / ranks;
    case trace::Collective::ALL_GATHER:
    case trace::Collective::REDUCE_SCATTER:
    case trace::Collective::ALL_TO_ALL:
      return ranks - 1;
    case trace::Collective::BROADCAST:
    case trace::Collective::REDUCE:
    case trace::Collective::SEND:
    case trace::Collective::RECEIVE:
      return 1;
    default:
      return 0;
  }
}

std::vector<Column> GpuColumns() {
  return {IntegerColumn("gpu_time", "ns", Better::kLower,
                        "Durations of what GPUs did for these calls on all ranks: it also waits for the other ranks "
                        "there."),
          RealColumn("gpu_rate", "GB/s", Better::kHigher, "Bytes over GPU time."),
          RealColumn("bus_rate", "GB/s", Better::kHigher,
                     "What the links move by GPU time: gpu_rate times what the best algorithm moves for each byte, as "
                     "nccl-tests has it.")};
}

Row GpuCells(const Key& key, const CollectiveGroup& group) {
  const GpuOpTime& gpu = group.gpu;
  if (gpu.activities == 0) return Row(3);
  const double bytes = static_cast<double>(std::get<4>(key)) * static_cast<double>(gpu.executions);
  if (bytes <= 0 || gpu.busy_ns == 0) return {gpu.busy_ns, Cell(), Cell()};
  const double rate = bytes / static_cast<double>(gpu.busy_ns);
  const bool has_bus = std::get<3>(key) > 1 && BusBytes(key) > 0;
  return {gpu.busy_ns, rate, has_bus ? Cell(rate * BusBytes(key)) : Cell()};
}

constexpr size_t kGpuColumnsAt = 8;

CollectiveMap Collect(const TraceModel& model, const TableOptions& options) {
  const RunTotals& totals = *options.totals;
  CollectiveMap groups;
  const std::vector<OpIndex> home = HomeOps(model, totals);
  const std::vector<GpuOpTime> gpu_times = GpuTimesOfOps(model, options);
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const Op& op = model.ops[i];
    if (!op.definition.has_collective() || totals.ops[i].calls == 0) continue;
    CollectiveGroup& group = groups[KeyOf(model.ops[home[i]])];
    group.ops.Add(op, totals.ops[i], home[i] == i);
    group.gpu.Add(gpu_times[i]);
    if (home[i] != i) continue;
    const trace::Collective& collective = op.definition.collective();
    group.is_asynchronous |= op.is_asynchronous;
    if (collective.rank() >= 0) group.ranks.insert(collective.rank());
    if (collective.peer() >= 0) group.peers.insert(collective.peer());
  }
  const SameWork same_work(model);
  for (const FailedCall& failed : model.failed_calls) {
    const Op& op = model.ops[model.calls.op[failed.call]];
    if (op.definition.has_collective() && !same_work.IsNested(failed.call)) {
      ++groups[KeyOf(op)].failed;
    }
  }
  return groups;
}

}  // namespace

absl::StatusOr<Table> CollectivesTable(const TraceModel& model, const TableOptions& options) {
  const CollectiveMap groups = Collect(model, options);
  const bool has_gpu = GpuTimesOf(model, options) != GpuTimes::kNone;
  std::vector<const CollectiveMap::value_type*> order;
  for (const auto& group : groups) order.push_back(&group);
  const auto bytes = [](const auto* group) {
    return static_cast<int64_t>(std::get<4>(group->first)) * group->second.ops.calls;
  };
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
    return std::make_pair(bytes(a), a->second.ops.calls) > std::make_pair(bytes(b), b->second.ops.calls);
  });
  Table table = NewTable("collectives", "Communication between ranks", Columns());
  for (const auto* group : order) {
    table.rows.push_back(GroupRow(group->first, group->second, model.wall_ns()));
    if (!has_gpu) continue;
    const Row gpu = GpuCells(group->first, group->second);
    table.rows.back().insert(table.rows.back().begin() + kGpuColumnsAt, gpu.begin(), gpu.end());
  }
  if (has_gpu) {
    const std::vector<Column> gpu = GpuColumns();
    table.columns.insert(table.columns.begin() + kGpuColumnsAt, gpu.begin(), gpu.end());
  }
  AddRanges(model, &table);
  return table;
}

}  // namespace dlhook::analyzer::tables
