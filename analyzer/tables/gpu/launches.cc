// Table `launches`: the time from the request for a kernel to its start, by thread and by what requested it.

#include "analyzer/model/same_work.h"
#include "analyzer/steps/measured_steps.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/gpu/gpu_tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

// A launch and its result: one kernel, or all of a graph.
struct Launch {
  CallIndex call = kNone;  // the outermost view of the launch
  GpuIndex first = kNone;  // the activity that began first
  int64_t busy_ns = 0;
  bool is_first = false;  // of its kernel in its process
};

using Times = std::vector<int64_t>;

struct LaunchesKey {
  ThreadIndex thread = 0;
  std::string launched_by;
  auto operator<=>(const LaunchesKey&) const = default;
};

struct LaunchGroup : LaunchesKey {
  Times host_ns, wait_ns, gpu_ns;  // without first launches
  int64_t host_bound = 0;          // launches that took the host longer than the GPU
  int64_t first_count = 0;
  int64_t first_host_ns = 0;
  int64_t host_total_ns = 0;
  int64_t gpu_total_ns = 0;
  int64_t launches() const { return first_count + std::ssize(host_ns); }
};

using LaunchMap = std::map<LaunchesKey, LaunchGroup>;

bool IsLaunched(const TraceModel& model, GpuIndex activity) {
  const GpuActivityColumns& gpu = model.gpu;
  if (gpu.launch_call[activity] == kNone) return false;
  return gpu.kind[activity] == GpuActivityKind::kKernel || gpu.kind[activity] == GpuActivityKind::kGraph ||
         gpu.graph[activity] != 0;
}

// By launching call. A call that makes several kernels itself (cuBLAS, if its launches are not hooked) is one launch of
// all of them.
std::vector<Launch> FindLaunches(const TraceModel& model) {
  const SameWork same_work(model);
  const std::vector<bool> is_first = FirstLaunches(model);
  absl::flat_hash_map<CallIndex, size_t> place_of;
  std::vector<Launch> launches;
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    if (!IsLaunched(model, activity)) continue;
    const CallIndex call = same_work.Outermost(model.gpu.launch_call[activity]);
    const auto [at, is_new] = place_of.try_emplace(call, launches.size());
    if (is_new) launches.push_back({call, activity, 0, false});
    Launch& launch = launches[at->second];
    launch.busy_ns += model.gpu.DurationNs(activity);
    launch.is_first |= is_first[activity];
    if (model.gpu.start_ns[activity] < model.gpu.start_ns[launch.first]) launch.first = activity;
  }
  return launches;
}

// The clocks of host and GPU differ by about a microsecond: work may seem to begin before it was requested.
int64_t NotNegative(int64_t ns) { return std::max<int64_t>(ns, 0); }

void Add(const TraceModel& model, const Launch& launch, LaunchGroup* group) {
  const GpuActivityColumns& gpu = model.gpu;
  const int64_t host_ns = model.calls.duration_ns[launch.call];
  group->host_total_ns += host_ns;
  group->gpu_total_ns += launch.busy_ns;
  if (launch.is_first) {
    ++group->first_count;
    group->first_host_ns += host_ns;
    return;
  }
  group->host_ns.push_back(host_ns);
  group->gpu_ns.push_back(launch.busy_ns);
  group->wait_ns.push_back(NotNegative(gpu.start_ns[launch.first] - model.calls.start_ns[launch.call]));
  group->host_bound += launch.busy_ns < host_ns ? 1 : 0;
}

LaunchMap Collect(const TraceModel& model) {
  LaunchMap groups;
  for (const Launch& launch : FindLaunches(model)) {
    const bool is_graph = model.gpu.graph[launch.first] != 0 || model.gpu.kind[launch.first] == GpuActivityKind::kGraph;
    const LaunchesKey key = {model.calls.thread[launch.call], is_graph ? "[graph]" : GpuAskerOf(model, launch.first)};
    Add(model, launch, &GroupOf(key, groups));
  }
  for (auto& [key, group] : groups) {
    for (Times* times : {&group.host_ns, &group.wait_ns, &group.gpu_ns}) absl::c_sort(*times);
  }
  return groups;
}

