// The screen of a run that goes on: the answer about its newest part, and how its step time develops.
#pragma once

#include <deque>

#include "analyzer/steps/phases.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline answer {

// Step times of a run that goes on: what they are now, and what they were before.

// The median step of the newest time against that of the time before it.
struct StepTrend {
  double now_ns = 0;
  size_t now_steps = 0;
  int64_t now_span_ns = 0;
  double before_ns = 0;
  size_t before_steps = 0;  // 0: nothing to compare with yet
  int64_t before_span_ns = 0;
};

class StepHistory {
 public:
  // The steps of `kind` among those of a process that were read now; those that are known already, and the last one, which may go on,
  // are left out. Steps of another kind than before, or before those that are known, start the history again.
  void Add(const StepTrack& track, StepKind kind);

  size_t size() const { return steps_.size(); }
  // Of the last minute, or of the newest third while there is less than three minutes. nullopt: there is no step.
  std::optional<StepTrend> Trend() const;
  // Median step times of `columns` equal parts of the time, "▁▃█": from the bottom (the fastest part) to the top (the slowest, or
  // twice the fastest if that is more). A part without steps is blank. `unicode`: else ".:-=+*#@".
  std::string Sparkline(size_t columns, bool unicode) const;

 private:
  struct Known {
    int64_t end_ns = 0;
    int64_t duration_ns = 0;
  };
  StepKind kind_ = StepKind::kUnknown;
  std::deque<Known> steps_;  // by end
};

struct LiveOptions {
  size_t width = 80;  // in characters
  bool color = false;
  bool unicode = true;
  std::vector<std::string> ignored_findings = {};  // see findings/findings_table.h
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
