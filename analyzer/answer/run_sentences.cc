// What the answer says of the run as a whole: what ran where, and its memory.

#include "analyzer/answer/sentences.h"
#include "analyzer/findings/rules.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/model/release.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/tables/network/layer_sums.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr double kWorthSayingOfRun = 0.05;  // of the run: time before and after the steps
constexpr double kWorthMemory = 0.01;       // of the device of which most is held

std::string DeviceOf(const StepFacts& facts) {
  std::map<std::string, std::set<std::string>> devices;  // by name
  for (const GpuDevice& device : facts.model().gpu_devices) {
    devices[device.name.empty() ? "GPU" : device.name].insert(
        device.uuid.empty() ? absl::StrCat(device.process, "/", device.ordinal) : device.uuid);
  }
  if (devices.empty() && facts.model().UsesGpu()) return "GPU (its times are not known)";
  if (devices.empty()) {
    const uint32_t processors = facts.processors();
    return processors == 0 ? "CPU" : absl::StrCat("CPU (", Many(processors, "processor"), ")");
  }
  std::vector<std::string> texts;
  for (const auto& [name, of] : devices) texts.push_back(absl::StrCat(of.size(), " ", name));
  return absl::StrJoin(texts, ", ");
}

// " Recording was stopped for 2.91 s of it …" Of several processes the one in which it was longest.
std::string StopSentence(const TraceModel& model) {
  int64_t stopped_ns = 0;
  for (ProcessIndex process = 0; process < model.processes.size(); ++process)
    stopped_ns = std::max(stopped_ns, StoppedNs(model, process, model.start_ns, model.end_ns));
  if (stopped_ns == 0) return "";
  return absl::StrCat(" Recording was stopped for ", HumanTime(static_cast<double>(stopped_ns)),
                      " of it (by dlhook ctl, DLHOOK_START or the program): nothing here covers that time.");
}

// ", 12.3 s of it before the first step, 4.20 s after the last one".
std::string AroundSteps(const StepFacts& facts) {
  const TimeAround around = TimeAroundSteps(facts);
  const auto is_long = [&](double ns) {
    return around.run_ns > 0 && ns >= kWorthSayingOfRun * static_cast<double>(facts.model().wall_ns());
  };
  const char* const word = facts.steps().kind == StepKind::kInference ? "request" : "step";
  std::string text;
  if (is_long(around.before_ns))
    absl::StrAppend(&text, ", ", HumanTime(around.before_ns), " of it before the first ", word);
  if (is_long(around.after_ns)) {
    absl::StrAppend(&text, ", ", HumanTime(around.after_ns),
                    text.empty() ? absl::StrCat(" of it after the last ", word) : " after the last");
  }
  return text;
}

// ", memory up to 1.20 GiB": of the process that took most.
std::string MostMemory(const TraceModel& model) {
  int64_t most_bytes = 0;
  for (const LoadSample& load : model.loads) most_bytes = std::max(most_bytes, load.resident_bytes);
  if (most_bytes == 0) return "";
  return absl::StrCat(", memory up to ", HumanCell(most_bytes, "bytes"),
                      model.processes.size() > 1 ? " in one process" : "");
}

// "1 recorded thread of 9": those that only computed are known where the launcher looked at them.
std::string ThreadsOf(const TraceModel& model) {
  const auto others = absl::c_count_if(
      model.states, [](const CounterSeries& series) { return series.thread == kNone && series.tid != 0; });
  const auto recorded = static_cast<size_t>(absl::c_count_if(model.threads, std::not_fn(IsOwnThread)));
  const size_t all = recorded + static_cast<size_t>(others);
  return absl::StrCat(Many(recorded, "recorded thread"), others == 0 ? "" : absl::StrCat(" of ", all));
}

