// Table `kernels`: launches by kernel and launching op.

#include "absl/strings/str_cat.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/model/same_work.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/gpu/gpu_tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kKernelsNotKnown[] = "not known";

using Dim = std::array<uint32_t, 3>;

struct KernelsKey {
  std::string name;  // full: instances of a template are different kernels
  std::string short_name;
  std::string launched_by;
  auto operator<=>(const KernelsKey&) const = default;
};

struct LaunchedKernel : KernelsKey {
  int64_t calls = 0;     // executed
  int64_t captured = 0;  // recorded into a CUDA graph
  int64_t failed = 0;
  int64_t steady_calls = 0;  // executed in steady steps
  int64_t total_ns = 0;
  std::map<Dim, int64_t> grids;
  std::map<Dim, int64_t> blocks;
  int64_t all() const { return calls + captured + failed; }
};

using LaunchedKernels = std::map<KernelsKey, LaunchedKernel>;

KernelsKey KeyOf(const Op& op, std::string launched_by) {
  const bool is_known = !op.kernel_name.empty();
  return {is_known ? op.kernel_name : kKernelsNotKnown, is_known ? op.kernel_short : kKernelsNotKnown,
          std::move(launched_by)};
}

std::string LauncherOf(const TraceModel& model, CallIndex call) {
  const CallIndex launcher = EnclosingLibraryOp(model, call);
  return launcher == kNone ? "application" : KindAndDirection(model.ops[model.calls.op[launcher]]);
}

void AddShape(const Op& op, int64_t calls, LaunchedKernel& group) {
  group.grids[op.launch()->grid] += calls;
  group.blocks[op.launch()->block] += calls;
}

// The driver's launch inside the runtime's is a second view of the same launch.
LaunchedKernels Collect(const TraceModel& model, const StepClock& clock) {
  const SameWork same_work(model);
  LaunchedKernels groups;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const Op& op = model.ops[model.calls.op[call]];
    if (!op.launch() || same_work.IsNested(call)) continue;
    LaunchedKernel& group = GroupOf(KeyOf(op, LauncherOf(model, call)), groups);
    AddShape(op, 1, group);
    group.total_ns += model.calls.duration_ns[call];
    if (model.StatusOf(call) != 0) {
      ++group.failed;
    } else if (op.captured) {
      ++group.captured;
    } else {
      ++group.calls;
      group.steady_calls += clock.IsSteady(model.calls.thread[call], model.calls.start_ns[call]) ? 1 : 0;
    }
  }
  for (const AggregateRow& row : model.aggregates) {
    const Op& op = model.ops[row.op];
    const int64_t calls = row.count - row.nested_count;
    if (!op.launch() || calls == 0) continue;
    LaunchedKernel& group = GroupOf(KeyOf(op, kKernelsNotKnown), groups);
    AddShape(op, calls, group);
    group.total_ns += row.sum_ns - row.nested_sum_ns;
    (op.captured ? group.captured : group.calls) += calls;
  }
  return groups;
}

std::string MostFrequent(const std::map<Dim, int64_t>& dims) {
  const auto it = absl::c_max_element(dims, [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto& [x, y, z] = it->first;
  return absl::StrCat(x, "x", y, "x", z);
}

TypedColumns<LaunchedKernel> KernelsColumns(int64_t all_ns, int64_t steps) {
  return {
      {As(Role::kKey, TextColumn("kernel")), "Its name without namespaces and template arguments.",
       &LaunchedKernel::short_name},
      {As(Role::kKey, TextColumn("launched_by")),
       "The library call that launched it, where the launch was seen inside one; application: no such call around it.",
       &LaunchedKernel::launched_by},
      {CallsColumn("Launches executed, without the driver's inside the runtime's."), &LaunchedKernel::calls},
      {RealColumn("per_step", "", Better::kLower), "Of these, launches in steady steps, per step.",
       [steps](const LaunchedKernel& group) {
         return steps == 0 ? Cell() : Cell(static_cast<double>(group.steady_calls) / static_cast<double>(steps));
       }},
      {As(Role::kWeight, TotalTimeColumn()), &LaunchedKernel::total_ns},
      {Detail(MeanTimeColumn()), [](const LaunchedKernel& group) { return Mean(group.total_ns, group.all()); }},
      {Detail(PercentColumn("launch_percent", Better::kLower)),
       "Total time as a part of that of all launches: of the host, not of the GPU.",
       [all_ns](const LaunchedKernel& group) { return Percent(group.total_ns, all_ns); }},
      {Detail(NumberColumn("captured")), "Launches recorded into a CUDA graph instead of executed.",
       &LaunchedKernel::captured},
      {Detail(NumberColumn("grids")), "Number of distinct grids.",
       [](const LaunchedKernel& group) { return std::ssize(group.grids); }},
      {As(Role::kChoice, Detail(TextColumn("grid"))), "The most frequent grid, in blocks.",
       [](const LaunchedKernel& group) { return MostFrequent(group.grids); }},
      {As(Role::kChoice, Detail(TextColumn("block"))), "The most frequent block, in threads.",
       [](const LaunchedKernel& group) { return MostFrequent(group.blocks); }},
      {Detail(IntegerColumn("failed", "", Better::kLower)), "Launches that returned an error.",
       &LaunchedKernel::failed},
      {Detail(TextColumn("name")), "The kernel's whole name.", &LaunchedKernel::name},
  };
}

void AddNotes(const TraceModel& model, const RunTotals& totals, const LaunchedKernels& groups, Table& table) {
  int64_t calls = 0, captured = 0, ns = 0, graphs = 0;
  for (const auto& [key, group] : groups) {
    calls += group.calls;
    captured += group.captured;
    ns += group.total_ns;
  }
  if (groups.empty()) return;
  table.notes.push_back(absl::StrCat(calls, " launches took the host ", HumanTime(ns), "; ", captured,
                                     " more were captured into CUDA graphs. How long the kernels ran is not known."));
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    if (IsGraphLaunch(model.ops[i])) graphs += totals.ops[i].calls - totals.ops[i].nested_calls;
  }
  if (graphs > 0) {
    table.notes.push_back(
        absl::StrCat(graphs, " launches of CUDA graphs repeat captured launches; they are not in `calls`."));
  }
}

}  // namespace

absl::StatusOr<Table> KernelsTable(const TraceModel& model, const TableOptions& options) {
  if (GpuTimesOf(model, options) == GpuTimes::kOfKernels) return GpuKernelsTable(model, options);
  const bool any = absl::c_any_of(model.ops, [](const Op& op) { return op.launch(); });
  const std::string title = "Kernel launches, by name and by launching op";
  if (!any) return NewTable("kernels", title, KernelsColumns(0, 0));
  const StepClock clock(model);
  const LaunchedKernels groups = Collect(model, clock);
  int64_t all_ns = 0;
  for (const auto& [key, group] : groups) all_ns += group.total_ns;
  const auto order =
      ByWeight(groups, [](const LaunchedKernel& group) { return std::pair(group.all(), group.total_ns); });
  Table table = NewTable("kernels", title, KernelsColumns(all_ns, clock.steady_steps()), order);
  AddNotes(model, *options.totals, groups, table);
  return table;
}

}  // namespace dlhook::analyzer::tables
