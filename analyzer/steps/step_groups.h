// The steps of a run that a table speaks of together: those of one process, kind and sort.
#ifndef DLHOOK_ANALYZER_STEPS_STEP_GROUPS_H_
#define DLHOOK_ANALYZER_STEPS_STEP_GROUPS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

struct StepGroup {
  ProcessIndex process = 0;
  IterationKind kind = IterationKind::kUnknown;
  std::string sort;                  // Step.sort
  std::vector<const Step*> steady;   // by start; those that a mean is taken of
  std::vector<const Step*> warm_up;  // by start
  int64_t odd = 0;                   // neither: another batch size, or scopes were not recorded in them
  std::set<ThreadIndex> threads;     // of the steps; kNone: they are of the whole process
  bool overlaps = false;             // threads repeat independently: steps stand in the way of each other's
};

// In the order of their time in steps, without groups in which nothing is steady. Steady: no warm-up, and as others of its
// sort (requests all count); where scopes were recorded in some steps only, those with scopes.
std::vector<StepGroup> GroupSteps(const std::vector<StepTrack>& tracks);

void SortByStart(std::vector<const Step*>& steps);
// "2 steady training steps (Net, batch 8)".
std::string SteadySteps(int64_t count, IterationKind kind, const std::string& sort);
int64_t DurationOf(const std::vector<const Step*>& steps);
std::string ProcessLabel(const TraceModel& model, ProcessIndex process);  // "process 4711"
// "all", "worker 3" (name and number), "2 threads".
std::string ThreadLabel(const TraceModel& model, const std::set<ThreadIndex>& threads);
bool HasSeveralProcesses(const std::vector<StepGroup>& groups);
bool HasThreads(const std::vector<StepGroup>& groups);  // steps of threads by themselves

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_STEP_GROUPS_H_
