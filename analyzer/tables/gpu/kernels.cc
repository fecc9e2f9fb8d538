// Table `kernels`: executions on GPUs by kernel, layer and what launched them; where times of kernels are not known, launches by
// kernel and launching op.

#include "analyzer/calls/op_labels.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/model/same_work.h"
#include "analyzer/steps/measured_steps.h"
#include "analyzer/steps/step_index.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/gpu/gpu_tables.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kNotKnown[] = "not known";

bool IsKernel(const TraceModel& model, GpuIndex activity) {
  return model.gpu.kind[activity] == GpuActivityKind::kKernel || model.gpu.kind[activity] == GpuActivityKind::kGraph;
}

struct GpuKernelsKey {
  std::string name;  // full: instances of a template are different kernels
  std::string short_name;
  std::string model, layer;
  std::string launched_by;
  auto operator<=>(const GpuKernelsKey&) const = default;
};

struct KernelGroup : GpuKernelsKey {
  int64_t total_ns = 0;
  std::vector<int64_t> durations_ns;  // without first launches
  int64_t first_count = 0;
  int64_t first_ns = 0;
  int64_t steady = 0;                          // launches in steady steps
  int64_t replayed = 0;                        // launches by CUDA graphs
  std::map<GpuKernelIndex, int64_t> launches;  // by grid, block …
  uint32_t compute_capability = 0;
  int64_t calls() const { return first_count + std::ssize(durations_ns); }
};

using KernelMap = std::map<GpuKernelsKey, KernelGroup>;

class Collector {
 public:
  Collector(const TraceModel& model, const TableOptions& options)
      : model_(model),
        attribution_(options.analysis->attribution()),
        places_(GpuPlaces(model, attribution_)),
        is_first_(FirstLaunches(model)),
        times_(MeasuredTimes(model, options.analysis->steps())) {}

  KernelMap Collect() const {
    KernelMap groups;
    for (GpuIndex activity = 0; activity < model_.gpu.size(); ++activity) {
      if (!IsKernel(model_, activity)) continue;
      Add(activity, &GroupOf(KeyOf(activity), groups));
    }
    return groups;
  }

  int64_t steps() const {
    int64_t steps = 0;
    for (const MeasuredTime& time : times_) steps += time.steps;
    return steps;
  }

 private:
  GpuKernelsKey KeyOf(GpuIndex activity) const {
    GpuKernelsKey key = {kNotKnown, kNotKnown, "", "", GpuAskerOf(model_, activity)};
    if (model_.gpu.kind[activity] == GpuActivityKind::kGraph) key.name = key.short_name = "[whole graph]";
    const GpuKernelIndex kernel = model_.gpu.kernel[activity];
    if (kernel != kNone && model_.gpu_kernels[kernel].name != kNone) {
      key.name = model_.names[model_.gpu_kernels[kernel].name];
      key.short_name = model_.names[model_.gpu_kernels[kernel].short_name];
    }
    if (places_[activity].layer == kNone) return key;
    key.model = attribution_.layers[places_[activity].layer].model;
    key.layer = attribution_.layers[places_[activity].layer].name;
    return key;
  }

