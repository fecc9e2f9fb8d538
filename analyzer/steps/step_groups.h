// Groups of steps that a table reports together: those of one process, kind and sort.
#pragma once

#include "analyzer/steps/compared_steps.h"
#include "analyzer/steps/measured_steps.h"

namespace dlhook::analyzer::inline steps {

struct StepGroup {
  ProcessIndex process = 0;
  StepKind kind = StepKind::kUnknown;
  std::string sort;                  // Step.sort
  std::vector<const Step*> steady;   // by start; those included in means
  std::vector<const Step*> warm_up;  // by start
  std::vector<const Step*> longer;   // much longer than `steady`; in order of the tracks
  LeftOutSteps left_out;
  std::set<ThreadIndex> threads;  // of the steps; kNone: of the whole process
  bool overlaps = false;          // threads repeat independently: their steps overlap
};

// Ordered by time in steps, without groups that have no steady steps. Steady: Step.counts().
std::vector<StepGroup> GroupSteps(const std::vector<StepTrack>& tracks);

// For a run without steps: each process is one, for all of its time. `storage` holds them.
std::vector<StepGroup> WholeRun(const TraceModel& model, std::vector<Step>* storage);

void SortByStart(std::vector<const Step*>& steps);
// "2 steady training steps (Net, batch 8)".
std::string SteadySteps(int64_t count, StepKind kind, const std::string& sort);
int64_t DurationOf(const std::vector<const Step*>& steps);
std::string ProcessLabel(const TraceModel& model, ProcessIndex process);  // "process 4711"
// "all", "worker 3" (name and number), "2 threads".
std::string ThreadLabel(const ThreadData& thread);  // "python 3"; "3" if it has no name
std::string ThreadLabel(const TraceModel& model, const std::set<ThreadIndex>& threads);
bool HasSeveralProcesses(const std::vector<StepGroup>& groups);
bool HasThreads(const std::vector<StepGroup>& groups);  // whether threads have steps of their own

// Durations of those of the track's main kind that count, by StepName.
std::map<std::string, std::vector<int64_t>> SteadyDurations(const StepTrack& steps);

}  // namespace dlhook::analyzer::steps
