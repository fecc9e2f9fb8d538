// How busy the machine was: see machine_load.h.
#include "analyzer/work/machine_load.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline work {
namespace {

constexpr size_t kLeastSamples = 8;  // during the steps: what a step took is interpolated between two of them

using LoadSamples = absl::Span<const LoadSample>;

struct Taken {
  double cpu_ns = 0;
  double first_thread_cpu_ns = 0;
  double waiting_ns = 0;
  double throttled_ns = 0;
  PageFaults faults;
};

LoadSamples LoadSamplesOf(const TraceModel& model, ProcessIndex process) {
  const auto less = [](const LoadSample& sample, ProcessIndex index) { return sample.process < index; };
  const auto begin = std::lower_bound(model.loads.begin(), model.loads.end(), process, less);
  const auto end = std::lower_bound(begin, model.loads.end(), process + 1, less);
  return {model.loads.data() + (begin - model.loads.begin()), static_cast<size_t>(end - begin)};
}

Taken Between(const LoadSample& from, const LoadSample& to, double part) {
  const auto between = [&](int64_t LoadSample::*value) {
    return static_cast<double>(from.*value) + part * static_cast<double>(to.*value - from.*value);
  };
  return {.cpu_ns = between(&LoadSample::cpu_ns),
          .first_thread_cpu_ns = between(&LoadSample::first_thread_cpu_ns),
          .waiting_ns = between(&LoadSample::waiting_ns),
          .throttled_ns = between(&LoadSample::throttled_ns),
          .faults = {.count = between(&LoadSample::page_faults),
                     .system_ns = between(&LoadSample::system_ns),
                     .resident_bytes = between(&LoadSample::resident_bytes)}};
}

// Up to a time, interpolated between two samples.
Taken TakenUntil(LoadSamples samples, int64_t time_ns) {
  const auto after = std::upper_bound(samples.begin(), samples.end(), time_ns,
                                      [](int64_t ns, const LoadSample& sample) { return ns < sample.time_ns; });
  if (after == samples.begin() || after == samples.end()) {
    const LoadSample& edge = after == samples.begin() ? samples.front() : samples.back();
    return Between(edge, edge, 0);
  }
  const LoadSample& from = *std::prev(after);
  const double part = static_cast<double>(time_ns - from.time_ns) / static_cast<double>(after->time_ns - from.time_ns);
  return Between(from, *after, part);
}

void Add(const Taken& taken, double factor, Taken& sum) {
  sum.cpu_ns += factor * taken.cpu_ns;
  sum.first_thread_cpu_ns += factor * taken.first_thread_cpu_ns;
  sum.waiting_ns += factor * taken.waiting_ns;
  sum.throttled_ns += factor * taken.throttled_ns;
  sum.faults.count += factor * taken.faults.count;
  sum.faults.system_ns += factor * taken.faults.system_ns;
  sum.faults.resident_bytes += factor * taken.faults.resident_bytes;
}

Taken PerStep(const TraceModel& model, const ComparedSteps& steps) {
  Taken sum;
  const double share = 1 / static_cast<double>(std::max<int64_t>(steps.count(), 1));
  for (const StepTrack& track : steps.tracks) {
    const LoadSamples samples = LoadSamplesOf(model, track.process);
    for (const Step& step : track.steps) {
      Add(TakenUntil(samples, step.end_ns), share, sum);
      Add(TakenUntil(samples, step.start_ns), -share, sum);
    }
  }
  return sum;
}

// LoadSamples between the start of the first step and the end of the last.
struct SamplesInside {
  std::vector<const LoadSample*> samples;
  bool are_enough = true;  // of each process
};

SamplesInside SamplesIn(const TraceModel& model, const ComparedSteps& steps) {
  SamplesInside inside;
  for (const StepTrack& track : steps.tracks) {
    if (track.steps.empty()) continue;
    const size_t before = inside.samples.size();
    for (const LoadSample& sample : LoadSamplesOf(model, track.process)) {
      const bool is_in = sample.time_ns >= track.steps.front().start_ns && sample.time_ns <= track.steps.back().end_ns;
      if (is_in) inside.samples.push_back(&sample);
    }
    inside.are_enough = inside.are_enough && inside.samples.size() - before >= kLeastSamples;
  }
  return inside;
}

void Summarize(const std::vector<const LoadSample*>& samples, MachineLoad& load) {
  std::vector<uint32_t> threads;
  uint64_t sum_mhz = 0;
  for (const LoadSample* sample : samples) {
    sum_mhz += sample->frequency_mhz;
    load.runnable += static_cast<double>(sample->runnable) / static_cast<double>(samples.size());
    load.processors = std::max(load.processors, sample->processors);
    load.faults.cost_ns = std::max(load.faults.cost_ns, sample->page_fault_ns);
    threads.push_back(sample->threads);
  }
  load.frequency_mhz = static_cast<uint32_t>(sum_mhz / samples.size());
  std::nth_element(threads.begin(), threads.begin() + static_cast<std::ptrdiff_t>(threads.size() / 2), threads.end());
  load.threads = threads[threads.size() / 2];
}

}  // namespace

std::string MachineLoad::Text() const {
  if (!is_known) return "the machine's load is not known";
  return absl::StrCat("CPU time ", HumanTime(cpu_ns), ", waiting for a processor ", HumanTime(waiting_ns),
                      cpu_samples.empty() ? "" : " a step", "; ", absl::StrFormat("%.1f", runnable),
                      " threads wanted the machine's ", processors, processors == 1 ? " processor" : " processors",
                      throttled_ns > 0 ? absl::StrCat("; stopped by its quota ", HumanTime(throttled_ns)) : "",
                      frequency_mhz > 0 ? absl::StrCat("; ", frequency_mhz, " MHz") : "");
}

const ComparedSteps& StepsOrRun(const TraceModel& model, const ComparedSteps& steps, ComparedSteps* run) {
  if (steps.count() > 0 || model.processes.size() != 1) return steps;
  run->tracks.emplace_back();
  Step& whole = run->tracks.front().steps.emplace_back();
  whole.start_ns = model.processes.front().start_ns;
  whole.end_ns = model.processes.front().end_ns;
  return *run;
}

MachineLoad FindLoad(const TraceModel& model, const ComparedSteps& compared, const std::vector<ComparedSteps>& blocks) {
  MachineLoad load;
  ComparedSteps run;
  const ComparedSteps& steps = StepsOrRun(model, compared, &run);
  const SamplesInside inside = SamplesIn(model, steps);
  if (inside.samples.empty()) return load;
  Summarize(inside.samples, load);
  load.is_known = inside.are_enough;
  if (!load.is_known) return load;
  Taken taken = PerStep(model, steps);
  taken.faults.cost_ns = load.faults.cost_ns;
  load.cpu_ns = taken.cpu_ns;
  load.first_thread_cpu_ns = taken.first_thread_cpu_ns;
  load.waiting_ns = taken.waiting_ns;
  load.throttled_ns = taken.throttled_ns;
  load.faults = taken.faults;
  if (blocks.empty()) return load;
  BlockMeans cpu, waiting;
  for (const ComparedSteps& block : blocks) {
    const Taken part = PerStep(model, block);
    cpu.push_back(part.cpu_ns);
    waiting.push_back(part.waiting_ns);
  }
  load.cpu_samples = {std::move(cpu)};
  load.waiting_samples = {std::move(waiting)};
  return load;
}

}  // namespace dlhook::analyzer::work
