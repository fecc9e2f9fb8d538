// In which phase of a step a call was made.
#ifndef DLHOOK_ANALYZER_EXPORT_PHASE_FINDER_H_
#define DLHOOK_ANALYZER_EXPORT_PHASE_FINDER_H_

#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline exports {

class PhaseFinder {
 public:
  PhaseFinder(const TraceModel& model, const std::vector<StepTrack>& tracks);

  // kUnknown: outside of all steps, or between the phases of one. Of a thread that repeats independently of others by
  // its own steps, else by the process's.
  PhaseKind Of(CallIndex call) const;

 private:
  const TraceModel& model_;
  std::vector<std::vector<PhaseInterval>> of_process_, of_thread_;  // by index, ascending by start
};

}  // namespace dlhook::analyzer::exports

#endif  // DLHOOK_ANALYZER_EXPORT_PHASE_FINDER_H_
