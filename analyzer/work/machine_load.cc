#include "analyzer/work/machine_load.h"

#include "analyzer/table/table_ops.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline work {
namespace {

constexpr double kOthersThreads = 0.5;  // mean number of other programs' threads that is more than chance
constexpr double kAllOfThem = 0.85;     // of the processors; above this the program has the machine to itself
constexpr double kWantsOne = 0.1;       // of the time, for a thread that counts
constexpr int64_t kLeastSliceNs = 100'000'000, kMostSlices = 200;
constexpr size_t kLeastSamples = 8;  // during the steps: what a step took is interpolated between two of them

using LoadSamples = absl::Span<const LoadSample>;

// What a process has used up to a time.
struct Taken {
  double cpu_ns = 0, first_thread_cpu_ns = 0, waiting_ns = 0, throttled_ns = 0;
  double page_faults = 0, system_ns = 0, resident_bytes = 0;
};

constexpr std::pair<int64_t LoadSample::*, double Taken::*> kTaken[] = {
    {&LoadSample::cpu_ns, &Taken::cpu_ns},
    {&LoadSample::first_thread_cpu_ns, &Taken::first_thread_cpu_ns},
    {&LoadSample::waiting_ns, &Taken::waiting_ns},
    {&LoadSample::throttled_ns, &Taken::throttled_ns},
    {&LoadSample::page_faults, &Taken::page_faults},
    {&LoadSample::system_ns, &Taken::system_ns},
    {&LoadSample::resident_bytes, &Taken::resident_bytes}};

LoadSamples LoadSamplesOf(const TraceModel& model, ProcessIndex process) {
  const auto less = [](const LoadSample& sample, ProcessIndex index) { return sample.process < index; };
  const auto begin = absl::c_lower_bound(model.loads, process, less);
  const auto end = std::lower_bound(begin, model.loads.end(), process + 1, less);
  return {model.loads.data() + (begin - model.loads.begin()), static_cast<size_t>(end - begin)};
}

Taken Between(const LoadSample& from, const LoadSample& to, double part) {
  Taken taken;
  for (const auto& [of_sample, value] : kTaken)
    taken.*value = static_cast<double>(from.*of_sample) + part * static_cast<double>(to.*of_sample - from.*of_sample);
  return taken;
}

// Up to a time, interpolated between two samples. Nothing of a process that ended before its first sample.
Taken TakenUntil(LoadSamples samples, int64_t time_ns) {
  if (samples.empty()) return {};
  const auto after = std::ranges::upper_bound(samples, time_ns, {}, &LoadSample::time_ns);
  if (after == samples.begin() || after == samples.end()) {
    const LoadSample& edge = after == samples.begin() ? samples.front() : samples.back();
    return Between(edge, edge, 0);
  }
  const LoadSample& from = *std::prev(after);
  const double part = static_cast<double>(time_ns - from.time_ns) / static_cast<double>(after->time_ns - from.time_ns);
  return Between(from, *after, part);
}

void Add(const Taken& taken, double factor, Taken& sum) {
  for (const auto& [of_sample, value] : kTaken) sum.*value += factor * taken.*value;
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
  load.threads = MedianOf(threads);
}

double LengthOf(Interval time) { return static_cast<double>(time.end_ns - time.start_ns); }

// From the first step of any process to the last.
Interval SpanOf(const ComparedSteps& steps) {
  Interval span = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (const StepTrack& track : steps.tracks) {
    if (track.steps.empty()) continue;
    span.start_ns = std::min(span.start_ns, track.steps.front().start_ns);
    span.end_ns = std::max(span.end_ns, track.steps.back().end_ns);
  }
  return span;
}

double RunningIn(const TraceModel& model, Interval span) {
  double running = 0;
  const std::vector<LoadSample>& loads = model.loads;  // by process, then time
  for (size_t i = 1; i < loads.size(); ++i) {
    const bool is_in = loads[i - 1].time_ns >= span.start_ns && loads[i].time_ns <= span.end_ns;
    if (loads[i].process != loads[i - 1].process || !is_in) continue;
    running += static_cast<double>(loads[i].cpu_ns - loads[i - 1].cpu_ns) / LengthOf(span);
  }
  return running;
}

// A part of the time, as long as it counts: as the first threads waited in it, or a little if they did not.
struct Slice {
  Interval time;
  double weight = 0;
  double runnable = 0;
};

std::vector<Slice> SlicesOf(const TraceModel& model, const ComparedSteps& steps, Interval span) {
  const int64_t count = std::clamp<int64_t>((span.end_ns - span.start_ns) / kLeastSliceNs, 1, kMostSlices);
  std::vector<Slice> slices;
  double all = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length_ns = span.end_ns - span.start_ns;  // of a damaged trace many years
    const auto at = [&](int64_t n) { return span.start_ns + length_ns / count * n + length_ns % count * n / count; };
    Slice slice = {{at(i), at(i + 1)}};
    double samples = 0;
    for (const StepTrack& track : steps.tracks) {
      const LoadSamples of_process = LoadSamplesOf(model, track.process);
      slice.weight +=
          TakenUntil(of_process, slice.time.end_ns).waiting_ns - TakenUntil(of_process, slice.time.start_ns).waiting_ns;
      const auto from = [&](int64_t time_ns) {
        return std::ranges::lower_bound(of_process, time_ns, {}, &LoadSample::time_ns);
      };
      const auto end = from(slice.time.end_ns);
      for (auto sample = from(slice.time.start_ns); sample < end; ++sample, ++samples)
        slice.runnable += sample->runnable;
    }
    if (samples == 0) continue;
    slice.runnable /= samples;
    slice.weight += LengthOf(slice.time) / 1000;
    all += slice.weight;
    slices.push_back(slice);
  }
  for (Slice& slice : slices) slice.weight /= all;
  return slices;
}

