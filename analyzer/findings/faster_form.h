// Forms of the rule faster-form that have files of their own.
#pragma once

#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {

inline constexpr double kFormPercent = 10;  // of a step

// The sentence goes on with ": 3 ms of a 20 ms training step (15 %)."; `scope`, where it is known, has line and layer.
Finding OfForm(const StepFacts& facts, double ns, ScopeIndex scope, std::string sentence, const char* advice);

std::vector<Finding> FormsOfCollectives(const StepFacts& facts);
std::vector<Finding> EqualModules(const StepFacts& facts);
std::vector<Finding> FormsOfTensors(const StepFacts& facts);

}  // namespace dlhook::analyzer::findings
