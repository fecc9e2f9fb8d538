// Steps whose operations are known in windows only.
#ifndef DLHOOK_ANALYZER_STEPS_XLA_WINDOWS_H_
#define DLHOOK_ANALYZER_STEPS_XLA_WINDOWS_H_

#include <cstdint>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/moments.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

// Of the window that contains `ns`; less than that: none does.
int64_t EndOfWindow(const ProcessMoments& moments, int64_t ns);

// What follows the last phase may extend beyond the window.
int64_t LastPhaseEnd(const Step& step);

// Of XLA's operations nothing is known between windows: what lasts from one into the next is no step, but many. If the
// window also has the beginning of the next step, the last one before it ends there.
void LeaveOutPauses(const TraceModel& model, const ProcessMoments& moments, StepTrack* track);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_XLA_WINDOWS_H_