OwnThreads FindOwn(const TraceModel& model, const ComparedSteps& steps, uint32_t others_processors) {
  const Interval span = SpanOf(steps);
  OwnThreads own = {.running = RunningIn(model, span)};
  const std::vector<Slice> slices = SlicesOf(model, steps, span);
  std::set<ProcessIndex> processes;
  for (const ThreadStates& thread : ReadThreadStates(model)) {
    if (thread.tid == 0) continue;
    double wanted = 0;
    for (const Slice& slice : slices) {
      const StateSums sums = thread.In(slice.time);
      const double per_ns = slice.weight / LengthOf(slice.time);
      own.ran += per_ns * static_cast<double>(sums.running_ns);
      wanted += per_ns * static_cast<double>(sums.running_ns + sums.queued_ns);
    }
    own.wanted = own.wanted.value_or(0) + wanted;
    if (wanted < kWantsOne) continue;
    ++own.threads;
    processes.insert(thread.process);
  }
  own.processes = static_cast<uint32_t>(processes.size());
  double runnable = 0;
  for (const Slice& slice : slices) runnable += slice.weight * slice.runnable;
  const double others = runnable - own.wanted.value_or(0) - others_processors;
  own.others = others < kOthersThreads ? 0 : others;
  return own;
}

struct Parts {
  double own = 0, others = 0;
};

// Threads take turns. Those of the program make what each of them does `crowded` times as long, and others, by the
// processors that they take away, `taken` times; both together the product. Each part is the mean of what its threads
// cost alone and what they cost beside the others.
Parts PartsOf(const MachineLoad& load) {
  const OwnThreads& own = load.own;
  // How many of its own threads wait is not known without looks. Then only processors count: those on which the
  // program's threads do not run are used by others.
  if (!own.wanted) {
    const bool has_all = own.running >= kAllOfThem * load.allowed;
    const bool others_have = std::min<double>(load.runnable, load.processors) - own.running >= kOthersThreads;
    return {has_all && load.runnable > load.allowed ? 1.0 : 0.0, !has_all && others_have ? 1.0 : 0.0};
  }
  const double crowded = std::max(*own.wanted / load.allowed, 1.0);
  const double possible = std::min<double>(*own.wanted, load.allowed);
  const double taken = own.others > 0 && own.ran > 0 ? std::max(possible / own.ran, 1.0) : 1;
  const double all = crowded * taken - 1;
  if (all <= 0) return {};
  return {(crowded - 1) * (1 + taken) / 2 / all, (taken - 1) * (1 + crowded) / 2 / all};
}

}  // namespace

double MachineLoad::OthersPart() const { return PartsOf(*this).others; }
double MachineLoad::OwnPart() const { return PartsOf(*this).own; }

std::string MachineLoad::Text() const {
  if (!is_known) return "the machine's load is not known";
  return absl::StrCat("CPU time ", HumanTime(cpu_ns), ", waiting for a processor ", HumanTime(waiting_ns),
                      cpu_samples.empty() ? "" : " a step", "; ", absl::StrFormat("%.1f", runnable),
                      " threads competed for the machine's ", processors,
                      processors == 1 ? " processor" : " processors",
                      throttled_ns > 0 ? absl::StrCat("; stopped by its quota ", HumanTime(throttled_ns)) : "",
                      frequency_mhz > 0 ? absl::StrCat("; ", frequency_mhz, " MHz") : "");
}

const ComparedSteps& StepsOrRun(const TraceModel& model, const ComparedSteps& steps, ComparedSteps* run) {
  if (steps.count() > 0) return steps;
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    if (model.processes.size() > 1 && LoadSamplesOf(model, process).size() < kLeastSamples) continue;
    StepTrack& track = run->tracks.emplace_back();
    track.process = process;
    Step& whole = track.steps.emplace_back();
    whole.start_ns = model.processes[process].start_ns;
    whole.end_ns = model.processes[process].end_ns;
  }
  return *run;
}

MachineLoad FindLoad(const TraceModel& model, const ComparedSteps& compared, const std::vector<ComparedSteps>& blocks) {
  MachineLoad load;
  ComparedSteps run;
  const ComparedSteps& steps = StepsOrRun(model, compared, &run);
  const SamplesInside inside = SamplesIn(model, steps);
  if (inside.samples.empty()) return load;
  Summarize(inside.samples, load);
  load.allowed = load.processors;
  for (const ProcessInfo& process : model.processes) {
    if (process.processors > 0) load.allowed = std::min(load.allowed, process.processors);
  }
  load.own = FindOwn(model, steps, load.processors - load.allowed);
  load.is_known = inside.are_enough;
  if (!load.is_known) return load;
  const Taken taken = PerStep(model, steps);
  load.cpu_ns = taken.cpu_ns;
  load.first_thread_cpu_ns = taken.first_thread_cpu_ns;
  load.waiting_ns = taken.waiting_ns;
  load.throttled_ns = taken.throttled_ns;
  load.faults.count = taken.page_faults;
  load.faults.system_ns = taken.system_ns;
  load.faults.resident_bytes = taken.resident_bytes;
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
