// The GPU rows of the table `summary`: see metrics.h.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/run/gpu_summary.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr size_t kTop = 3;

using Kind = GpuActivityKind;

std::string DeviceLabel(const TraceModel& model, const GpuDevice& device) {
  std::string label = absl::StrCat("gpu_busy:", device.ordinal);
  if (model.processes.size() > 1) absl::StrAppend(&label, " of ", ProcessLabel(model, device.process));
  return label;
}

std::string SourceLabel(const DeviceWork& work) {
  if (work.is_cupti && work.is_events) return "CUPTI and events";
  return work.is_events ? "pairs of events" : "CUPTI";
}

void AddBusy(const TraceModel& model, const TableOptions& options, Metrics& metrics) {
  const std::vector<MeasuredTime> times = MeasuredTimes(model, options.analysis->steps());
  for (const DeviceWork& work : WorkOfDevices(model, times)) {
    const GpuDevice& device = model.gpu_devices[work.device];
    const MeasuredTime& measured = times[device.process];
    const int64_t whole_ns = measured.time.total_ns();
    const auto part = [&](const IntervalSet& set) {
      return whole_ns == 0 ? 0.0 : 100.0 * static_cast<double>(set.total_ns()) / static_cast<double>(whole_ns);
    };
    const int64_t busy_ns = work.Busy().total_ns();
    const std::string time = measured.steps == 0 ? "the process's time" : absl::StrCat(measured.steps, " steady steps");
    const std::string note = absl::StrFormat(
        "of %s; compute %.3g %%, copies and sets %.3g %%, communication %.3g %%; by %s%s%s", time, part(work.compute),
        part(work.copy), part(work.communication), SourceLabel(work), device.name.empty() ? "" : "; ", device.name);
    metrics.TimeOf(DeviceLabel(model, device), busy_ns, whole_ns, note);
  }
}

void AddActivities(const TraceModel& model, Metrics& metrics) {
  constexpr std::pair<Kind, const char*> kWords[] = {
      {Kind::kKernel, "kernels"}, {Kind::kCopy, "copies"}, {Kind::kSet, "sets"}, {Kind::kOp, "calls timed as a whole"},
      {Kind::kGraph, "graphs"},
  };
  std::vector<std::string> words;
  for (const auto& [kind, word] : kWords) {
    const auto count = std::count(model.gpu.kind.begin(), model.gpu.kind.end(), kind);
    if (count > 0) words.push_back(absl::StrCat(word, " ", count));
  }
  metrics.Count("gpu_activities", static_cast<int64_t>(model.gpu.size()), absl::StrJoin(words, ", "));
}

// The largest of them over the whole run.
void AddTop(const std::string& metric, const std::map<std::string, int64_t>& sums_ns, int64_t all_ns,
            const std::string& note, Metrics& metrics) {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [name, sum_ns] : sums_ns) order.emplace_back(-sum_ns, name);
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < std::min(kTop, order.size()); ++i) {
    const int64_t sum_ns = -order[i].first;
    metrics.TimeOf(absl::StrCat(metric, order[i].second), sum_ns, all_ns, note);
  }
}

}  // namespace

void AddGpuMetrics(const TraceModel& model, const TableOptions& options, Metrics& metrics) {
  const GpuActivityColumns& gpu = model.gpu;
  if (gpu.empty()) return;
  AddBusy(model, options, metrics);
  AddActivities(model, metrics);
  const Attribution& attribution = options.analysis->attribution();
  const std::vector<Place> places = GpuPlaces(model, attribution);
  std::map<std::string, int64_t> layers, kernels;
  int64_t all_ns = 0;
  for (GpuIndex activity = 0; activity < gpu.size(); ++activity) {
    const int64_t duration_ns = gpu.DurationNs(activity);
    all_ns += duration_ns;
    if (places[activity].layer != kNone) layers[attribution.layers[places[activity].layer].name] += duration_ns;
    const GpuKernelIndex kernel = gpu.kernel[activity];
    if (kernel != kNone && model.gpu_kernels[kernel].short_name != kNone) {
      kernels[model.names[model.gpu_kernels[kernel].short_name]] += duration_ns;
    }
  }
  AddTop("gpu_layer:", layers, all_ns, "one of the layers with most GPU time; of all durations on GPUs", metrics);
  AddTop("gpu_kernel:", kernels, all_ns, "one of the kernels with most GPU time; of all durations on GPUs", metrics);
}

}  // namespace dlhook::analyzer::tables
