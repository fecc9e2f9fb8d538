// Totals of ops that belong in one row of a table: see op_groups.h.
// Bounds of rows: sums of their calls'.
#include "analyzer/tables/op_groups.h"

#include "absl/container/flat_hash_set.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline tables {
namespace {

// Real nesting is a few calls deep; only a damaged trace goes beyond.
constexpr int kMaxDepth = 64;

// A call's execution; for a captured call, a launch of its graph.
using Execution = std::pair<CallIndex, CallIndex>;

void AddBooks(const Op& op, GpuOpTime* time) {
  const auto executions = static_cast<double>(time->executions);
  time->bytes = executions * static_cast<double>(op.bytes.value_or(0));
  if (!op.flops) return;
  time->flops = executions * static_cast<double>(*op.flops);
  time->flops_ns = time->busy_ns;
}

}  // namespace

std::vector<OpIndex> HomeOps(const TraceModel& model, const RunTotals& totals) {
  std::vector<OpIndex> home(model.ops.size());
  bool any_nested = false;
  for (OpIndex op = 0; op < home.size(); ++op) {
    home[op] = op;
    any_nested |= totals.ops[op].nested_calls > 0;
  }
  if (!any_nested) return home;
  const SameWork same_work(model);
  std::map<OpIndex, std::map<OpIndex, int64_t>> around;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const OpTotals& op_totals = totals.ops[model.calls.op[call]];
    if (op_totals.nested_calls == 0 || op_totals.nested_calls != op_totals.calls) continue;
    const CallIndex outermost = same_work.Outermost(call);
    if (outermost != call) ++around[model.calls.op[call]][model.calls.op[outermost]];
  }
  for (const auto& [op, counts] : around) {
    home[op] = absl::c_max_element(counts, [](const auto& a, const auto& b) { return a.second < b.second; })->first;
  }
  return home;
}

std::vector<CalledOp> CalledOps(const TraceModel& model, const TableOptions& options) {
  const std::vector<OpIndex> home = HomeOps(model, *options.totals);
  const std::vector<GpuOpTime> gpu = GpuTimesOfOps(model, options);
  std::vector<CalledOp> called;
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const OpTotals& totals = options.totals->ops[i];
    if (totals.calls > 0) called.push_back({model.ops[i], i, home[i], totals, gpu[i]});
  }
  return called;
}

void OpGroup::Add(const CalledOp& called, const Peaks* peaks) {
  const Op& op = called.op;
  const OpTotals& totals = called.totals;
  const int64_t own_calls = called.own_calls();
  gpu.Add(called.gpu);
  if (totals.calls > 0 && !op.is_continuation) {
    min_ns = calls + nested_calls == 0 ? totals.min_ns : std::min(min_ns, totals.min_ns);
    max_ns = std::max(max_ns, totals.max_ns);
  }
  const bool first_calls = calls == 0;
  calls += own_calls;
  if (!op.is_continuation) nested_calls += totals.nested_calls;
  total_ns += totals.total_ns;
  self_ns += totals.self_ns;
  wall_share_ns += totals.wall_share_ns;
  functions.insert(op.function);
  if (!called.IsHome()) return;
  bounds.AddOp(peaks, op, totals, called.gpu);
  families.insert(op.family);
  AddWord(op.implementation, implementations);
  if (own_calls > 0) {
    const bool op_has_rate = !op.is_asynchronous && !op.captured;
    flops = first_calls || flops == op.flops ? op.flops : std::nullopt;
    has_rate &= op_has_rate;
    if (op.flops && op_has_rate) {
      total_flops += static_cast<double>(*op.flops) * static_cast<double>(own_calls);
      flops_ns += totals.total_ns;
    }
  }
}

std::string ChosenLabel(const Op& op) {
  absl::string_view chosen = op.implementation.empty() ? op.algorithm : op.implementation;
  for (const char* library : {"cudnn ", "cublasLt ", "cublas "}) {
    if (absl::ConsumePrefix(&chosen, library)) break;
  }
  return std::string(chosen);
}

