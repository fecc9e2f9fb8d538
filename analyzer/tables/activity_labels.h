// What threads do, in words.
#ifndef DLHOOK_ANALYZER_TABLES_ACTIVITY_LABELS_H_
#define DLHOOK_ANALYZER_TABLES_ACTIVITY_LABELS_H_

#include <string>

#include "analyzer/model/trace_model.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline tables {

// "ConvolutionBackward0" of autograd's bracket around it, "_MklNativeFusedConv2D" of a graph's node, "relu" of aten::relu.
std::string ScopeLabel(const TraceModel& model, ScopeIndex scope);

// "library", "framework", "not seen" …
const char* ActivityName(ActivityKind kind);

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_ACTIVITY_LABELS_H_
