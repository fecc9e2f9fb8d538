// What the compared steps of a run do, as counts: everything that needs no clock.
#pragma once

#include "analyzer/steps/compared_steps.h"

namespace dlhook::analyzer::inline work {

// What prepares batches: the program's own thread, TensorFlow's threads as a pipeline of tf.data says, a loader's workers.
enum class Preparer : uint8_t { kProgram, kPipeline, kWorkers };

struct DoneWork {
  int64_t steps = 0;  // 0: counts cover the whole run
  // Per step.
  std::map<std::string, double>
      calls;  // of libraries, by kind; only those that the program decides on: no queries, no allocations
  std::map<std::string, double> ops;    // framework ops and user ranges, by name
  double graph_ops = 0;                 // of these, those that TensorFlow's executor starts
  std::map<std::string, double> types;  // calls by data types
  std::map<StepKind, double> other_steps;
  int64_t micro_steps = 0;  // of most steps
  std::set<std::string> optimizers;
  double updates = 0;                // calls of an optimizer's step()
  std::set<std::string> loaders;     // "in the program itself", "in worker processes"
  std::set<ProcessIndex> processes;  // that made calls

  double OpsThatBegin(absl::string_view prefix) const;
  double AllOps() const { return OpsThatBegin(""); }
  Preparer preparer() const;
};

// `all`: the steps of the whole run.
DoneWork CountWork(const TraceModel& model, const std::vector<StepTrack>& all, const ComparedSteps& steps);

}  // namespace dlhook::analyzer::work
