// What those who prepare batches did while the program waited for one: they computed, had no processor, waited for files
// or the like, or for work themselves. By looks from outside.
#pragma once

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/steps/compared_steps.h"
#include "analyzer/time/thread_states.h"
#include "analyzer/work/done_work.h"

namespace dlhook::analyzer::inline work {

struct Preparing {
  LookSums looks;
  int64_t threads = 0;  // of one process that has steps
  Preparer preparer = Preparer::kProgram;
  std::string op;  // of a pipeline: the kind of operation that more than half of its looks met

  void Add(const Preparing& other);
  bool IsKnown() const { return looks.BlockedOf(1).has_value(); }
  bool Mostly(int64_t ns) const { return 2 * ns > looks.running_ns + looks.queued_ns + looks.blocked_ns; }
  // Workers wait for their next index in poll: each has a queue of its own.
  int64_t WithoutWork() const { return Found(BlockedIn::kPoll); }
  int64_t InLock() const { return Found(BlockedIn::kLock); }
  int64_t InOther() const { return Found(BlockedIn::kOther); }  // opening files, a file's lock
  // A pipeline's operations that are functions in Python, of which one at a time computes.
  bool IsPython() const { return op == "PyFunc" || op == "EagerPyFunc"; }
  // "its 2 workers computed 5 %, waited for a processor 2 %, were blocked 93 % (in sleep)"; empty: not known.
  std::string Text() const;

 private:
  int64_t Found(BlockedIn place) const { return looks.found_ns[static_cast<size_t>(place)]; }
};

// The first threads of worker processes; threads in operations of a pipeline; or the program's own first thread.
Preparing WhoPrepares(const TraceModel& model, const LayerAnalysis& analysis, const ComparedSteps& steps,
                      Preparer preparer);

// "computed 5 %, waited for a processor 2 %, VERB blocked 93 % (in sleep)"; empty: too few looks.
std::string LooksText(const LookSums& looks, const char* verb);

}  // namespace dlhook::analyzer::work
