// What the answer says of the run as a whole: what ran where, and its memory.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/answer/sentences.h"
#include "analyzer/findings/rules.h"
#include "analyzer/model/release.h"
#include "analyzer/table/table_ops.h"
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

}  // namespace dlhook::analyzer::answer
