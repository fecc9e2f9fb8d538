// Which steps represent a run when it is compared with another.
#ifndef DLHOOK_ANALYZER_STEPS_COMPARED_STEPS_H_
#define DLHOOK_ANALYZER_STEPS_COMPARED_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

// Steady steps of one kind, without warm-up. Training: only regular steps (requests all count). If only some steps have
// scopes, only those. If threads of a process repeat independently, those of the busiest thread. Without the last step
// of a run: no other step begins after it, so that it seems shorter (a request ends by itself).
struct ComparedSteps {
  StepKind kind = StepKind::kUnknown;
  std::vector<StepTrack> tracks;  // one per process; steps ascending
  int64_t batch = 0;              // of nearly all steps; 0: not known, or a mix
  bool batch_is_rows = false;     // of some of them: as BatchSpan.is_rows
  int64_t other_threads = 0;      // with such steps, left out of `tracks`
  // Steps left out of `tracks` because they were interrupted: longer than InterruptedNs.
  int64_t interrupted = 0;
  int64_t interrupted_ns = 0;
  int64_t interrupted_every = 0;              // most are each so many-th step; 0: they come at no regular distance
  int64_t interrupted_regularly = 0;          // how many of the first process
  int64_t interrupted_after_validation = 0;   // how many directly follow one
  int64_t interrupted_input_ns = 0;           // waiting for input in them
  std::vector<StepTrack> interrupted_tracks;  // themselves; as `tracks`

  int64_t count() const;
  double samples() const;  // of a step, on average; 0: not known of all
  int64_t total_ns() const;
  double MeanWithInterruptedNs() const;  // at least one step
  std::vector<int64_t> Durations() const;
};

// When the much longer ones come: "each 6th, after validation"; empty: at no regular distance.
std::string WhenInterrupted(const ComparedSteps& steps);

// Longer than the third quartile by three interquartile ranges (Tukey's outer fence, "Exploratory Data Analysis", 1977) and
// longer than the median by half. At least one duration.
double InterruptedNs(const std::vector<int64_t>& durations_ns);

// " 4 of them are much longer, 24.3 ms on average: …"; empty: none is.
std::string InterruptedSentence(const std::vector<int64_t>& durations_ns);

// Kinds of steps in a run, the most relevant first.
std::vector<StepKind> KindsOfSteps(const std::vector<StepTrack>& tracks);

ComparedSteps ChooseSteps(const std::vector<StepTrack>& tracks, StepKind kind);

// Of the most relevant kind; none if the run has none.
ComparedSteps MainSteps(const std::vector<StepTrack>& tracks);

// Divides the steps into at most `blocks` groups of consecutive ones, as equal in size as possible.
std::vector<ComparedSteps> CutIntoBlocks(const ComparedSteps& steps, size_t blocks);

// "training step", "request", "step".
std::string StepWord(StepKind kind);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_COMPARED_STEPS_H_
