// Who chose which algorithm, as far as only the order of calls tells: searches and what came of
// them, trials of candidates, products done again after a failure.
#ifndef DLHOOK_ANALYZER_CALLS_CHOICES_H_
#define DLHOOK_ANALYZER_CALLS_CHOICES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/calls/autotuning.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

// A call that asked cuDNN for algorithms (cudnnFind…, cudnnGet…), and the execution of the problem
// that came next in its process, if one did.
struct AlgorithmSearch {
  CallIndex call = 0;
  std::optional<OpIndex> next_execution;
};

// Products that were computed after a cuBLASLt call for the same product had failed, or had offered
// no algorithm.
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

// Completes Op::chooser, and gives calls that differ from others of their op in this an op of their
// own, so that totals and wall shares are theirs alone: trials (Op::is_trial), calls before and
// after a search, fallbacks. To be called once, before ComputeTotals. The rules:
// - graph API: profiled if a plan of this configuration won a search for the problem; fallback if
//   plans failed before it or it comes from the fallback heuristics; else as recorded; cached for a
//   plan loaded from JSON.
// - legacy convolutions: profiled if cudnnFind named this algorithm for the problem before the
//   call; heuristic if cudnnGet did; else fixed.
// - cuBLAS and cuBLASLt: as recorded; fallback after a refusal by cuBLASLt of the same product on
//   the same thread.
Choices ResolveChoices(TraceModel* model);

}  // namespace dlhook::analyzer::calls

#endif  // DLHOOK_ANALYZER_CALLS_CHOICES_H_
