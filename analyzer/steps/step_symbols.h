// Ops as the step finder's symbols: which calls are the same work, and the same work at another batch size.
#pragma once

#include "analyzer/model/op.h"
#include "analyzer/steps/step_finder.h"

namespace dlhook::analyzer::inline steps {

struct SymbolTable {
  std::vector<uint32_t> of_op;  // per op of the model
  std::vector<StepSymbol> symbols;
};

// Ops that differ only in leading dimensions, implementation or the function called share a symbol.
SymbolTable MakeSymbols(const std::vector<Op>& ops);

// Kind and direction only, without shapes: for programs whose shapes change from step to step.
SymbolTable MakeCoarseSymbols(const std::vector<Op>& ops);

}  // namespace dlhook::analyzer::steps
