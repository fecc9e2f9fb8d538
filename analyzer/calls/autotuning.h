// Autotuning through cuDNN's graph API, told by its signatures. Plans of one problem are executed
// one after another on one thread, with no execution of another problem between them, and
// - with the same variant pack, so that all of them write the same result. (PyTorch's
//   `cudnn.benchmark` does this with every plan that the heuristics offer, waits for each, and then
//   executes the fastest with a pack of its own.) Or:
// - on the same operands, and each is timed before the next one: the program asks for the time
//   between two events, or at least records an event and waits for the GPU. (XLA, TensorFlow and
//   cudnn-frontend make a pack for every execution.)
#ifndef DLHOOK_ANALYZER_CALLS_AUTOTUNING_H_
#define DLHOOK_ANALYZER_CALLS_AUTOTUNING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

struct PlanCandidate {
  OpIndex op = 0;  // its first trial's
  std::vector<CallIndex> calls;
  // The shortest time between two events that the thread asked for after a trial and before the
  // next one: what the program decided by.
  std::optional<int64_t> elapsed_ns;
  // The shortest time from the beginning of a trial to the end of the first call after it, before
  // the next trial, that waited for the GPU.
  std::optional<int64_t> host_ns;
  std::optional<int64_t> time_ns() const { return elapsed_ns ? elapsed_ns : host_ns; }
};

// One search: at least two plans.
struct PlanSearch {
  ProcessIndex process = 0;
  ThreadIndex thread = 0;
  int64_t start_ns = 0;                   // of the first trial
  int64_t end_ns = 0;                     // of the last trial, or of waiting for it
  std::vector<PlanCandidate> candidates;  // in the order in which they were tried
  // The plan that the process executes next for this problem, outside its searches. Where no
  // execution with a fresh pack follows, the one that the search came back to and stayed with, if
  // it did: those executions are use, not trials. Not known where neither is there.
  std::optional<size_t> winner;
};

// In the order of threads and time. Executions that were captured into a CUDA graph are no trials.
std::vector<PlanSearch> FindPlanSearches(const TraceModel& model);

// An execution of a plan of the graph API.
bool IsPlanExecution(const Op& op);

// Equal for ops that compute the same on tensors of the same shapes, types and layouts, whatever
// algorithm they take; a search for an algorithm has the key of the ops that it is for.
std::string ProblemKey(const Op& op);

}  // namespace dlhook::analyzer::calls

#endif  // DLHOOK_ANALYZER_CALLS_AUTOTUNING_H_
