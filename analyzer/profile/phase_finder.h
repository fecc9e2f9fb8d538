// Finds the phase of a step in which a call was made.
#ifndef DLHOOK_ANALYZER_PROFILE_PHASE_FINDER_H_
#define DLHOOK_ANALYZER_PROFILE_PHASE_FINDER_H_

#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline profiles {

class PhaseFinder {
 public:
  PhaseFinder(const TraceModel& model, const std::vector<StepTrack>& tracks);

  // kUnknown: outside all steps, or between the phases of one. Uses the thread's own steps if it repeats independently,
  // else the process's.
  PhaseKind Of(CallIndex call) const;

 private:
  const TraceModel& model_;
  std::vector<std::vector<PhaseInterval>> of_process_, of_thread_;  // by index, ascending by start
};

}  // namespace dlhook::analyzer::profiles

#endif  // DLHOOK_ANALYZER_PROFILE_PHASE_FINDER_H_
