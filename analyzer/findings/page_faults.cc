// Rule page-faults: each step asks the kernel for memory and gives it back.
//
// glibc maps blocks above a threshold (at most 32 MiB, M_MMAP_THRESHOLD) one by one and unmaps them when they are
// freed: each step touches new pages, which the kernel clears. Counted are the faults of the thread that runs the
// steps; what a page costs, the launcher measured. Faults for memory that the process keeps are no loss.

#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kPageFaultsPercent = 3;
constexpr double kPageBytes = 4096;
constexpr int64_t kLeastMapped = 128 << 10;  // glibc's threshold, at first
constexpr double kLargePart = 0.5;           // of the pages that are given back
// A setting with this in its value says how memory is kept.
struct Setting {
  const char* name;
  const char* value;
};
constexpr std::array<Setting, 7> kOfAllocators = {{{"MALLOC_MMAP_MAX_", ""},
                                                   {"MALLOC_MMAP_THRESHOLD_", ""},
                                                   {"MALLOC_TRIM_THRESHOLD_", ""},
                                                   {"MALLOC_TOP_PAD_", ""},
                                                   {"MALLOC_CONF", ""},  // jemalloc's
                                                   {"GLIBC_TUNABLES", "glibc.malloc."},
                                                   {"LD_PRELOAD", "malloc"}}};

bool AllocatorIsSet(const StepFacts& facts) {
  for (const ProcessInfo& process : facts.model().processes) {
    for (const auto& [name, value] : process.settings) {
      for (const Setting& known : kOfAllocators) {
        if (name == known.name && absl::StrContains(value, known.value)) return true;
      }
    }
  }
  return false;
}

// Samples are of the first thread. Steps found by a framework's scopes may have parts in several threads (kNone).
bool FirstThreadsRunTheSteps(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  return absl::c_all_of(facts.steps().tracks, [&](const StepTrack& track) {
    return track.thread == kNone || model.threads[track.thread].tid == model.processes[track.process].pid;
  });
}

double PagesGivenBack(const PageFaults& faults) {
  return std::max(faults.count - std::max(faults.resident_bytes, 0.0) / kPageBytes, 0.0);
}

double CostNs(const PageFaults& faults) { return std::min(PagesGivenBack(faults) * faults.cost_ns, faults.system_ns); }

// What is allocated in blocks that malloc may give back, by layer: the most.
struct LargeBlocks {
  double bytes = 0;  // in a step
  double all_bytes = 0;
  const MemoryBlock* first = nullptr;
};

LargeBlocks MostOfLargeBlocks(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  std::map<LayerIndex, LargeBlocks> by_layer;
  for (const DeviceMemory& device : MemoryOfDevices(facts)) {
    for (const MemoryBlock& block : device.blocks) {
      const MemoryEvent& born = model.memory[block.born];
      if (device.device != 0 || born.bytes < kLeastMapped) continue;
      if (facts.StepAt(device.process, born.time_ns) == kNone) continue;
      LargeBlocks& sum = by_layer[block.layer];
      sum.bytes += static_cast<double>(born.bytes) / facts.count();
      if (sum.first == nullptr) sum.first = &block;
    }
  }
  if (by_layer.empty()) return {};
  LargeBlocks most = MostOf(by_layer, &LargeBlocks::bytes)->second;
  for (const auto& [layer, sum] : by_layer) most.all_bytes += sum.bytes;
  return most;
}

}  // namespace

std::string PageFaultsMissing(const StepFacts& facts) {
  const PageFaults& faults = facts.load().faults;
  if (facts.HasGpuTimes()) return "";  // then only what a GPU waits for counts: gpu-idle
  if (!facts.HasSteps()) return "no repeating step was found";
  if (!facts.load().is_known || faults.cost_ns == 0) return "page faults were not sampled";
  if (!facts.IsAtLeast(CostNs(faults), kPageFaultsPercent)) return "";
  if (!FirstThreadsRunTheSteps(facts)) return "page faults were sampled in a thread that does not run the steps";
  return facts.counted().preparer() == Preparer::kWorkers
             ? "the batches of loader workers lie in shared memory, whose pages are counted, too"
             : "";
}

std::vector<Finding> FindPageFaults(const StepFacts& facts) {
  const PageFaults& faults = facts.load().faults;
  const double ns = CostNs(faults);
  if (facts.HasGpuTimes() || !PageFaultsMissing(facts).empty()) return {};
  if (!facts.IsAtLeast(ns, kPageFaultsPercent) || AllocatorIsSet(facts)) return {};
  const LargeBlocks most = MostOfLargeBlocks(facts);
  const double least_bytes = kLargePart * std::max(PagesGivenBack(faults) * kPageBytes, most.all_bytes);
  Finding finding = {
      .sentence = absl::StrFormat(
          "Memory is requested from the kernel and returned in each step: %.0f page faults (%s) take %s.",
          PagesGivenBack(faults), HumanCell(static_cast<int64_t>(PagesGivenBack(faults) * kPageBytes), "bytes"),
          facts.PartOfStep(ns)),
      .gain_ns = ns,
      .basis = GainBasis::kComputed,
      .evidence = absl::StrFormat(
          "faults of the main thread x %s, measured for a page on this machine; its time in the kernel is %s",
          HumanTime(faults.cost_ns), HumanTime(faults.system_ns)),
      .advice =
          "Let malloc keep it: MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 (glibc), or LD_PRELOAD of "
          "jemalloc or tcmalloc; or reuse large temporaries (out=, in-place operations)."};
  if (most.first != nullptr && most.first->layer != kNone && most.bytes >= least_bytes) {
    finding.where = facts.attribution().layers[most.first->layer].name;
    finding.line = facts.LineOfStack(most.first->stack);
    absl::StrAppend(&finding.sentence, " ", finding.where, " allocates ",
                    HumanCell(static_cast<int64_t>(most.bytes), "bytes"), " a step in blocks of 128 KiB and more.");
  }
  return {finding};
}

}  // namespace dlhook::analyzer::findings
