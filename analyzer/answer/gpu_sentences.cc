// What GPUs did in the steps: see sentences.h.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "analyzer/answer/sentences.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/tables/network/layer_sums.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr double kWorthSayingOfGpu = 0.05;  // of a step, or of all GPU work

constexpr double kGpuCounts = 0.5;  // of the time: what a GPU does is as important as what its host does
constexpr size_t kMostOpsSaid = 4;
constexpr double kWorthSayingOfOp = 5;  // percent of the time

// " (MFU at least 2.4 %)", as in the note of the table layers; empty: not known.
std::string UtilizationText(const LayerSums& sums) {
  const std::optional<LayerSums::Utilization> used = sums.GpuUtilization();
  return used ? absl::StrFormat(" (MFU at least %.2g %%)", used->model_percent) : "";
}

// "gemm 40 %, softmax 20 %": what GPUs do for the longest time, as in the table layers by op; empty: nothing stands out.
std::string GpuOpsText(const LayerGroups& groups, const LayerSums& sums) {
  std::map<std::string, int64_t> ns_of;
  for (GroupIndex i = 0; i < sums.groups.size(); ++i) {
    const bool is_communication = i == groups.communication();
    if (!groups.IsLayerGroup(i) && !is_communication) continue;
    const std::string& label = groups.groups()[i].label;
    ns_of[is_communication ? "communication" : std::string(absl::StripPrefix(label, "aten::"))] +=
        sums.groups[i].gpu_share_ns;
  }
  std::vector<std::pair<double, std::string>> ops;
  for (const auto& [op, ns] : ns_of) {
    const double percent = 100 * static_cast<double>(ns) / static_cast<double>(sums.gpu_total_ns);
    if (percent >= kWorthSayingOfOp) ops.emplace_back(-percent, op);
  }
  absl::c_sort(ops);
  if (ops.size() > kMostOpsSaid) ops.resize(kMostOpsSaid);
  return absl::StrJoin(ops, ", ", [](std::string* out, const auto& op) {
    absl::StrAppendFormat(out, "%s %.0f %%", op.second, -op.first);
  });
}

}  // namespace

GpuPace PaceOf(const StepFacts& facts) {
  const StepTrack* const track = facts.HasGpuTimes() ? facts.WholeTrack() : nullptr;
  if (track == nullptr) return {};
  const std::vector<Step>& steady = facts.steps().tracks.front().steps;
  const std::vector<AskedWork> works = AskedWorkOf(facts.model(), *track);
  GpuPace pace;
  double all = 0, ending = 0, behind = 0;
  auto next = steady.begin();
  for (size_t i = 0; i < works.size() && next != steady.end(); ++i) {
    if (track->steps[i].start_ns != next->start_ns) continue;
    const Step& step = *next++;
    if (works[i].end_ns == INT64_MIN) continue;
    ++all;
    if (i > 0 && works[i - 1].end_ns > step.start_ns) {
      ++behind;
      pace.work_ns += static_cast<double>(works[i].end_ns - works[i - 1].end_ns);
    }
    if (works[i].asked_ns == INT64_MIN) continue;
    ++ending;
    pace.asked_ns += static_cast<double>(works[i].asked_ns - step.start_ns);
  }
  pace.work_ns = 2 * behind > all ? pace.work_ns / behind : 0;
  pace.asked_ns = 2 * ending > all ? pace.asked_ns / ending : 0;
  return pace;
}

bool IsOfGpu(const StepFacts& facts, const GpuPace& pace) {
  return (pace.asked_ns > 0 && pace.asked_ns < kGpuCounts * facts.step_ns()) ||
         pace.work_ns >= (1 + kWorthSayingOfGpu) * facts.step_ns();
}

