// Text for ops, for tables and for comparing steps.
#pragma once

#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline calls {

// Distinguishes a problem from others of its kind and direction: the problem itself; oneDNN's `alg` if it says what is
// computed rather than how ("eltwise_relu", "pooling_max"); for a reorder also its formats.
std::string ProblemLabel(const Op& op);

// "convolution"; "create:convolution" for creating a primitive, "search:convolution" for asking which algorithm to use,
// "trial:convolution" for a trial, "capture:convolution" for a call captured into a CUDA graph, "share:convolution" for a further
// thread's part of a call that another thread's stands for.
std::string KindLabel(const Op& op);

// "src:abcd wei:Acdb16a dst:aBcd16b", without missing tensors.
std::string FormatsLabel(const Op& op);

// Whether calls of the op distinguish parts of a step. Not: creating primitives, searching for algorithms, trials,
// capturing graphs; allocators, streams, events and waiting, which accompany the work.
bool TellsSteps(const Op& op);

}  // namespace dlhook::analyzer::calls
