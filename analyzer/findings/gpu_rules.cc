// Rules about calls during which the GPU computes nothing. What those about copies claim is subtracted from the cause "copies" of gpu-idle.
//
// copied-again: steps copy the same contents to the GPU again. The shim samples some bytes of each larger copy from the host (trace::Copy):
// equal samples of the same place in nearly all steps.
// pageable-copies: the driver stages an asynchronous copy of unpinned memory, which is slow and does not overlap with compute.
// small-copies: many copies to the GPU, each with the fixed cost of a call.
// gpu-allocations: steady steps allocate and free GPU memory, which frameworks' allocators keep; cudaFree waits for the GPU.

#include "absl/container/flat_hash_set.h"
#include "analyzer/findings/rules.h"
#include "analyzer/layers/functions/askers.h"
#include "analyzer/tables/gpu/gpu_tables.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr uint64_t kSmallBytes = 64 * 1024;  // up to here CUDA copies pageable memory without waiting
constexpr double kPageablePercent = 3;
constexpr double kSmallPercent = 5;
constexpr double kManyCopies = 10;  // per step

bool IsPageable(const Op& op) {
  const CopyCall* copy = op.copy();
  return copy && copy->asynchronous && copy->host_memory == HostMemory::kPageable && copy->bytes >= kSmallBytes;
}

bool IsSmall(const Op& op) {
  return op.copy() && op.copy()->direction == CopyDirection::kHostToDevice && op.copy()->bytes < kSmallBytes;
}

constexpr double kCopiedAgainPercent = 3;
constexpr double kNearlyAll = 0.9;  // of the steps
constexpr size_t kLeastSteps = 3;

struct Source {
  ProcessIndex process = 0;
  OpIndex op = 0;  // direction, bytes
  uint64_t address = 0;
  uint64_t contents = 0;
  auto operator<=>(const Source&) const = default;
};

constexpr double kGpuAllocationsLeastCalls = 0.5;  // per step; below this an allocator is still growing

bool IsAllocation(const Op& op) { return op.allocation() && op.allocation()->kind == AllocationKind::kDevice; }

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

// Calls on the host per mean step, averaged over the GPUs.
struct HostCalls {
  double calls = 0;
  // Time in which their GPU computes nothing while they, or the work they requested, run: an upper bound of the gain.
  double idle_ns = 0;
  std::string line;  // the line whose calls have most of this time; empty if not known
};

// Of nested calls, only the outermost counts. Zero if kernel times are not known.
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
  if (!by_line.empty() && MostOf(by_line)->second > 0) sums.line = MostOf(by_line)->first;
  return sums;
}

// Copies whose contents, as far as sampled, the same place had in nearly all steps.
absl::flat_hash_set<CallIndex> CopiedAgain(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  std::map<Source, std::vector<CallIndex>> copies;
  for (const CallIndex call : model.operands.call) {
    const absl::Span<const uint64_t> operands = model.OperandsOf(call);
    if (model.ops[model.calls.op[call]].copy() == nullptr || operands.size() < 4 || operands[3] == 0) continue;
    const ProcessIndex process = model.threads[model.calls.thread[call]].process;
    copies[{process, model.calls.op[call], operands[1], operands[3]}].push_back(call);
  }
  absl::flat_hash_set<CallIndex> again;
  for (const StepTrack& track : facts.steps().tracks) {
    if (track.steps.size() < kLeastSteps) continue;
    for (const auto& [source, calls] : copies) {
      if (source.process != track.process) continue;
      std::set<size_t> steps;
      for (const CallIndex call : calls) steps.insert(facts.StepAt(track.process, model.calls.start_ns[call]));
      steps.erase(kNone);
      if (static_cast<double>(steps.size()) < kNearlyAll * static_cast<double>(track.steps.size())) continue;
      again.insert(calls.begin(), calls.end());
    }
  }
  return again;
}

}  // namespace

std::vector<Finding> FindPageableCopies(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const absl::flat_hash_set<CallIndex> again = CopiedAgain(facts);
  const HostCalls copies = HostCallsOf(
      facts, [&](CallIndex call) { return IsPageable(model.ops[model.calls.op[call]]) && !again.contains(call); });
  if (!facts.IsAtLeast(copies.idle_ns, kPageablePercent)) return {};
  return {{.line = copies.line,
           .sentence = absl::StrFormat("%.1f asynchronous copies per step use memory that is not pinned, and the GPU "
                                       "computes nothing meanwhile: %s.",
                                       copies.calls, facts.PartOfStep(copies.idle_ns)),
           .gain_ns = copies.idle_ns,
           .evidence = "table copies: rows of pageable memory; table gpu_idle",
           .advice = "Pin the source: DataLoader(..., pin_memory=True), or x.pin_memory() once; then x.to(device, "
                     "non_blocking=True) returns at once, and copying the next batch overlaps with compute."}};
}

