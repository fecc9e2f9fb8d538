// What calls on the host cost a GPU: see gpu_rules.h.
#include <algorithm>
#include <map>

#include "analyzer/findings/gpu_rules.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/layers/functions/askers.h"
#include "analyzer/tables/gpu/gpu_tables.h"

namespace dlhook::analyzer::inline findings {
namespace {

// The GPU work requested by a call.
struct Asked {
  GpuDeviceIndex device = kNone;  // kNone: none, or not known
  Interval done;
};

std::vector<Asked> AskedByCalls(const TraceModel& model) {
  std::vector<Asked> asked(model.calls.size());
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    const CallIndex call = model.gpu.launch_call[activity];
    if (call == kNone) continue;
    asked[call] = {model.gpu.device[activity], {model.gpu.start_ns[activity], model.gpu.end_ns[activity]}};
  }
  return asked;
}

// Of `set`, what lies in one of the two or in both.
int64_t InEither(const IntervalSet& set, const Interval& a, const Interval& b) {
  const auto covered = [&](const Interval& part) { return set.CoveredNs(part.start_ns, part.end_ns); };
  return covered(a) + covered(b) - covered({std::max(a.start_ns, b.start_ns), std::min(a.end_ns, b.end_ns)});
}

}  // namespace

AskedTimes::AskedTimes(const TraceModel& model) {
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    const ThreadIndex thread = model.gpu.thread[activity];
    if (thread != kNone) times_[thread].emplace_back(GpuAskedNs(model, activity), model.gpu.DurationNs(activity));
  }
  for (auto& [thread, times] : times_) {
    std::sort(times.begin(), times.end());
    int64_t sum_ns = 0;
    for (auto& [asked_ns, gpu_ns] : times) gpu_ns = sum_ns += gpu_ns;
  }
}

int64_t AskedTimes::GpuNs(ThreadIndex thread, int64_t start_ns, int64_t end_ns) const {
  const auto times = times_.find(thread);
  if (times == times_.end()) return -1;
  const auto at = [&](int64_t ns) {
    return std::lower_bound(times->second.begin(), times->second.end(), std::pair(ns, INT64_MIN));
  };
  const auto first = at(start_ns), end = at(end_ns);
  if (first == end) return -1;
  return (end - 1)->second - (first == times->second.begin() ? 0 : (first - 1)->second);
}

HostCalls HostCallsOf(const StepFacts& facts, const std::function<bool(CallIndex)>& counts) {
  const TraceModel& model = facts.model();
  HostCalls sums;
  if (GpuTimesOf(model) != GpuTimes::kOfKernels || !facts.HasSteps()) return sums;
  const std::vector<Asked> asked = AskedByCalls(model);
  const GpuRun run(model, facts.options().analysis->steps());
  std::map<ProcessIndex, int> devices_of_process;
  for (GpuDeviceIndex device : run.devices()) ++devices_of_process[run.ProcessOf(device)];
  Askers askers(model, facts.attribution());
  std::map<std::string, double> by_line;
  for (GpuDeviceIndex device : run.devices()) {
    const ProcessIndex process = run.ProcessOf(device);
    const IntervalSet& steady = run.SteadyTime(device);
    const IntervalSet idle = steady.Difference(run.TimelineOf(device).compute);
    const double means = static_cast<double>(std::max<int64_t>(run.Steps(device), 1) * std::ssize(run.devices()));
    for (CallIndex call = 0; call < model.calls.size(); ++call) {
      if (!counts(call) || model.threads[model.calls.thread[call]].process != process) continue;
      const CallIndex outer = model.calls.parent[call];
      if (outer != kNone && counts(outer)) continue;
      const bool is_its = asked[call].device == kNone ? devices_of_process[process] == 1 : asked[call].device == device;
      const int64_t start_ns = model.calls.start_ns[call], end_ns = start_ns + model.calls.duration_ns[call];
      if (!is_its || steady.CoveredNs(start_ns, start_ns + 1) == 0) continue;
      const double idle_ns = static_cast<double>(InEither(idle, {start_ns, end_ns}, asked[call].done)) / means;
      sums.calls += 1 / means;
      sums.idle_ns += idle_ns;
      by_line[askers.LineOf(call)] += idle_ns;
    }
  }
  double most_ns = 0;
  for (const auto& [line, ns] : by_line) {
    if (ns <= most_ns) continue;
    most_ns = ns;
    sums.line = line;
  }
  return sums;
}

}  // namespace dlhook::analyzer::findings
