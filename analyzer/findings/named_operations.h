// Time of the framework's operations of certain names.
#pragma once

#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline findings {

struct NamedOperations {
  double ns = 0;                        // in a mean step, with what runs inside of them
  std::map<std::string, double> by_op;  // without "aten::"
  std::map<StackIndex, double> by_stack;
  std::map<LayerIndex, double> by_layer;

  std::string Line(
      const StepFacts& facts) const;  // the program's or a layer's, with most of the time; empty: not known
};

// By `kind` of the operation's name without "aten::" (0: not wanted), or what `refine` makes of it, given the operation and
// the outermost one around it. What is inside of a wanted one belongs to that. Without threads that do little beside others.
std::map<int, NamedOperations> SumNamedOperations(const StepFacts& facts,
                                                  const std::function<int(const std::string&)>& kind,
                                                  const std::function<int(int, ScopeIndex, ScopeIndex)>& refine);

// Whether a node of the backward pass runs this outermost operation.
bool IsInBackward(const TraceModel& model, ScopeIndex outermost);

}  // namespace dlhook::analyzer::findings