std::vector<Finding> FindSmallCopies(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const HostCalls copies = HostCallsOf(facts, [&](CallIndex call) { return IsSmall(model.ops[model.calls.op[call]]); });
  if (copies.calls <= kManyCopies) return {};
  const double gain_ns = copies.idle_ns * (copies.calls - 1) / copies.calls;
  if (!facts.IsAtLeast(gain_ns, kSmallPercent)) return {};
  return {{.line = copies.line,
           .sentence = absl::StrFormat(
               "%.0f copies of less than 64 KiB to the GPU per step, and it computes nothing meanwhile: %s.",
               copies.calls, facts.PartOfStep(copies.idle_ns)),
           .gain_ns = gain_ns,
           .basis = GainBasis::kComputed,
           .evidence = "table copies: sizes; one copy in the place of all of them would remain",
           .advice = "Stack them and copy once: torch.stack(values).to(device); make constants on the GPU (device=...) "
                     "before the loop."}};
}

std::vector<Finding> FindCopiedAgain(const StepFacts& facts) {
  const absl::flat_hash_set<CallIndex> again = CopiedAgain(facts);
  const HostCalls copies = HostCallsOf(facts, [&](CallIndex call) { return again.contains(call); });
  if (!facts.IsAtLeast(copies.idle_ns, kCopiedAgainPercent)) return {};
  return {
      {.line = copies.line,
       .sentence = absl::StrFormat(
           "%.1f copies per step transfer the same contents to the GPU again, and it computes nothing meanwhile: %s.",
           copies.calls, facts.PartOfStep(copies.idle_ns)),
       .gain_ns = copies.idle_ns,
       .evidence = "8 blocks of 128 bytes of each copy, equal in nine of ten steps or more; the rest was not compared",
       .advice = "Copy it once before the loop and keep it on the GPU: x = x.to(device), register_buffer for constants "
                 "of a module."}};
}

std::vector<Finding> FindGpuAllocations(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const HostCalls calls =
      HostCallsOf(facts, [&](CallIndex call) { return IsAllocation(model.ops[model.calls.op[call]]); });
  if (calls.calls < kGpuAllocationsLeastCalls || !facts.IsAtLeast(calls.idle_ns, kLeastPercent)) return {};
  return {
      {.line = calls.line,
       .sentence = absl::StrFormat(
           "GPU memory is allocated and freed %.1f times a %s, and the GPU computes nothing meanwhile: %s.",
           calls.calls, facts.StepNoun(), facts.PartOfStep(calls.idle_ns)),
       .gain_ns = calls.idle_ns,
       .basis = GainBasis::kMeasured,
       .confidence = Confidence::kHigh,
       .evidence = "table ops: cudaMalloc, cudaFree",
       .advice =
           facts.steps().count() == 1
               ? kFirstUse
               : "No torch.cuda.empty_cache() in the loop. Where sizes change: "
                 "PYTORCH_ALLOC_CONF=expandable_segments:True, or one step at the largest size before the others."}};
}

AskedTimes::AskedTimes(const TraceModel& model) {
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    const ThreadIndex thread = model.gpu.thread[activity];
    if (thread != kNone) times_[thread].emplace_back(GpuAskedNs(model, activity), model.gpu.DurationNs(activity));
  }
  for (auto& [thread, times] : times_) {
    absl::c_sort(times);
    int64_t sum_ns = 0;
    for (auto& [asked_ns, gpu_ns] : times) gpu_ns = sum_ns += gpu_ns;
  }
}

int64_t AskedTimes::GpuNs(ThreadIndex thread, int64_t start_ns, int64_t end_ns) const {
  const auto times = times_.find(thread);
  if (times == times_.end()) return -1;
  const auto at = [&](int64_t ns) { return absl::c_lower_bound(times->second, std::pair(ns, INT64_MIN)); };
  const auto first = at(start_ns), end = at(end_ns);
  if (first == end) return -1;
  return (end - 1)->second - (first == times->second.begin() ? 0 : (first - 1)->second);
}

}  // namespace dlhook::analyzer::findings
