// The steps of a run that a table speaks of together: those of one process and kind.
#ifndef DLHOOK_ANALYZER_PASSES_STEP_GROUPS_H_
#define DLHOOK_ANALYZER_PASSES_STEP_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/layers/phases.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer {

struct StepGroup {
  ProcessIndex process = 0;
  IterationKind kind = IterationKind::kUnknown;
  std::vector<const Step*> steady;   // by start; those that a mean is taken of
  std::vector<const Step*> warm_up;  // by start
  int64_t odd = 0;                   // neither: another batch size, or scopes were not recorded in them
  bool overlaps = false;             // threads repeat independently: steps stand in the way of each other's
};

// In the order of their time in steps, without groups in which nothing is steady. Steady: no warm-up, and as most of its kind
// (requests all count); where scopes were recorded in some steps only, those with scopes.
std::vector<StepGroup> GroupSteps(const std::vector<StepTrack>& tracks);

int64_t DurationOf(const std::vector<const Step*>& steps);
std::string ProcessLabel(const TraceModel& model, ProcessIndex process);  // "process 4711"
bool HasSeveralProcesses(const std::vector<StepGroup>& groups);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_PASSES_STEP_GROUPS_H_
