// Rules about the GPU that share what a call of the host costs it: see rules.h.
#ifndef DLHOOK_ANALYZER_FINDINGS_GPU_RULES_H_
#define DLHOOK_ANALYZER_FINDINGS_GPU_RULES_H_

#include <functional>
#include <string>
#include <vector>

#include "analyzer/findings/finding.h"
#include "analyzer/findings/step_facts.h"
#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline findings {

// Calls of the host in a mean step, mean over the GPUs.
struct HostCalls {
  double calls = 0;
  // While they last, or what they asked for, and their GPU computes nothing: more than that can't be gained.
  double idle_ns = 0;
  std::string line;  // that asks for those with most of this time; empty where not known
};

// Of calls inside another one that counts only the outer one does. Nothing where the times of kernels are not known.
HostCalls HostCallsOf(const StepFacts& facts, const std::function<bool(const Op&)>& counts);

std::vector<Finding> FindPageableCopies(const StepFacts& facts);
std::vector<Finding> FindSmallCopies(const StepFacts& facts);
std::vector<Finding> FindGpuAllocations(const StepFacts& facts);

}  // namespace dlhook::analyzer::findings

#endif  // DLHOOK_ANALYZER_FINDINGS_GPU_RULES_H_
