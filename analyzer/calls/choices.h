// Who chose which algorithm, as far as the order of calls shows: searches and their results, trials of candidates,
// products repeated after a failure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/calls/autotuning.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

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
