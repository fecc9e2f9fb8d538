// The steps of a run by number, and which step and phase a time belongs to.
#pragma once

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

struct NumberedStep {
  const Step* step;
  ProcessIndex process;
  int64_t number;  // within its process or thread, from 0
  bool is_steady;  // included in the tables' means
};

class StepIndex {
 public:
  StepIndex(const TraceModel& model, const std::vector<StepTrack>& tracks);

  const std::vector<NumberedStep>& steps() const { return steps_; }
  // The step of a thread (kNone: of none), or of its process, at this time: index in steps(), kNone if there is none. Cheap
  // if times are asked for nearly in order.
  uint32_t At(ProcessIndex process, ThreadIndex thread, int64_t time_ns);
  // The step in which a call begins.
  uint32_t OfCall(CallIndex call);
  PhaseKind PhaseAt(uint32_t step, int64_t time_ns) const;  // `step` may be kNone
  // All times at which steps and phases of a process begin or end, ascending.
  std::vector<int64_t> Boundaries(ProcessIndex process) const;

 private:
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
    uint32_t last = 0;  // found
  };
  uint32_t Find(Range& range, int64_t time_ns) const;

  const TraceModel& model_;
  std::vector<NumberedStep> steps_;
  std::vector<std::vector<Range>> of_process_;  // tracks of whole processes
  std::vector<std::vector<Range>> of_thread_;
};

}  // namespace dlhook::analyzer::steps
