// Layers from the framework's own links and from modules, that is, from the scopes that taps record.
#ifndef DLHOOK_ANALYZER_LAYERS_FRAMEWORK_FRAMEWORK_LINKS_H_
#define DLHOOK_ANALYZER_LAYERS_FRAMEWORK_FRAMEWORK_LINKS_H_

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline framework {

Attribution AttributeByFramework(const TraceModel& model);

}  // namespace dlhook::analyzer::framework

#endif  // DLHOOK_ANALYZER_LAYERS_FRAMEWORK_FRAMEWORK_LINKS_H_
