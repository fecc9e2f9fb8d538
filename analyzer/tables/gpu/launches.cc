// Table `launches`: how long it takes from asking for a kernel until it runs, by thread and by what asked.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/model/same_work.h"
#include "analyzer/steps/iterations.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/gpu/gpu_kernels.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

using Kind = trace::GpuActivityBatch;

// A launch, and what came of it: one kernel, or all of a graph.
struct Launch {
  CallIndex call = kNone;  // the outermost of the launch's views
  GpuIndex first = kNone;  // the activity that began first
  int64_t busy_ns = 0;
  bool is_first = false;  // of its kernel in the process
};

struct Key {
  ThreadIndex thread = 0;
  std::string launched_by;
  bool operator<(const Key& other) const {
    return thread != other.thread ? thread < other.thread : launched_by < other.launched_by;
  }
};

struct LaunchGroup {
  std::vector<int64_t> host_ns, wait_ns, gpu_ns, queued_ns;  // without first launches
  int64_t host_bound = 0;                                    // of them, launches that took the host longer than the GPU
  int64_t first_count = 0;
  int64_t first_host_ns = 0;
  int64_t host_total_ns = 0;
  int64_t gpu_total_ns = 0;
  int64_t launches() const { return first_count + static_cast<int64_t>(host_ns.size()); }
};

using LaunchMap = std::map<Key, LaunchGroup>;

bool IsLaunched(const TraceModel& model, GpuIndex activity) {
  const GpuActivityColumns& gpu = model.gpu;
  if (gpu.launch_call[activity] == kNone) return false;
  return gpu.kind[activity] == Kind::KERNEL || gpu.kind[activity] == Kind::GRAPH || gpu.graph[activity] != 0;
}

// By the launching call. A call that makes several kernels by itself (cuBLAS whose launches no hook sees) is one launch
// of all of them.
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

// The clocks of host and GPU are a microsecond apart: work may seem to begin before it was asked for.
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
  const int64_t queued_ns = gpu.queued_ns.empty() ? GpuActivityColumns::kNotKnown : gpu.queued_ns[launch.first];
  if (queued_ns == GpuActivityColumns::kNotKnown) return;
  group->queued_ns.push_back(NotNegative(gpu.start_ns[launch.first] - queued_ns));
}

LaunchMap Collect(const TraceModel& model) {
  LaunchMap groups;
  for (const Launch& launch : FindLaunches(model)) {
    const bool is_graph = model.gpu.graph[launch.first] != 0 || model.gpu.kind[launch.first] == Kind::GRAPH;
    const Key key = {model.calls.thread[launch.call], is_graph ? "[graph]" : GpuAskerOf(model, launch.first)};
    Add(model, launch, &groups[key]);
  }
  for (auto& [key, group] : groups) {
    for (std::vector<int64_t>* values : {&group.host_ns, &group.wait_ns, &group.gpu_ns, &group.queued_ns}) {
      std::sort(values->begin(), values->end());
    }
  }
  return groups;
}

Column TimeColumn(std::string name, std::string explanation) {
  return IntegerColumn(std::move(name), "ns", Better::kLower, std::move(explanation));
}

std::vector<Column> Columns() {
  return {
      As(Role::kKey, TextColumn("thread", "That launched: its name and number in the process.")),
      As(Role::kKey, TextColumn("launched_by",
                                "The library's op or the framework's that the launches were made for; [graph]: "
                                "launches of CUDA graphs, each with all that the graph does.")),
      IntegerColumn("launches", "", Better::kLower, "Launching calls whose work's GPU time is known."),
      As(Role::kWeight, TimeColumn("host_total", "What these calls took the host.")),
      TimeColumn("gpu_total", "What they made GPUs do: sum of durations."),
      TimeColumn("host_time",
                 "Median duration of the launching call; without first launches of a kernel, as all that follows."),
      TimeColumn("wait_time", "Median from the beginning of the launching call until the GPU began."),
      TimeColumn("gpu_time", "Median of what one launch makes the GPU do."),
      RealColumn("launch_bound_percent", "%", Better::kLower,
                 "Launches that took the host longer than the GPU: a stream of these leaves the GPU idle."),
      Detail(TimeColumn("host_mean", "Mean duration of the launching call.")),
      Detail(TimeColumn("host_p95", "95 % of the calls took at most this long.")),
      Detail(TimeColumn("host_max", "The longest call.")),
      Detail(TimeColumn("wait_mean", "Mean from the beginning of the call until the GPU began.")),
      Detail(TimeColumn("wait_p95", "95 % waited at most this long.")),
      Detail(TimeColumn("wait_max", "The longest wait.")),
      Detail(
          TimeColumn("queue_time", "Median from when CUPTI saw it queued until it began; needs DLHOOK_GPU_QUEUE=on.")),
      Detail(TimeColumn("gpu_mean", "Mean of what one launch makes the GPU do.")),
      Detail(TimeColumn("gpu_p95", "95 % of the launches make it work at most this long.")),
      Detail(IntegerColumn("first_launches", "", Better::kNeither,
                           "The process's first launches of a kernel, which also load it (CUDA loads kernels "
                           "lazily).")),
      Detail(TimeColumn("first_host_time", "What these took the host: warm-up.")),
      Detail(IntegerColumn("pid", "", Better::kNeither, "The thread's process.")),
  };
}

