// The time that recording itself takes, subtracted from gains that contain it.
#pragma once

#include "analyzer/findings/finding.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline findings {

// Per mean step: of those of PyTorch's scopes, with their Python stacks, for which `counts` holds. It is spent
// outside of a scope, before its start and after its end.
double CostOfScopes(const StepFacts& facts, const std::function<bool(ScopeIndex)>& counts);

// Per mean step: of all calls of GPU libraries, CUPTI's work included.
double CostOfGpuCalls(const StepFacts& facts);

// Takes this part of a step off the finding's gain, and says so. If it is more than a twentieth of the gain, the
// finding becomes less certain.
void SubtractOwnCost(double own_ns, Finding& finding);

}  // namespace dlhook::analyzer::findings
