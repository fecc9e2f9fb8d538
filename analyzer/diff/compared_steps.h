// Which steps of a run stand for it when it is compared with another.
#ifndef DLHOOK_ANALYZER_DIFF_COMPARED_STEPS_H_
#define DLHOOK_ANALYZER_DIFF_COMPARED_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/diff/noise.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline diff {

// Steady steps of one kind: no warm-up; of training those that are as most (requests all count); where scopes were
// recorded in some steps only, those with scopes. Of a process whose threads repeat independently, those of the
// busiest. Not the last step of a run: no other begins after it, so that it seems shorter (a request ends by itself).
struct ComparedSteps {
  IterationKind kind = IterationKind::kUnknown;
  std::vector<StepTrack> tracks;  // one a process; steps ascending
  int64_t batch = 0;              // of most steps; 0: not known
  // Left out of `tracks`: as much longer as only an interruption makes them. Longer than the third quartile by three
  // interquartile ranges (Tukey's outer fence, "Exploratory Data Analysis", 1977) and half as long again as the median.
  int64_t interrupted = 0;
  int64_t interrupted_ns = 0;

  int64_t count() const;
  int64_t total_ns() const;
  std::vector<int64_t> Durations() const;
};

// Kinds of steps that a run has, the most telling first.
std::vector<IterationKind> KindsOfSteps(const std::vector<StepTrack>& tracks);

ComparedSteps ChooseSteps(const std::vector<StepTrack>& tracks, IterationKind kind);

// The same steps in at most `blocks` parts of consecutive ones, as equal in number as can be.
std::vector<ComparedSteps> CutIntoBlocks(const ComparedSteps& steps, size_t blocks);

// "training step", "request", "step".
std::string StepWord(IterationKind kind);

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_COMPARED_STEPS_H_