  void Add(GpuIndex activity, KernelGroup* group) const {
    const GpuActivityColumns& gpu = model_.gpu;
    const GpuDevice& device = model_.gpu_devices[gpu.device[activity]];
    const int64_t duration_ns = gpu.DurationNs(activity);
    group->total_ns += duration_ns;
    if (is_first_[activity]) {
      ++group->first_count;
      group->first_ns += duration_ns;
    } else {
      group->durations_ns.push_back(duration_ns);
    }
    const MeasuredTime& time = times_[device.process];
    const int64_t requested_ns = GpuAskedNs(model_, activity);
    if (time.steps > 0 && time.time.CoveredNs(requested_ns, requested_ns + 1) > 0) ++group->steady;
    if (gpu.graph[activity] != 0) ++group->replayed;
    if (gpu.kernel[activity] != kNone) ++group->launches[gpu.kernel[activity]];
    group->compute_capability = device.compute_capability;
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  const std::vector<Place> places_;
  const std::vector<bool> is_first_;
  const std::vector<MeasuredTime> times_;
};

Cell Deviation(const std::vector<int64_t>& values, int64_t sum) {
  if (values.size() < 2) return std::monostate();
  const double mean = static_cast<double>(sum) / static_cast<double>(values.size());
  double squares = 0;
  for (int64_t value : values) squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  return static_cast<int64_t>(std::llround(std::sqrt(squares / static_cast<double>(values.size() - 1))));
}

struct Statistics {
  Cell mean, median, min, max, deviation;
};

Statistics StatisticsOf(const KernelGroup& group) {
  if (group.durations_ns.empty()) {
    const Cell mean = Mean(group.first_ns, group.first_count);
    return {mean, mean, {}, {}, {}};
  }
  std::vector<int64_t> sorted = group.durations_ns;
  absl::c_sort(sorted);
  int64_t sum = 0;
  for (int64_t value : sorted) sum += value;
  return {Mean(sum, std::ssize(sorted)), QuantileOfSorted(sorted, 0.5), sorted.front(), sorted.back(),
          Deviation(sorted, sum)};
}

std::string Dims(const uint32_t (&dims)[3]) { return absl::StrCat(dims[0], "x", dims[1], "x", dims[2]); }

// The most frequent one; null: not known for any.
const GpuKernel* ShapeOf(const TraceModel& model, const KernelGroup& group) {
  const auto most =
      absl::c_max_element(group.launches, [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == group.launches.end() ? nullptr : &model.gpu_kernels[most->first];
}

struct KernelRow : KernelGroup, Statistics {
  const GpuKernel* shape = nullptr;
  bool HasGrid() const { return shape != nullptr && shape->grid[0] != 0; }
  bool HasRegisters() const { return shape != nullptr && shape->registers_per_thread != 0; }
};

TypedColumns<KernelRow> GpuKernelsColumns(bool has_models, int64_t all_ns, int64_t steps) {
  TypedColumns<KernelRow> columns = {
      {As(Role::kKey, TextColumn("kernel")), "Its name without namespaces and template arguments.",
       &KernelRow::short_name},
      {As(Role::kName, TextColumn("layer")), "Layer it ran for; of a graph's kernels the layer they were captured for.",
       Known<KernelRow>(&KernelRow::layer)},
      {TextColumn("model"), "The network, if there are several.", Known<KernelRow>(&KernelRow::model)},
      {As(Role::kKey, TextColumn("launched_by")),
       "The library's op that it ran for, else the framework's; application: neither around the launch; not known: no "
       "hook saw who launched it.",
       &KernelRow::launched_by},
      {CallsColumn("Executions on a GPU, including those in CUDA graphs."), &KernelRow::calls},
      {RealColumn("per_step", "", Better::kLower), "Of these, launched in steady steps, per step.",
       [steps](const KernelRow& row) {
         return steps == 0 ? Cell() : Cell(static_cast<double>(row.steady) / static_cast<double>(steps));
       }},
      {As(Role::kWeight, TimeColumn("gpu_time")), "Durations on GPUs, first launches included.", &KernelRow::total_ns},
      {PercentColumn("gpu_percent", Better::kLower), "GPU time as a part of that of all kernels.",
       [all_ns](const KernelRow& row) { return Percent(row.total_ns, all_ns); }},
      {TimeColumn("mean_time"),
       "Duration, excluding the process's first launch of this kernel if there are others, as the next five.",
       &KernelRow::mean},
      {TimeColumn("median_time"), "Half of them took at most this long.", &KernelRow::median},
      {Detail(TimeColumn("min_time")), "The shortest.", &KernelRow::min},
      {Detail(TimeColumn("max_time")), "The longest.", &KernelRow::max},
      {Detail(TimeColumn("deviation")), "Standard deviation of the durations.", &KernelRow::deviation},
      {Detail(TimeColumn("first_time")), "Durations of first launches: the kernel may have been loaded for them.",
       [](const KernelRow& row) { return row.first_count > 0 ? Cell(row.first_ns) : Cell(); }},
      {Detail(NumberColumn("replayed")), "Of the calls, those in launches of CUDA graphs.", &KernelRow::replayed},
      {Detail(NumberColumn("grids")), "Number of distinct grids and blocks.",
       [](const KernelRow& row) { return row.shape == nullptr ? Cell() : Cell(std::ssize(row.launches)); }},
      {As(Role::kChoice, Detail(TextColumn("grid"))), "The most frequent grid, in blocks.",
       [](const KernelRow& row) { return row.HasGrid() ? Cell(Dims(row.shape->grid)) : Cell(); }},
      {As(Role::kChoice, Detail(TextColumn("block"))), "Its block, in threads.",
       [](const KernelRow& row) { return row.HasGrid() ? Cell(Dims(row.shape->block)) : Cell(); }},
      {Detail(IntegerColumn("registers", "", Better::kLower)), "Its registers for each thread.",
       [](const KernelRow& row) {
         return row.HasRegisters() ? Cell(int64_t{row.shape->registers_per_thread}) : Cell();
       }},
      {Detail(IntegerColumn("shared_memory", "bytes", Better::kLower)),
       "Its shared memory for each block, static and dynamic.",
       [](const KernelRow& row) {
         return row.HasRegisters() ? Cell(int64_t{row.shape->static_shared_bytes} + row.shape->dynamic_shared_bytes)
                                   : Cell();
       }},
      {Detail(PercentColumn("occupancy", Better::kHigher)),
       "Warps of a multiprocessor that such blocks can fill at most, by registers, shared memory and block size "
       "(formula of NVIDIA's cuda_occupancy.h): not measured.",
       [](const KernelRow& row) {
         if (row.shape == nullptr) return Cell();
         const std::optional<double> part = TheoreticalOccupancy(*row.shape, row.compute_capability);
         return part ? Cell(100 * *part) : Cell();
       }},
      {Detail(TextColumn("name")), "The kernel's whole name.", &KernelRow::name},
  };
  columns.Find("model")->detail = !has_models;
  return columns;
}

// Launches that hooks saw but for which there is no GPU time: before measurement began, or while the program used CUPTI
// itself.
void AddNotes(const TraceModel& model, const KernelMap& groups, Table* table) {
  std::vector<bool> has_time(model.calls.size());
  for (const CallIndex call : model.gpu.launch_call) {
    for (CallIndex at = call; at != kNone; at = model.calls.parent[at]) has_time[at] = true;
  }
  const SameWork same_work(model);
  int64_t without = 0, captured = 0, first = 0, first_ns = 0;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const Op& op = model.ops[model.calls.op[call]];
    if (!op.launch() || same_work.IsNested(call) || model.StatusOf(call) != 0) continue;
    (op.captured ? captured : without) += op.captured || !has_time[call] ? 1 : 0;
  }
  for (const auto& [key, group] : groups) {
    first += group.first_count;
    first_ns += group.first_ns;
  }
  const auto note = [&](int64_t count, absl::string_view what) {
    if (count > 0) table->Note(count, " launches were ", what, ".");
  };
  table->Note(first, " first launches (", HumanTime(first_ns), ") are in the totals, not in means.");
  note(captured, "captured into CUDA graphs instead of executed");
  note(without, "seen of which no time of a GPU is known");
}

Table GpuKernelsTable(const TraceModel& model, const TableOptions& options) {
  const Collector collector(model, options);
  const KernelMap groups = collector.Collect();
  int64_t all_ns = 0;
  std::set<std::string> models;
  for (const auto& [key, group] : groups) {
    all_ns += group.total_ns;
    models.insert(key.model);
  }
  models.erase("");
  const TypedColumns<KernelRow> columns = GpuKernelsColumns(models.size() > 1, all_ns, collector.steps());
  Table table = NewTable("kernels", "Kernels by GPU time, by layer and by the op they ran for", columns);
  for (const KernelGroup* group : ByWeight(groups, &KernelGroup::total_ns)) {
    AddRow(columns, {*group, StatisticsOf(*group), ShapeOf(model, *group)}, &table);
  }
  AddNotes(model, groups, &table);
  return table;
}

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
  return {is_known ? op.kernel_name : kNotKnown, is_known ? op.kernel_short : kNotKnown, std::move(launched_by)};
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
LaunchedKernels Collect(const TraceModel& model, StepIndex& steps) {
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
      const uint32_t step = steps.OfCall(call);
      group.steady_calls += step != kNone && steps.steps()[step].is_steady ? 1 : 0;
    }
  }
  for (const AggregateRow& row : model.aggregates) {
    const Op& op = model.ops[row.op];
    const int64_t calls = row.count - row.nested_count;
    if (!op.launch() || calls == 0) continue;
    LaunchedKernel& group = GroupOf(KeyOf(op, kNotKnown), groups);
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

void AddNotes(const TraceModel& model, const RunTotals& totals, const LaunchedKernels& groups, Table* table) {
  int64_t calls = 0, captured = 0, ns = 0, graphs = 0;
  for (const auto& [key, group] : groups) {
    calls += group.calls;
    captured += group.captured;
    ns += group.total_ns;
  }
  if (groups.empty()) return;
  table->Note(calls, " launches took the host ", HumanTime(ns), "; ", captured,
              " more were captured into CUDA graphs. How long the kernels ran is not known.");
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    if (IsGraphLaunch(model.ops[i])) graphs += totals.ops[i].calls - totals.ops[i].nested_calls;
  }
  if (graphs > 0) {
    table->Note(graphs, " launches of CUDA graphs repeat captured launches; they are not in `calls`.");
  }
}

}  // namespace

