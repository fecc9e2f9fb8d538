// What a report says of the run beside its tables: words for the enums of the schema, and
// sentences.
#ifndef DLHOOK_ANALYZER_RENDER_RUN_FACTS_H_
#define DLHOOK_ANALYZER_RENDER_RUN_FACTS_H_

#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline render {

std::string EndName(const ProcessInfo& process);  // "exited", "vanished", "open"
// Why something was lost, for people.
std::string LossSentence(LossReason reason);
std::string LossReasonName(LossReason reason);           // "ring_full" …
std::string CapabilityStateName(CapabilityState state);  // "on", "refused" …

// Sentences that a reader of the tables must know: losses, capabilities that were refused or lost,
// output that went elsewhere, traces without an end, oddities. Most severe first; empty where all
// is well.
std::vector<std::string> RunRemarks(const TraceModel& run);

}  // namespace dlhook::analyzer::render

#endif  // DLHOOK_ANALYZER_RENDER_RUN_FACTS_H_
