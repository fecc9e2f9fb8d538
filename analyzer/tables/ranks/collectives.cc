// Table `collectives`: communication between ranks: NCCL and MPI calls, Gloo and UCC ranges.

#include "analyzer/calls/scope_names.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/model/same_work.h"
#include "analyzer/model/scope_looks.h"
#include "analyzer/steps/measured_steps.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/tables/ranks/collective_arrivals.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline tables {
namespace {

// Communicators are numbered per process: data-parallel processes use the same numbers and share a row.
struct Key {
  std::string family;
  CollectiveKind kind = CollectiveKind::kUnknown;
  uint64_t communicator = 0;
  int32_t members = 0;  // of the communicator
  uint64_t size = 0;    // bytes
  DataType type = DataType::kUnknown;
  int32_t reduction = 0;
  auto operator<=>(const Key&) const = default;
};

struct CollectiveGroup : Key, OpGroup {
  int64_t failed = 0;
  bool is_asynchronous = false;
  std::set<int32_t> ranks;
  std::set<int32_t> peers;
  std::vector<int64_t> skews_ns;  // of each operation that could be matched between ranks

  int64_t bytes() const { return static_cast<int64_t>(size); }
  // 0 bytes: the type is not known; a barrier has no bytes.
  bool KnowsSize() const { return bytes() > 0 || kind == CollectiveKind::kBarrier; }
  // GB/s; unknown if the size or the time is.
  std::optional<double> GpuRate() const {
    const double moved = static_cast<double>(size) * static_cast<double>(gpu.executions);
    if (gpu.activities == 0 || moved <= 0 || gpu.busy_ns == 0) return std::nullopt;
    return moved / static_cast<double>(gpu.busy_ns);
  }
};

using CollectiveMap = std::map<Key, CollectiveGroup>;

Key KeyOf(const Op& op) {
  const CollectiveCall& collective = *op.collective();
  return {op.family,        collective.kind,      collective.communicator, collective.ranks,
          collective.bytes, collective.data_type, collective.reduction};
}

CollectiveGroup& GroupOf(const Op& op, CollectiveMap& groups) { return GroupOf(KeyOf(op), groups); }

std::string Words(std::string words) {
  absl::c_replace(words, '_', ' ');
  return words;
}

// ncclRedOp_t; MPI's operations are opaque handles.
std::string ReductionName(int32_t reduction) {
  constexpr const char* kNames[] = {"sum", "product", "max", "min", "average"};
  if (reduction < 0) return "";
  if (reduction < static_cast<int32_t>(std::size(kNames))) return kNames[reduction];
  return absl::StrCat("custom ", reduction);
}

std::string TypeLabel(DataType type) { return type == DataType::kUnknown ? "" : Words(EnumName(type)); }
std::string JoinNumbers(const std::set<int32_t>& numbers) { return absl::StrJoin(numbers, ","); }

struct RangeGroup {
  int64_t calls = 0;
  int64_t total_ns = 0;
  std::set<int32_t> ranks;
};

// Ranges have no communicator, and only calls have a wall share.
void AddRanges(const TraceModel& model, Table* table) {
  const std::vector<bool> is_collective = CollectiveNames(model);
  std::map<RangeKind, RangeGroup> groups;
  const auto is_range = [&](const ScopeLook& look) { return is_collective[look.name]; };
  ForEachScopeThat(model.scopes, is_range, [&](ScopeIndex scope) {
    RangeGroup& group = groups[RangeKindOf(model, scope)];
    ++group.calls;
    group.total_ns += model.scopes.duration_ns[scope];
    int32_t rank = 0;
    if (absl::SimpleAtoi(RankOf(model.processes[model.threads[model.scopes.thread[scope]].process]), &rank))
      group.ranks.insert(rank);
  });
  for (const auto& [range, group] : groups) {
    const auto bytes = [&](int64_t times) { return range.bytes < 0 ? Cell() : Cell(range.bytes * times); };
    AddRow({{"kind", Words(EnumName(*CollectiveOf(range.name)))},
            {"size", bytes(1)},
            {"calls", group.calls},
            {"bytes", bytes(group.calls)},
            {"total_time", group.total_ns},
            {"mean_time", Mean(group.total_ns, group.calls)},
            {"callers", JoinNumbers(group.ranks)},
            {"functions", range.name}},
           table);
  }
}

// Gradients are reduced while the backward pass runs: what is left at its end is hidden by nothing. A backend's thread may begin
// later what the pass asked for.
void AddReductions(const TraceModel& model, const std::vector<StepTrack>& tracks, Table* table) {
  std::map<ProcessIndex, std::vector<ScopeIndex>> reductions;
  for (const auto& [range, members] : FindCollectiveRanges(model)) {
    const CollectiveKind kind = *CollectiveOf(range.name);
    if (kind != CollectiveKind::kAllReduce && kind != CollectiveKind::kReduceScatter) continue;
    for (const CollectiveMember& member : members) {
      std::vector<ScopeIndex>& of = reductions[member.process];
      of.insert(of.end(), member.ranges.begin(), member.ranges.end());
    }
  }
  struct Sums {
    int64_t steps = 0, step_ns = 0, after_ns = 0, count = 0, bytes = 0, last_bytes = 0;
    double Part() const { return static_cast<double>(after_ns) / static_cast<double>(step_ns); }
  };
  std::optional<Sums> least;  // of the rank that waits least for others
  for (const StepTrack& track : tracks) {
    if (!reductions.contains(track.process)) continue;
    std::vector<ScopeIndex>& of = reductions[track.process];
    const auto start_of = [&](ScopeIndex range) { return model.scopes.start_ns[range]; };
    std::ranges::sort(of, {}, start_of);
    std::vector<Interval> passes(track.steps.size(), {INT64_MAX, INT64_MIN});  // first node's start, last one's end
    const auto is_node = [](const ScopeLook& look) { return look.kind == ScopeKind::kBackwardNode; };
    ForEachScopeThat(model.scopes, is_node, [&](ScopeIndex node) {
      const Step* const step = StepAt(track, start_of(node));
      if (step == nullptr || model.threads[model.scopes.thread[node]].process != track.process) return;
      Interval& pass = passes[static_cast<size_t>(step - track.steps.data())];
      pass = {std::min(pass.start_ns, start_of(node)), std::max(pass.end_ns, model.scopes.EndOf(node))};
    });
    Sums sums;
    for (size_t i = 0; i < passes.size(); ++i) {
      const Step& step = track.steps[i];
      if (!step.counts()) continue;
      int64_t last_ns = passes[i].end_ns;
      for (auto at = std::ranges::lower_bound(of, passes[i].start_ns, {}, start_of); at != of.end(); ++at) {
        if (start_of(*at) >= step.end_ns) break;
        last_ns = std::max(last_ns, model.scopes.EndOf(*at));
        sums.last_bytes = RangeKindOf(model, *at).bytes;
        sums.bytes += sums.last_bytes;
        ++sums.count;
      }
      ++sums.steps;
      sums.step_ns += step.end_ns - step.start_ns;
      sums.after_ns += last_ns - passes[i].end_ns;
    }
    if (sums.count > 0 && sums.last_bytes >= 0 && (!least || sums.Part() < least->Part())) least = sums;
  }
  if (!least || least->Part() < 0.01) return;
  table->notes.push_back(absl::StrFormat(
      "Reductions from the backward pass on: %.3g a step, %s. The last, of %s, ends %s after the pass (%.1f %% of the "
      "step): nothing hides that.",
      static_cast<double>(least->count) / static_cast<double>(least->steps),
      HumanCell(least->bytes / least->steps, "bytes"), HumanCell(least->last_bytes, "bytes"),
      HumanTime(least->after_ns / least->steps), 100 * least->Part()));
}

// What the slowest link moves for each byte that NCCL counts, with the best algorithm: nccl-tests, doc/PERFORMANCE.md
// ("bus bandwidth"). It is defined for the bytes of all ranks together, while the count may be one rank's part (gather,
// scatter, all-to-all).
double BusBytes(const Key& key) {
  const auto ranks = static_cast<double>(key.members);
  switch (key.kind) {
    case CollectiveKind::kAllReduce:
      return 2 * (ranks - 1) / ranks;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return ranks - 1;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
    case CollectiveKind::kSend:
    case CollectiveKind::kReceive:
      return 1;
    default:
      return 0;
  }
}

TypedColumns<CollectiveGroup> CollectivesColumns(int64_t wall_ns) {
  return {
      {As(Role::kKey, TextColumn("kind")), "What is done.",
       [](const CollectiveGroup& group) { return Words(EnumName(group.kind)); }},
      {As(Role::kKey, NumberColumn("communicator")), "Its number in each process, in the order of first use.",
       [](const CollectiveGroup& group) {
         return group.communicator == 0 ? Cell() : Cell(static_cast<int64_t>(group.communicator));
       }},
      {As(Role::kChoice, NumberColumn("ranks")), "Processes in the communicator.",
       [](const CollectiveGroup& group) { return group.members <= 0 ? Cell() : Cell(int64_t{group.members}); }},
      {As(Role::kShape, IntegerColumn("size", "bytes", Better::kNeither)),
       "Bytes of one call as NCCL and MPI count them: what the caller sends, or receives if it only receives; of "
       "reduce scatter and all to all, one rank's part. Of Gloo all that the caller gives.",
       [](const CollectiveGroup& group) { return group.KnowsSize() ? Cell(group.bytes()) : Cell(); }},
      {As(Role::kChoice, TextColumn("type")), "Data type of the elements.",
       [](const CollectiveGroup& group) { return TypeLabel(group.type); }},
      {As(Role::kKey, TextColumn("reduction")), "How elements are combined.",
       [](const CollectiveGroup& group) { return ReductionName(group.reduction); }},
      {CallsColumn("Calls of all ranks of this run."), &CollectiveGroup::calls},
      {As(Role::kAmount, IntegerColumn("bytes", "bytes", Better::kLower)), "Of all these calls.",
       [](const CollectiveGroup& group) { return group.KnowsSize() ? Cell(group.bytes() * group.calls) : Cell(); }},
      OpTotalTime(),
      {RealColumn("rate", "GB/s", Better::kHigher),
       "Bytes over time of blocking calls, waiting for the others included. Others: not known.",
       [](const CollectiveGroup& group) {
         return group.is_asynchronous || group.bytes() == 0 ? Cell() : Rate(group.bytes(), group.calls, group.total_ns);
       }},
      OpWallPercent(wall_ns),
      OpMeanTime(),
      {TimeColumn("arrival_skew"),
       "From the first to the last rank's arrival at the same operation, median; by the kernels where all have them, "
       "else by the calls (table ranks: which rank is late).",
       [](const CollectiveGroup& group) {
         return group.skews_ns.empty() ? Cell() : Cell(QuantileOfSorted(group.skews_ns, 0.5));
       }},
      {IntegerColumn("failed", "", Better::kLower), "Calls that returned an error.", &CollectiveGroup::failed},
      {TextColumn("callers"), "Ranks that called, where known.",
       [](const CollectiveGroup& group) { return JoinNumbers(group.ranks); }},
      {TextColumn("peers"), "Roots or partners, where there are any.",
       [](const CollectiveGroup& group) { return JoinNumbers(group.peers); }},
      {TextColumn("functions"), "Functions called; ranges of torch.distributed's backend (gloo:all_reduce).",
       &CollectiveGroup::functions},
      OpWallShare(),
  };
}

TypedColumns<CollectiveGroup> GpuColumns() {
  return {{TimeColumn("gpu_time"),
           "Durations of what GPUs did for these calls on all ranks: it also waits for the other ranks there.",
           [](const CollectiveGroup& group) { return group.gpu.activities > 0 ? Cell(group.gpu.busy_ns) : Cell(); }},
          {RealColumn("gpu_rate", "GB/s", Better::kHigher),
           "Bytes over GPU time (algorithm bandwidth, of a rank's part where size is one).", &CollectiveGroup::GpuRate},
          {RealColumn("bus_rate", "GB/s", Better::kHigher),
           "What the links move by GPU time: gpu_rate times what the best algorithm moves for each byte, as nccl-tests "
           "has it.",
           [](const CollectiveGroup& group) {
             const std::optional<double> rate = group.GpuRate();
             return rate && group.members > 1 && BusBytes(group) > 0 ? Cell(*rate * BusBytes(group)) : Cell();
           }}};
}

CollectiveMap Collect(const TraceModel& model, const TableOptions& options) {
  CollectiveMap groups;
  for (const CalledOp& called : CalledOps(model, options)) {
    const Op& op = called.op;
    if (!op.collective()) continue;
    CollectiveGroup& group = GroupOf(model.ops[called.home], groups);
    group.Add(called);
    if (!called.IsHome()) continue;
    const CollectiveCall& collective = *op.collective();
    group.is_asynchronous |= op.is_asynchronous;
    if (collective.rank >= 0) group.ranks.insert(collective.rank);
    if (collective.peer >= 0) group.peers.insert(collective.peer);
  }
  const std::vector<Meeting> meetings =
      model.processes.size() < 2 ? std::vector<Meeting>() : MatchCollectives(model).meetings;
  for (const Meeting& meeting : meetings) {
    if (meeting.call == kNone) continue;
    GroupOf(model.ops[model.calls.op[meeting.call]], groups).skews_ns.push_back(meeting.LastNs() - meeting.FirstNs());
  }
  for (auto& [key, group] : groups) absl::c_sort(group.skews_ns);
  const SameWork same_work(model);
  for (const FailedCall& failed : model.failed_calls) {
    const Op& op = model.ops[model.calls.op[failed.call]];
    if (op.collective() && !same_work.IsNested(failed.call)) ++GroupOf(op, groups).failed;
  }
  return groups;
}

}  // namespace

absl::StatusOr<Table> CollectivesTable(const TraceModel& model, const TableOptions& options) {
  const CollectiveMap groups = Collect(model, options);
  const auto order = ByWeight(
      groups, [](const CollectiveGroup& group) { return std::pair(group.bytes() * group.calls, group.calls); });
  TypedColumns<CollectiveGroup> columns = CollectivesColumns(model.wall_ns());
  if (GpuTimesOf(model, options) != GpuTimes::kNone) columns.InsertAfter("bytes", GpuColumns());
  Table table = NewTable("collectives", "Communication between ranks", columns, order);
  AddRanges(model, &table);
  AddReductions(model, options.analysis->steps(), &table);
  if (!table.rows.empty() || !table.notes.empty()) return table;
  int64_t ns = 0;
  for (GpuIndex i = 0; i < model.gpu.size(); ++i)
    ns += GpuWorkOf(model, i) == GpuWork::kCommunication ? model.gpu.DurationNs(i) : 0;
  if (ns > 0) {
    table.Note("None: kernels of communication ran for ", HumanTime(ns),
               " (tables kernels, overlap); which operations on how many bytes they were, the trace does not tell.");
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