std::string GpuAskerOf(const TraceModel& model, GpuIndex activity) {
  const CallIndex call = model.gpu.call[activity];
  if (call != kNone) {
    const bool is_library = IsLibraryOp(model.ops[model.calls.op[call]]);
    const CallIndex asker = is_library ? call : EnclosingLibraryOp(model, call);
    if (asker != kNone) {
      const std::string label = KindAndDirection(model.ops[model.calls.op[asker]]);
      return std::string(absl::StripPrefix(label, "capture:"));
    }
  }
  const ScopeIndex scope = model.gpu.scope.empty() ? kNone : model.gpu.scope[activity];
  if (scope != kNone) {
    return FactsOf(model.scopes.look[scope].kind).is_bracket ? "application"
                                                             : model.names[model.scopes.look[scope].name];
  }
  return call == kNone ? kNotKnown : "application";
}

std::vector<bool> FirstLaunches(const TraceModel& model) {
  const GpuActivityColumns& gpu = model.gpu;
  absl::flat_hash_map<std::pair<ProcessIndex, NameIndex>, GpuIndex> first_of;
  for (GpuIndex activity = 0; activity < gpu.size(); ++activity) {
    if (gpu.kernel[activity] == kNone || model.gpu_kernels[gpu.kernel[activity]].name == kNone) continue;
    const ProcessIndex process = model.gpu_devices[gpu.device[activity]].process;
    const NameIndex name = model.gpu_kernels[gpu.kernel[activity]].name;
    GpuIndex& first = first_of.try_emplace({process, name}, activity).first->second;
    if (GpuAskedNs(model, activity) < GpuAskedNs(model, first)) first = activity;
  }
  std::vector<bool> is_first(gpu.size());
  for (const auto& [key, activity] : first_of) is_first[activity] = true;
  return is_first;
}

absl::StatusOr<Table> KernelsTable(const TraceModel& model, const TableOptions& options) {
  if (GpuTimesOf(model, options) == GpuTimes::kOfKernels) return GpuKernelsTable(model, options);
  const bool any = absl::c_any_of(model.ops, [](const Op& op) { return op.launch(); });
  const std::string title = "Kernel launches, by name and by launching op";
  if (!any) return NewTable("kernels", title, KernelsColumns(0, 0));
  StepIndex steps(model, options.analysis->steps());
  const LaunchedKernels groups = Collect(model, steps);
  int64_t all_ns = 0;
  for (const auto& [key, group] : groups) all_ns += group.total_ns;
  const auto order =
      ByWeight(groups, [](const LaunchedKernel& group) { return std::pair(group.all(), group.total_ns); });
  Table table = NewTable(
      "kernels", title,
      KernelsColumns(all_ns, absl::c_count_if(steps.steps(), [](const NumberedStep& step) { return step.is_steady; })),
      order);
  AddNotes(model, *options.totals, groups, &table);
  return table;
}

}  // namespace dlhook::analyzer::tables
