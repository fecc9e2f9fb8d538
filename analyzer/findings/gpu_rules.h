// GPU rules that share the cost of a host call: see rules.h.
#pragma once

#include "absl/container/flat_hash_set.h"
#include "analyzer/findings/finding.h"
#include "analyzer/model/op.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline findings {

// Calls on the host per mean step, averaged over the GPUs.
struct HostCalls {
  double calls = 0;
  // Time in which their GPU computes nothing while they, or the work they requested, run: an upper bound of the gain.
  double idle_ns = 0;
  std::string line;  // the line whose calls have most of this time; empty if not known
};

// Of nested calls, only the outermost counts. Zero if kernel times are not known.
HostCalls HostCallsOf(const StepFacts& facts, const std::function<bool(CallIndex)>& counts);

// The GPU work that threads ask for, by the time at which they do.
class AskedTimes {
 public:
  explicit AskedTimes(const TraceModel& model);
  // How long the GPU works for what the thread asks for in this time; -1: it asks for nothing.
  int64_t GpuNs(ThreadIndex thread, int64_t start_ns, int64_t end_ns) const;

 private:
  // When, ascending, and how long with all before.
  std::map<ThreadIndex, std::vector<std::pair<int64_t, int64_t>>> times_;
};

// `ns` of a step wait for input: adds to the sentence what those who prepare batches did meanwhile, and what helps.
void AdviseOnInput(const StepFacts& facts, double ns, Finding& finding);

// Copies whose contents, as far as sampled, the same place had in nearly all steps.
absl::flat_hash_set<CallIndex> CopiedAgain(const StepFacts& facts);

std::vector<Finding> FindCopiedAgain(const StepFacts& facts);
std::vector<Finding> FindPageableCopies(const StepFacts& facts);
std::vector<Finding> FindSmallCopies(const StepFacts& facts);
// Advice on the only step of a run.
inline constexpr char kFirstUse[] = "CUDA and its libraries load and allocate at first use: measure after a warm-up.";
std::vector<Finding> FindGpuAllocations(const StepFacts& facts);

}  // namespace dlhook::analyzer::findings
