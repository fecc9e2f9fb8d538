// Which layer and direction every call and scope of a run belongs to, by all evidence together (layers/attribution.h).
#ifndef DLHOOK_ANALYZER_ANALYSIS_ATTRIBUTE_H_
#define DLHOOK_ANALYZER_ANALYSIS_ATTRIBUTE_H_

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline analysis {

struct AttributionOptions {
  bool use_framework_evidence = true;  // false: pointers, shapes and order alone
};

// Never fails; what can't be attributed has layer kNone. Framework evidence first; pointers, shapes and order for calls that it leaves
// open, or where there is none, named by the functions above them where those are known.
Attribution AttributeToLayers(const TraceModel& model, const AttributionOptions& options);

}  // namespace dlhook::analyzer::analysis

#endif  // DLHOOK_ANALYZER_ANALYSIS_ATTRIBUTE_H_
