// Whether a run is slower or faster than another: the one decision that the sentence, the verdict, the notes and the exit code tell.
#ifndef DLHOOK_ANALYZER_DIFF_DECISION_H_
#define DLHOOK_ANALYZER_DIFF_DECISION_H_

#include <cstdint>

#include "analyzer/diff/changes.h"
#include "analyzer/diff/measured_run.h"
#include "analyzer/diff/sides.h"

namespace dlhook::analyzer::inline diff {

enum class Per : uint8_t { kRun, kStep, kSample };  // a sample where batches differ

// What speaks against a change of the mean that is beyond its noise bound.
enum class Doubt : uint8_t {
  kNone,
  kOnlySomeSteps,  // the faster quarter of the steps, which other programs disturb least, does not show it
  kWaiting         // without the time for which the step waited for a processor it is none
};

enum class Gate : uint8_t { kPasses, kFails, kCannotTell };

struct Decision {
  Per per = Per::kStep;
  TimeChange time;   // mean, of what `per` says; its finding is the decision
  TimeChange low;    // the same of the faster quarter of the steps
  TimeChange cpu;    // CPU time of all threads; 0 where it is not known
  TimeChange whole;  // mean, of a step or the run, whatever the batch: what contributions add up to
  bool is_same_work = false;
  Pace pace;  // 1 where the work differs: what is done otherwise takes another time for that reason
  Doubt doubt = Doubt::kNone;

  // Slower by more than `percent`, with the noise bound to spare: where it is not, a run fails in at most kFalseAlarms of all comparisons.
  // kCannotTell: slower by more than that, and no noise bound is known.
  Gate SlowerThan(double percent) const;
};
inline constexpr double kFalseAlarms = kAlpha / 2;  // slower is one of the two ways to differ

// `pace`: as the work that is the same tells it.
Decision Decide(const Baseline<const MeasuredRun*>& base, const Contender<const MeasuredRun*>& candidate,
                const Pace& pace, bool is_same_work);

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_DECISION_H_
