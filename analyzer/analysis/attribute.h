// Combines all evidence to find the layer and direction of every call and scope (layers/attribution.h).
#ifndef DLHOOK_ANALYZER_ANALYSIS_ATTRIBUTE_H_
#define DLHOOK_ANALYZER_ANALYSIS_ATTRIBUTE_H_

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline analysis {

struct AttributionOptions {
  bool use_framework_evidence = true;  // false: only pointers, shapes and order
};

// Never fails; what can't be attributed has layer kNone. Framework evidence first; pointers, shapes and order for calls
// that it leaves open, or if there is none, with names from the functions above them if known.
Attribution AttributeToLayers(const TraceModel& model, const AttributionOptions& options);

}  // namespace dlhook::analyzer::analysis

#endif  // DLHOOK_ANALYZER_ANALYSIS_ATTRIBUTE_H_
