// The screen of a run that goes on: the answer about its newest part, and how its step time develops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/answer/step_history.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline answer {

struct LiveOptions {
  size_t width = 80;  // in characters
  bool color = false;
  bool unicode = true;
  std::vector<std::string> ignored_findings = {};  // see findings/ignored.h
};

// Steps of the first process that has some, in the whole run, of which the model may hold the newest part only: then estimated.
// `recorded`: the calls and scopes of each process.
int64_t AboutSteps(const StepFacts& facts, const std::vector<int64_t>& recorded);

// Adds the newest steps of the first process that has some.
void AddSteps(const StepFacts& facts, StepHistory* history);

// Below what the run as a whole is. Lines without limit: the most relevant first.
absl::StatusOr<std::string> MakeLiveScreen(const StepFacts& facts, const StepHistory& history,
                                           const LiveOptions& options);

}  // namespace dlhook::analyzer::answer
