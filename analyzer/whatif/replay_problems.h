// The problems that took most time in a run's steps, as `dlhook replay` runs them again: which, and how to make them.
#ifndef DLHOOK_ANALYZER_WHATIF_REPLAY_PROBLEMS_H_
#define DLHOOK_ANALYZER_WHATIF_REPLAY_PROBLEMS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/whatif/variations.h"
#include "analyzer/work/step_facts.h"
#include "nlohmann/json.hpp"

namespace dlhook::analyzer::inline whatif {

// An op of a library, with all calls of equal arguments that were computed in the same way.
struct ReplayProblem {
  std::string layers;  // "layer1.0.conv1, layer1.0.conv2 and 3 more"
  std::string kind, direction, problem, formats;
  std::string implementation;  // empty: the library does not tell
  bool is_onednn = false, through_numpy = false;
  double calls = 0;     // in a mean step
  double step_ns = 0;   // of these, their wall share
  double call_ns = 0;   // lower quartile of their durations
  nlohmann::json spec;  // for replay.py; null: it can't be replayed …
  std::string reason;   // … and why
};

// The heaviest first. `named`: only those whose problem or layers contain it; empty: all.
std::vector<ReplayProblem> ReplayProblems(const StepFacts& facts, size_t most, const std::string& named);

// Another way to compute a problem.
struct ReplayVariant {
  std::string name;        // "channels_last", "bfloat16", "mkldnn off", "1 thread", "ONEDNN_MAX_CPU_ISA=AVX2"
  nlohmann::json request;  // for replay.py
  std::vector<std::pair<std::string, std::string>> environment;
  bool changes_numerics = false;
};

// `threads`: of the run. `listed`: what dlhook try would set (ListedVariations).
std::vector<ReplayVariant> VariantsOf(const ReplayProblem& problem, const Ground& ground, size_t threads,
                                      const std::vector<Variation>& listed);

}  // namespace dlhook::analyzer::whatif

#endif  // DLHOOK_ANALYZER_WHATIF_REPLAY_PROBLEMS_H_