auto Quantile(Times LaunchGroup::*sorted, double part) {
  return [sorted, part](const LaunchGroup& group) {
    return (group.*sorted).empty() ? Cell() : Cell(QuantileOfSorted(group.*sorted, part));
  };
}

TypedColumns<LaunchGroup> LaunchesColumns(const TraceModel& model) {
  return {
      {As(Role::kKey, TextColumn("thread")), "The launching thread: its name and number in the process.",
       [&model](const LaunchGroup& group) { return ThreadLabel(model.threads[group.thread]); }},
      {As(Role::kKey, TextColumn("launched_by")),
       "The library's op or the framework's that the launches were made for; [graph]: launches of CUDA graphs, each "
       "with all work of the graph.",
       &LaunchGroup::launched_by},
      {IntegerColumn("launches", "", Better::kLower), "Launching calls whose work's GPU time is known.",
       &LaunchGroup::launches},
      {As(Role::kWeight, TimeColumn("host_total")), "What these calls took the host.", &LaunchGroup::host_total_ns},
      {TimeColumn("gpu_total"), "GPU work they launched: sum of durations.", &LaunchGroup::gpu_total_ns},
      {TimeColumn("host_time"),
       "Median duration of the launching call; without first launches of a kernel, as all that follows.",
       Quantile(&LaunchGroup::host_ns, 0.5)},
      {TimeColumn("wait_time"), "Median from the start of the launching call until the GPU started.",
       Quantile(&LaunchGroup::wait_ns, 0.5)},
      {TimeColumn("gpu_time"), "Median GPU time of the work of one launch.", Quantile(&LaunchGroup::gpu_ns, 0.5)},
      {PercentColumn("launch_bound_percent", Better::kLower),
       "Launches that took the host longer than the GPU: a stream of these leaves the GPU idle.",
       [](const LaunchGroup& group) { return Percent(group.host_bound, std::ssize(group.host_ns)); }},
      {Detail(TimeColumn("host_p95")), "95 % of the calls took at most this long.",
       Quantile(&LaunchGroup::host_ns, 0.95)},
      {Detail(TimeColumn("wait_p95")), "95 % waited at most this long.", Quantile(&LaunchGroup::wait_ns, 0.95)},
      {Detail(NumberColumn("first_launches")),
       "The process's first launches of a kernel, which also load it (CUDA loads kernels lazily).",
       &LaunchGroup::first_count},
      {Detail(TimeColumn("first_host_time")), "What these took the host: warm-up.", &LaunchGroup::first_host_ns},
      {Detail(NumberColumn("pid")), "The thread's process.",
       [&model](const LaunchGroup& group) {
         return int64_t{model.processes[model.threads[group.thread].process].pid};
       }},
  };
}

std::string Note(const LaunchMap& groups) {
  int64_t launches = 0, steady = 0, host_bound = 0, host_ns = 0, gpu_ns = 0;
  for (const auto& [key, group] : groups) {
    launches += group.launches();
    steady += std::ssize(group.host_ns);
    host_bound += group.host_bound;
    host_ns += group.host_total_ns;
    gpu_ns += group.gpu_total_ns;
  }
  const double percent = steady > 0 ? 100.0 * static_cast<double>(host_bound) / static_cast<double>(steady) : 0;
  return absl::StrFormat("%d launches cost the host %s and GPUs %s; %.3g %% of them cost the host more than the GPU.",
                         launches, HumanTime(host_ns), HumanTime(gpu_ns), percent);
}

}  // namespace

absl::StatusOr<Table> LaunchesTable(const TraceModel& model, const TableOptions& options) {
  const LaunchMap groups = GpuTimesOf(model, options) == GpuTimes::kOfKernels ? Collect(model) : LaunchMap();
  const auto order = ByWeight(groups, &LaunchGroup::host_total_ns);
  Table table =
      NewTable("launches", "Launches: cost on the host, and delay until the GPU starts", LaunchesColumns(model), order);
  if (!groups.empty()) table.notes.push_back(Note(groups));
  return table;
}

}  // namespace dlhook::analyzer::tables
