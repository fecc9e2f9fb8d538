// Requests that a program makes itself, one after the other.
#pragma once

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline time {

// A request ends with the network's own last work: what follows is time between requests, in which a server waits for the
// next one. But if the thread rather computes there, for a tenth of its processor time or more, it is the program's loop:
// it makes the next input, or a framework's `predict` does something before and after the network runs. Then a request
// lasts until the next one begins, as a training step does.
void CloseLoops(const TraceModel& model, std::vector<StepTrack>* tracks);

}  // namespace dlhook::analyzer::time
