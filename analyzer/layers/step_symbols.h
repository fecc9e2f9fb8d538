// Ops as the iteration finder's symbols: what makes two calls the same work, and the same work at
// another batch size.
#ifndef DLHOOK_ANALYZER_LAYERS_STEP_SYMBOLS_H_
#define DLHOOK_ANALYZER_LAYERS_STEP_SYMBOLS_H_

#include <cstdint>
#include <vector>

#include "analyzer/layers/iteration_finder.h"
#include "analyzer/model/op.h"

namespace dlhook::analyzer {

struct SymbolTable {
  std::vector<uint32_t> of_op;  // per op of the model
  std::vector<StepSymbol> symbols;
};

// Whether calls of the op tell one part of a step from another. Not: preparing primitives,
// searching for algorithms, trying them, capturing graphs; what allocators, streams, events and
// waiting do, which follows the work rather than being it.
bool TellsSteps(const Op& op);

// Ops that differ only in leading dimensions, implementation or the function they were called
// through are one symbol.
SymbolTable MakeSymbols(const std::vector<Op>& ops);

// Kind and direction only, without shapes: for programs whose shapes change from step to step.
SymbolTable MakeCoarseSymbols(const std::vector<Op>& ops);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_LAYERS_STEP_SYMBOLS_H_