std::string PaceSentence(const StepFacts& facts, const GpuPace& pace) {
  if (pace.asked_ns > 0 && pace.asked_ns < (1 - kWorthSayingOfGpu) * facts.step_ns()) {
    return absl::StrCat(" It ends with its GPU work; the host has asked for the last of it after ",
                        HumanTime(pace.asked_ns), ".");
  }
  if (pace.work_ns < (1 + kWorthSayingOfGpu) * facts.step_ns()) return "";
  return absl::StrCat(" That is the host's time: it runs ahead of the GPU, which takes ", HumanTime(pace.work_ns),
                      " for each.");
}

std::vector<std::string> GpuRemarks(const StepFacts& facts) {
  std::vector<std::string> remarks;
  if (!facts.HasGpuTimes() || !facts.HasSteps()) return remarks;
  const TraceModel& model = facts.model();
  const std::vector<MeasuredTime> times = MeasuredTimes(model, facts.options().analysis->steps());
  const std::vector<DeviceWork> works = WorkOfDevices(model, times);
  if (works.empty()) return remarks;
  double busy = 0;
  int64_t busy_ns = 0, overlapped_ns = 0;
  const std::vector<GpuTimeline> timelines = GpuTimelines(model);
  for (const DeviceWork& work : works) {
    const IntervalSet& time = times[model.gpu_devices[work.device].process].time;
    if (time.total_ns() == 0) continue;
    busy += static_cast<double>(work.Busy().total_ns()) / static_cast<double>(time.total_ns());
    busy_ns += work.Busy().total_ns();
    overlapped_ns += CoveredIn(timelines[work.device].compute_twice, time);
  }
  // Work without a call may be done for a step long after it: where that is most of all, steps say nothing about GPUs.
  double all_ns = 0, unlinked_ns = 0, unlinked_outside_ns = 0;
  for (GpuIndex i = 0; i < model.gpu.size(); ++i) {
    const auto ns = static_cast<double>(model.gpu.DurationNs(i));
    const IntervalSet& time = times[model.gpu_devices[model.gpu.device[i]].process].time;
    all_ns += ns;
    if (model.gpu.thread[i] != kNone) continue;
    unlinked_ns += ns;
    unlinked_outside_ns += time.CoveredNs(model.gpu.start_ns[i], model.gpu.end_ns[i]) == 0 ? ns : 0;
  }
  if (2 * unlinked_outside_ns <= all_ns) {
    const TableOptions& options = facts.options();
    const std::vector<StepSet> sets = StepSetsOf(options.analysis->steps(), facts.steps().kind);
    const StepSet set = sets.empty() ? StepSet() : sets.front();
    const LayerGroups groups(model, facts.attribution(), LayersBy::kOp, 0);
    const LayerSums sums = SumLayers(model, *options.analysis, groups, *options.totals, set, options.peaks);
    busy /= static_cast<double>(works.size());
    remarks.push_back(
        absl::StrFormat("GPUs are busy %.0f %% of the time%s: see table gpu_idle.", 100 * busy, UtilizationText(sums)));
    const std::string ops = busy >= kGpuCounts && sums.gpu_total_ns > 0 ? GpuOpsText(groups, sums) : "";
    if (!ops.empty()) remarks.push_back(absl::StrCat("By operation: ", ops, " (table layers --by op)."));
  }
  if (overlapped_ns > 0 && static_cast<double>(overlapped_ns) >= kWorthSayingOfGpu * static_cast<double>(busy_ns)) {
    remarks.push_back(absl::StrFormat(
        "In %.0f %% of it kernels overlap: GPU times below count each in full (table layers, gpu_share: divided).",
        100 * static_cast<double>(overlapped_ns) / static_cast<double>(busy_ns)));
  }
  if (unlinked_ns > kWorthSayingOfGpu * all_ns) {
    remarks.push_back(absl::StrCat("Of ", HumanTime(all_ns), " of GPU work in the run, ", HumanTime(unlinked_ns),
                                   " are not linked to a call: for which step they were done is not known."));
  }
  return remarks;
}

}  // namespace dlhook::analyzer::answer
