// Rule page-faults: each step asks the kernel for memory and gives it back.
//
// glibc maps blocks above a threshold (at most 32 MiB, M_MMAP_THRESHOLD) one by one and unmaps them when they are
// freed: each step touches new pages, which the kernel clears. Counted are the faults of the thread that runs the
// steps; what a page costs, the launcher measured. Faults for memory that the process keeps are no loss.
#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kPageFaultsPercent = 3;
constexpr double kPageBytes = 4096;
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
  return std::all_of(facts.steps().tracks.begin(), facts.steps().tracks.end(), [&](const StepTrack& track) {
    return track.thread == kNone || model.threads[track.thread].tid == model.processes[track.process].pid;
  });
}

double PagesGivenBack(const PageFaults& faults) {
  return std::max(faults.count - std::max(faults.resident_bytes, 0.0) / kPageBytes, 0.0);
}

double CostNs(const PageFaults& faults) { return std::min(PagesGivenBack(faults) * faults.cost_ns, faults.system_ns); }

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
  Finding finding;
  finding.sentence = absl::StrFormat(
      "Memory is requested from the kernel and returned in each step: %.0f page faults (%s) take %s.",
      PagesGivenBack(faults), HumanCell(static_cast<int64_t>(PagesGivenBack(faults) * kPageBytes), "bytes"),
      facts.PartOfStep(ns));
  finding.gain_ns = ns;
  finding.basis = GainBasis::kComputed;
  finding.confidence = Confidence::kMedium;
  finding.evidence = absl::StrFormat(
      "faults of the main thread x %s, measured for a page on this machine; its time in the kernel is %s",
      HumanTime(faults.cost_ns), HumanTime(faults.system_ns));
  finding.advice =
      "Let malloc keep it: MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 (glibc), or LD_PRELOAD of jemalloc or "
      "tcmalloc; or reuse large temporaries (out=, in-place operations).";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
