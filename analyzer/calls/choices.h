// Who chose which algorithm, as far as the order of calls shows: searches and their results, trials of candidates,
// products repeated after a failure.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

// Autotuning through cuDNN's graph API, recognized by its signatures. Plans of one problem are executed one after
// another on one thread, with no execution of another problem in between, and either
// - with the same variant pack, so that all of them write the same result (PyTorch's `cudnn.benchmark` does this with
//   every plan that the heuristics offer, waits for each, and then executes the fastest with a new pack); or
// - on the same operands, each timed before the next one: the program queries the time between two events, or at least
//   records an event and waits for the GPU (XLA, TensorFlow and cudnn-frontend make a pack for every execution).

struct PlanCandidate {
  OpIndex op = 0;  // of its first trial
  std::vector<CallIndex> calls;
  // The shortest time between two events that the thread queried after a trial and before the next one: the basis of
  // the program's decision.
  std::optional<int64_t> elapsed_ns;
  // The shortest time from the start of a trial to the end of the first call, before the next trial, that waited for
  // the GPU.
  std::optional<int64_t> host_ns;
  std::optional<int64_t> time_ns() const { return elapsed_ns ? elapsed_ns : host_ns; }
};

// One search: at least two plans.
struct PlanSearch {
  ProcessIndex process = 0;
  ThreadIndex thread = 0;
  int64_t start_ns = 0;                   // of the first trial
  int64_t end_ns = 0;                     // of the last trial, or of the wait for it
  std::vector<PlanCandidate> candidates;  // in the order of the trials
  // The plan that the process executes next for this problem outside searches. If no execution with a new pack follows:
  // the plan that the search returned to and kept (those executions are use, not trials). Unknown otherwise.
  std::optional<size_t> winner;
};

// Ordered by thread and time. Executions captured into a CUDA graph are not trials.
std::vector<PlanSearch> FindPlanSearches(const TraceModel& model);

// An execution of a plan of the graph API.
bool IsPlanExecution(const Op& op);

// Equal for ops that compute the same on tensors of the same shapes, types and layouts, whatever the algorithm; a
// search has the key of the ops that it is for.
std::string ProblemKey(const Op& op);

// A call that asked cuDNN for algorithms (cudnnFind…, cudnnGet…), and the next execution of the problem in its process,
// if any.
struct AlgorithmSearch {
  CallIndex call = 0;
  std::optional<OpIndex> next_execution;
};

// Products computed after cuBLASLt failed, or offered no algorithm, for the same product.
struct Fallback {
  OpIndex op = 0;       // the product
  OpIndex refused = 0;  // the cuBLASLt call before it
  int32_t status = 0;   // of that call; 0: it offered no algorithm
  int64_t calls = 0;
};

struct Choices {
  std::vector<PlanSearch> plan_searches;
  std::vector<AlgorithmSearch> algorithm_searches;
  std::vector<Fallback> fallbacks;
};

// Completes Op::chooser. Calls that differ from others of their op (trials, see Op::is_trial; calls before and after a
// search; fallbacks) get an op of their own, so that totals and wall shares are separate. Call once, before
// ComputeTotals. The rules:
// - graph API: profiled if a plan of this configuration won a search for the problem; fallback if plans failed before
//   it or it comes from the fallback heuristics; cached if loaded from JSON; else as recorded.
// - legacy convolutions: profiled if cudnnFind named this algorithm for the problem before the call; heuristic if
//   cudnnGet did; else fixed.
// - cuBLAS and cuBLASLt: fallback after cuBLASLt refused the same product on the same thread; else as recorded.
Choices ResolveChoices(TraceModel* model);

}  // namespace dlhook::analyzer::calls
