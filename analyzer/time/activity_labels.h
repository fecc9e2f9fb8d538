// What threads do, in words.
#pragma once

#include <string>

#include "analyzer/model/trace_model.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline time {

// "ConvolutionBackward0" for autograd's scope, "_MklNativeFusedConv2D" for a graph node, "relu" for aten::relu.
std::string ScopeLabel(const TraceModel& model, ScopeIndex scope);

// The row that makes wall shares add up to the whole.
inline constexpr char kUnattributed[] = "[unattributed]";

// Whether what passes in the scope, and in none inside it, is time of the program's own code: a user's range computes nothing.
bool IsOwnCode(const TraceModel& model, ScopeIndex scope);

// "library", "framework", "not seen" …
const char* ActivityName(ActivityKind kind);

}  // namespace dlhook::analyzer::time