// Waits are no durations: what a damaged trace makes of them may not add up in 64 bits.
Cell MeanOf(const std::vector<int64_t>& sorted) {
  if (sorted.empty()) return std::monostate();
  __int128 sum = 0;
  for (int64_t value : sorted) sum += value;
  return static_cast<int64_t>(std::llround(static_cast<double>(sum) / static_cast<double>(sorted.size())));
}

Cell Quantile(const std::vector<int64_t>& sorted, double part) {
  if (sorted.empty()) return std::monostate();
  return QuantileOfSorted(sorted, part);
}

std::string ThreadLabel(const ThreadData& thread) {
  return absl::StrCat(thread.name.empty() ? "thread" : thread.name, " ", thread.thread_id);
}

Row GroupRow(const TraceModel& model, const Key& key, const LaunchGroup& group) {
  const ThreadData& thread = model.threads[key.thread];
  return {ThreadLabel(thread),
          key.launched_by,
          group.launches(),
          group.host_total_ns,
          group.gpu_total_ns,
          Quantile(group.host_ns, 0.5),
          Quantile(group.wait_ns, 0.5),
          Quantile(group.gpu_ns, 0.5),
          Percent(group.host_bound, static_cast<int64_t>(group.host_ns.size())),
          MeanOf(group.host_ns),
          Quantile(group.host_ns, 0.95),
          Quantile(group.host_ns, 1),
          MeanOf(group.wait_ns),
          Quantile(group.wait_ns, 0.95),
          Quantile(group.wait_ns, 1),
          Quantile(group.queued_ns, 0.5),
          MeanOf(group.gpu_ns),
          Quantile(group.gpu_ns, 0.95),
          group.first_count,
          group.first_host_ns,
          int64_t{model.processes[thread.process].header.process().pid()}};
}

std::string Note(const LaunchMap& groups) {
  int64_t launches = 0, steady = 0, host_bound = 0, host_ns = 0, gpu_ns = 0;
  for (const auto& [key, group] : groups) {
    launches += group.launches();
    steady += static_cast<int64_t>(group.host_ns.size());
    host_bound += group.host_bound;
    host_ns += group.host_total_ns;
    gpu_ns += group.gpu_total_ns;
  }
  const double percent = steady > 0 ? 100.0 * static_cast<double>(host_bound) / static_cast<double>(steady) : 0;
  return absl::StrFormat("%d launches took the host %s and GPUs %s; %.3g %% of them took the host longer than the GPU.",
                         launches, HumanTime(host_ns), HumanTime(gpu_ns), percent);
}

}  // namespace

absl::StatusOr<Table> LaunchesTable(const TraceModel& model, const TableOptions& options) {
  Table table = NewTable("launches", "Launches: what they take the host, and how long until the GPU begins", Columns());
  const LaunchMap groups = GpuTimesOf(model, options) == GpuTimes::kOfKernels ? Collect(model) : LaunchMap();
  std::vector<const LaunchMap::value_type*> order;
  for (const auto& group : groups) order.push_back(&group);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->second.host_total_ns > b->second.host_total_ns; });
  for (const auto* group : order) table.rows.push_back(GroupRow(model, group->first, group->second));
  if (!groups.empty()) table.notes.push_back(Note(groups));
  return table;
}

}  // namespace dlhook::analyzer::tables