void AddWord(const std::string& word, std::set<std::string>& words) {
  if (!word.empty()) words.insert(word);
}

std::string TensorCoreLabel(const TensorCore& tensor_core) {
  const char* answer = tensor_core.eligible ? "yes" : "no";
  if (tensor_core.reason.empty()) return answer;
  return absl::StrCat(answer, ": ", tensor_core.reason);
}

TypedColumn<OpGroup> OpTotalTime() { return {TotalTimeColumn(), &OpGroup::total_ns}; }

TypedColumn<OpGroup> OpMeanTime() {
  return {MeanTimeColumn(), [](const OpGroup& group) { return Mean(group.total_ns, group.calls); }};
}

TypedColumn<OpGroup> OpWallShare() { return {WallShareColumn(), &OpGroup::wall_share_ns}; }

TypedColumn<OpGroup> OpWallPercent(int64_t wall_ns) {
  return {WallPercentColumn(), [wall_ns](const OpGroup& group) { return Percent(group.wall_share_ns, wall_ns); }};
}

TypedColumn<OpGroup> OpRate() {
  return {RateColumn(), [](const OpGroup& group) {
            return group.has_rate ? Rate(group.flops, group.calls, group.total_ns) : Cell();
          }};
}

TypedColumn<OpGroup> OpFlops() {
  return {IntegerColumn("flops", "flops", Better::kNeither), "Floating-point operations of one call, by the formula.",
          &OpGroup::flops};
}

TypedColumn<OpGroup> OpFunctions() {
  return {TextColumn("functions"), "Functions or logs through which the calls were seen.", &OpGroup::functions};
}

void BoundSums::Add(const Op& op, const Bound& bound, double calls) {
  bound_ns += bound.ns * calls;
  by_kind_ns[static_cast<size_t>(bound.kind)] += bound.ns * calls;
  if (!op.flops || !op.bytes) return;
  flops += static_cast<double>(*op.flops) * calls;
  bytes += static_cast<double>(*op.bytes) * calls;
}

void BoundSums::AddOp(const Peaks* peaks, const Op& op, const OpTotals& totals, const GpuOpTime& gpu) {
  const auto calls = static_cast<double>(op.on_gpu ? gpu.executions : totals.calls - totals.nested_calls);
  if (peaks == nullptr || calls <= 0 || (!op.on_gpu && op.is_asynchronous)) return;
  const std::optional<Bound> bound = peaks->BoundOf(op);
  if (!bound) return;
  Add(op, *bound, calls);
  time_ns += static_cast<double>(op.on_gpu ? gpu.busy_ns : totals.total_ns);
}

BoundKind BoundSums::Kind() const {
  const auto* const most = absl::c_max_element(by_kind_ns);
  return *most > 0 ? static_cast<BoundKind>(most - by_kind_ns.begin()) : BoundKind::kUnknown;
}

TypedColumns<BoundSums> BoundColumns(const TableOptions& options, int64_t steps) {
  if (options.peaks == nullptr || !options.peaks->IsKnown()) return {};
  return {
      {Detail(RealColumn("intensity", "FLOP/byte", Better::kNeither)),
       "Arithmetic intensity: operations per byte of the operands, each operand counted once.",
       [](const BoundSums& sums) { return sums.bytes > 0 && sums.flops > 0 ? Cell(sums.flops / sums.bytes) : Cell(); }},
      {Detail(TextColumn("bound")),
       "What limits it on this machine: compute, memory, launch (starting it takes longer than its work), serial (too "
       "little work to divide among threads). Empty: the memory bandwidth is not known, or the calls took less time "
       "than that (see bound_percent).",
       [](const BoundSums& sums) {
         return KnownText(BoundKindName(sums.IsBelow() ? BoundKind::kUnknown : sums.Kind()));
       }},
      {Detail(PercentColumn("bound_percent", Better::kHigher)),
       "The least time that this machine needs, as a percentage of the measured time. Empty where the calls took less: "
       "by an algorithm with fewer operations, or on a machine that is faster than its peaks say (measured while it "
       "was busy, or stated ones, which leave out turbo).",
       [](const BoundSums& sums) {
         return sums.time_ns > 0 && !sums.IsBelow() ? Cell(100 * sums.bound_ns / sums.time_ns) : Cell();
       }},
      {Detail(TimeColumn("lost_time")), "The measured time minus that least time.",
       [steps](const BoundSums& sums) {
         if (sums.time_ns <= 0 || sums.IsBelow()) return Cell();
         return Cell(static_cast<int64_t>(std::llround((sums.time_ns - sums.bound_ns) / static_cast<double>(steps))));
       }},
  };
}

