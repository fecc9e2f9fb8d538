// Whether a run is slower or faster than another: the one decision that the sentence, the verdict, the notes and the exit code tell.
#ifndef DLHOOK_ANALYZER_DIFF_DECISION_H_
#define DLHOOK_ANALYZER_DIFF_DECISION_H_

#include <cstdint>

#include "analyzer/diff/changes.h"
#include "analyzer/diff/measured_run.h"
#include "analyzer/diff/sides.h"

namespace dlhook::analyzer {

enum class Per : uint8_t { kRun, kStep, kSample };  // a sample where batches differ

enum class Gate : uint8_t { kPasses, kFails, kCannotTell };

struct Decision {
  Per per = Per::kStep;
  TimeChange time;   // mean, of what `per` says; its finding is the decision
  TimeChange low;    // the faster quarter of the steps alike: what other programs disturb least
  TimeChange whole;  // mean, of a step or the run, whatever the batch: what contributions add up to
  bool is_same_work = false;
  Pace pace;         // 1 where the work differs: what is done otherwise takes another time for that reason
  // The mean differs beyond its noise, the faster quarter of the steps doesn't: some steps were disturbed.
  bool only_some_steps = false;

  // Slower by more than `percent`, with the noise bound to spare: where it is not, a run fails in at most kFalseAlarms of all comparisons.
  // kCannotTell: slower by more than that, and no noise bound is known.
  Gate SlowerThan(double percent) const;
};
inline constexpr double kFalseAlarms = kAlpha / 2;  // slower is one of the two ways to differ

// `pace`: as the work that is the same tells it.
Decision Decide(const Baseline<const MeasuredRun*>& base, const Contender<const MeasuredRun*>& candidate,
                const Pace& pace, bool is_same_work);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_DIFF_DECISION_H_
