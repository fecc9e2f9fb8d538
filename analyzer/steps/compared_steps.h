// Which steps represent a run when it is compared with another.
#pragma once

#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

// Steps of a kind, and what is in no mean of them (LeftOut).
struct LeftOutSteps {
  int64_t all = 0;
  std::array<int64_t, kLeftOuts> counts = {};  // by LeftOut
  int64_t longer_ns = 0;

  void Add(const Step& step);
  // "2 of warm-up, 1 much longer of 24.3 ms and the last one"; empty: none is.
  std::string Text() const;
  std::string Sentence() const;  // " Left out: 2 of warm-up."
};

// The steps that count (Step.left_out) of one kind. If threads of a process repeat independently, those of the busiest.
struct ComparedSteps {
  StepKind kind = StepKind::kUnknown;
  std::vector<StepTrack> tracks;  // one per process; steps ascending
  int64_t batch = 0;              // of nearly all steps; 0: not known, or a mix
  bool batch_is_rows = false;     // of some of them: as BatchSpan.is_rows
  int64_t other_threads = 0;      // with such steps, left out of `tracks`
  LeftOutSteps left_out;          // of the same threads as `tracks`
  // Steps left out of `tracks` because they were interrupted: LeftOut::kMuchLonger.
  int64_t interrupted = 0;
  int64_t interrupted_ns = 0;
  int64_t interrupted_every = 0;              // most are each so many-th step; 0: they come at no regular distance
  int64_t interrupted_regularly = 0;          // how many of the first process
  int64_t interrupted_after_validation = 0;   // how many directly follow one
  int64_t interrupted_input_ns = 0;           // waiting for input in them
  std::vector<StepTrack> interrupted_tracks;  // themselves; as `tracks`
  // Between windows of recording, of which only the time is known; without those that were interrupted.
  int64_t unrecorded = 0, unrecorded_ns = 0;
  // Validation between two of the steps: how often it runs, in how many steps of its own, and its input and passes.
  int64_t validations = 0, validation_steps = 0, validation_ns = 0;

  int64_t count() const;
  double samples() const;  // of a step, on average; 0: not known of all
  int64_t total_ns() const;
  int64_t AllCount() const { return count() + unrecorded + interrupted; }
  int64_t AllNs() const { return total_ns() + unrecorded_ns + interrupted_ns; }
  double MeanWithInterruptedNs() const;  // at least one step
  double InterruptedPart() const {
    return AllNs() == 0 ? 0 : static_cast<double>(interrupted_ns) / static_cast<double>(AllNs());
  }
  double ValidationNs() const;  // for each step
  std::vector<int64_t> Durations() const;
};

// When the much longer ones come: "each 6th, after validation"; empty: at no regular distance.
std::string WhenInterrupted(const ComparedSteps& steps);

// Longer than the third quartile by three interquartile ranges (Tukey's outer fence, "Exploratory Data Analysis", 1977) and
// longer than the median by half. At least one duration.
double InterruptedNs(const std::vector<int64_t>& durations_ns);

// The tracks of a run with Step.left_out set.
std::vector<StepTrack> Judged(std::vector<StepTrack> tracks);

// Where each so many-th step of a judged track, as there are workers that load its data, waits for them most of its time: they
// deliver together, and such steps are as much steps as the others.
void CountWaitsForWorkers(const TraceModel& model, StepTrack& track);

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
