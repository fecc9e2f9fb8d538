// What threads do, in words.
#ifndef DLHOOK_ANALYZER_PASSES_ACTIVITY_LABELS_H_
#define DLHOOK_ANALYZER_PASSES_ACTIVITY_LABELS_H_

#include <string>

#include "analyzer/layers/time_division.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer {

// "ConvolutionBackward0" of autograd's bracket around it, "_MklNativeFusedConv2D" of a graph's node, "relu" of aten::relu.
std::string ScopeLabel(const TraceModel& model, ScopeIndex scope);

// "library", "framework", "not seen" …
const char* ActivityName(ActivityKind kind);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_PASSES_ACTIVITY_LABELS_H_
