// Whether samples met a loop at the same places again and again, because its period fits that of the kernel's ticks.
#pragma once

#include "analyzer/steps/step_groups.h"

namespace dlhook::analyzer::inline tables {

// `places`: of samples, as parts of the step that they fell into. `computing`: the part of the steps in which the thread
// computed; if that is nearly all, samples must be nearly everywhere alike.
bool MeetsTheSamePlaces(const std::vector<double>& places, double computing);

// Sentences about the groups where it is so, of the thread that computed most in each.
std::vector<std::string> TickNotes(const TraceModel& model, const std::vector<StepGroup>& groups);

}  // namespace dlhook::analyzer::tables
