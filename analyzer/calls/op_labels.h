// Ops in words, as tables write them and as steps are compared by.
#ifndef DLHOOK_ANALYZER_CALLS_OP_LABELS_H_
#define DLHOOK_ANALYZER_CALLS_OP_LABELS_H_

#include <string>

#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline calls {

// What tells a problem from others of its kind and direction. The problem itself and, where
// oneDNN's `alg` says what is computed rather than how ("eltwise_relu", "pooling_max"), that too;
// of a reorder also its formats.
std::string ProblemLabel(const Op& op);

// "convolution"; "create:convolution" for the creation of a primitive, "search:convolution" for a
// question which algorithm to take, "trial:convolution" where one was only tried,
// "capture:convolution" where the call was recorded into a CUDA graph.
std::string KindLabel(const Op& op);

// "src:abcd wei:Acdb16a dst:aBcd16b", of the tensors that are there.
std::string FormatsLabel(const Op& op);

// Whether calls of the op tell one part of a step from another. Not: preparing primitives,
// searching for algorithms, trying them, capturing graphs; what allocators, streams, events and
// waiting do, which follows the work rather than being it.
bool TellsSteps(const Op& op);

}  // namespace dlhook::analyzer::calls

#endif  // DLHOOK_ANALYZER_CALLS_OP_LABELS_H_