void AddBoundNotes(const TableOptions& options, Table* table) {
  if (options.peaks == nullptr || table->rows.empty()) return;
  table->notes.insert(table->notes.end(), options.peaks->notes().begin(), options.peaks->notes().end());
}

GpuTimes GpuTimesOf(const TraceModel& model) {
  if (model.gpu.empty()) return GpuTimes::kNone;
  const auto is_kernel = [](GpuActivityKind kind) {
    return kind == GpuActivityKind::kKernel || kind == GpuActivityKind::kGraph;
  };
  const bool any = absl::c_any_of(model.gpu.kind, is_kernel);
  return any ? GpuTimes::kOfKernels : GpuTimes::kOfWork;
}

GpuTimes GpuTimesOf(const TraceModel& model, const TableOptions& options) {
  return options.gpu_times.value_or(GpuTimesOf(model));
}

void GpuOpTime::Add(const GpuOpTime& other) {
  busy_ns += other.busy_ns;
  executions += other.executions;
  activities += other.activities;
  flops += other.flops;
  flops_ns += other.flops_ns;
  bytes += other.bytes;
}

std::vector<GpuOpTime> GpuTimesOfOps(const TraceModel& model, const TableOptions& options) {
  const GpuActivityColumns& gpu = model.gpu;
  std::vector<GpuOpTime> times(model.ops.size());
  if (GpuTimesOf(model, options) == GpuTimes::kNone) return times;
  const SameWork same_work(model);
  absl::flat_hash_set<Execution> executions;
  for (GpuIndex activity = 0; activity < gpu.size(); ++activity) {
    const CallIndex launch = gpu.graph[activity] == 0 ? kNone : gpu.launch_call[activity];
    CallIndex call = gpu.call[activity];
    for (int depth = 0; call != kNone && depth < kMaxDepth; call = model.calls.parent[call], ++depth) {
      if (same_work.IsNested(call)) continue;
      GpuOpTime& time = times[model.calls.op[call]];
      time.busy_ns += gpu.DurationNs(activity);
      ++time.activities;
      if (executions.insert({call, launch}).second) ++time.executions;
    }
  }
  for (OpIndex op = 0; op < model.ops.size(); ++op) AddBooks(model.ops[op], &times[op]);
  return times;
}

TypedColumns<GpuOpTime> GpuTimeColumns(const TraceModel& model, const TableOptions& options) {
  if (GpuTimesOf(model, options) == GpuTimes::kNone) return {};
  return {
      {TimeColumn("gpu_time"),
       "Durations of what GPUs did for these calls; of captured ones in every launch of their graph.",
       [](const GpuOpTime& time) { return time.activities > 0 ? Cell(time.busy_ns) : Cell(); }},
      {RealColumn("gpu_rate", "GFLOP/s", Better::kHigher), "FLOPs of what GPUs executed over GPU time.",
       [](const GpuOpTime& time) {
         return time.flops_ns > 0 ? Cell(time.flops / static_cast<double>(time.flops_ns)) : Cell();
       }},
  };
}

}  // namespace dlhook::analyzer::tables