// " (rank 3 of 8)", where not all ranks of the job are in the run.
std::string RanksHere(const TraceModel& model) {
  std::set<std::string> ranks;
  size_t all = 0;
  for (const ProcessInfo& process : model.processes) {
    size_t count = 0;
    if (absl::SimpleAtoi(RankCountOf(process), &count)) all = std::max(all, count);
    if (std::string rank = RankOf(process); !rank.empty()) ranks.insert(std::move(rank));
  }
  if (ranks.empty() || ranks.size() >= all) return "";
  return ranks.size() == 1 ? absl::StrCat(" (rank ", *ranks.begin(), " of ", all, ")")
                           : absl::StrCat(" (", ranks.size(), " of ", all, " ranks)");
}

}  // namespace

std::string Many(size_t count, absl::string_view one) { return absl::StrCat(count, " ", one, count == 1 ? "" : "s"); }

int64_t StoppedNs(const TraceModel& model, ProcessIndex process, int64_t start_ns, int64_t end_ns) {
  int64_t stopped_ns = 0;
  for (const RecordingStop& stop : model.recording_stops) {
    if (stop.process != process) continue;
    stopped_ns += std::max<int64_t>(std::min(stop.end_ns, end_ns) - std::max(stop.start_ns, start_ns), 0);
  }
  return stopped_ns;
}

std::string WhatRan(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  std::set<std::string> programs;
  for (const ProcessInfo& process : model.processes) programs.insert(ProgramOf(process));
  std::vector<std::string> words(programs.begin(), programs.end());
  if (words.size() > 3) words.resize(3);
  std::vector<std::string> frameworks;
  for (const std::string& name : facts.frameworks()) {
    std::set<std::string> releases;
    for (const ProcessInfo& process : model.processes) {
      if (std::string release = ReleaseOf(process, name); !release.empty()) releases.insert(std::move(release));
    }
    frameworks.push_back(releases.empty() ? name : absl::StrCat(name, " ", absl::StrJoin(releases, "/")));
  }
  return absl::StrCat(
      model.name, ": ", absl::StrJoin(words, ", "), programs.size() > 3 ? " …" : "", frameworks.empty() ? "" : ", ",
      absl::StrJoin(frameworks, ", "), ", ", DeviceOf(facts), ", ",
      absl::StrFormat("%d %s", model.processes.size(), model.processes.size() == 1 ? "process" : "processes"),
      RanksHere(model), ", ", ThreadsOf(model), ", ", HumanTime(static_cast<double>(model.wall_ns())),
      AroundSteps(facts), MostMemory(model), ".", StopSentence(model));
}

std::string MemorySentence(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  if (model.memory.empty()) return "";
  const Attribution& attribution = facts.attribution();
  // Of each device the process that holds most.
  std::map<uint32_t, const DeviceMemory*> most;
  int64_t largest = 0;
  for (const DeviceMemory& device : MemoryOfDevices(facts)) {
    const DeviceMemory*& found = most[device.device];
    if (found == nullptr || device.peak_bytes > found->peak_bytes) found = &device;
    largest = std::max(largest, device.peak_bytes);
  }
  std::vector<std::string> parts;
  for (const auto& [number, device] : most) {
    if (static_cast<double>(device->peak_bytes) < kWorthMemory * static_cast<double>(largest)) continue;
    parts.push_back(PeakSentence(model, attribution, *device));
    const auto kept = KeptByLayer(model, *device);
    const auto heaviest = MostOf(kept, [](const auto& of) { return of.most_bytes; });
    if (heaviest == kept.end()) continue;
    absl::StrAppend(&parts.back(), "; the layer that keeps most for backward: ", attribution.NameOf(heaviest->first),
                    ", ", HumanCell(heaviest->second.most_bytes, "bytes"));
  }
  return absl::StrCat(IsMemoryOfBeginning(model) ? "Peak, in the beginning, of " : "Peak of ",
                      absl::StrJoin(parts, "; of "), ".");
}

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
         (pace.work_ns > 0 && pace.work_ns >= (1 + kWorthSayingOfGpu) * facts.step_ns());
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
    const LayerGroups groups(model, facts.attribution(), By::kOp, 0);
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
