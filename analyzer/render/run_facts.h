// What a report says about the run in addition to its tables: names of the schema's enums, and sentences.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/render/renderer.h"

namespace dlhook::analyzer::inline render {

std::string EndName(const ProcessInfo& process);  // "exited", "vanished", "open"
// Why something was lost, for the user.
std::string LossSentence(LossReason reason);
std::string LossReasonName(LossReason reason);           // "ring_full" …
std::string CapabilityStateName(CapabilityState state);  // "on", "refused" …

// Remarks that a reader of the tables must know: losses, capabilities that were refused or lost, output in another
// place, traces without an end, oddities. Most severe first; empty if there are none.
std::vector<std::string> RunRemarks(const TraceModel& run);
// Of the report's run; of a diff those of both sides, marked with the side.
std::vector<std::string> ReportRemarks(const Report& report);

}  // namespace dlhook::analyzer::render
