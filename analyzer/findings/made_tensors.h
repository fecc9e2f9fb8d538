// What the outermost operations of the steps made, as PyTorch's allocator tells: sizes of tensors, whose operators report none.
#pragma once

#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline findings {

struct MadeTensor {
  ScopeIndex scope = kNone;     // the operation
  size_t step = 0;              // its number in the process
  int64_t bytes = 0;            // the largest block that lives on behind it
  int64_t converted_bytes = 0;  // the largest block that a conversion (aten::_to_copy) inside of it took
  int64_t largest_before = 0;   // of the blocks that were alive when the operation began
};

// On the host, by thread and time; nothing where memory was not recorded in steady steps.
std::vector<MadeTensor> TensorsMade(const StepFacts& facts);

// In how many steps.
double StepsOf(const StepFacts& facts, const std::vector<MadeTensor>& made);

// What operations take in a mean step.
struct MadeTime {
  double ns = 0;
  std::string where;  // layers; empty: none
};
// Of these tensors: all operations of their layers, forward and backward; of those without a layer the operation itself.
MadeTime TimeOfMade(const StepFacts& facts, const std::vector<MadeTensor>& made, const std::set<size_t>& tensors);

}  // namespace dlhook::analyzer::findings
