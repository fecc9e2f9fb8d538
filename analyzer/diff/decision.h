// Whether a run is slower or faster than another: the one decision behind the sentence, the verdict, the notes and the
// exit code.
#pragma once

#include <cstdint>

#include "analyzer/diff/changes.h"
#include "analyzer/diff/measured_run.h"
#include "analyzer/work/sides.h"

namespace dlhook::analyzer::inline diff {

enum class Per : uint8_t { kRun, kStep, kSample };  // kSample: if batch sizes differ

// Why a change of the mean beyond its noise bound may still not be real.
enum class Doubt : uint8_t {
  kNone,
  kOnlySomeSteps,  // the fastest quarter of the steps, which other programs disturb least, does not show it
  kWaiting  // it disappears without the time the step waited for other programs, or may do: not known on a busy machine
};

enum class Gate : uint8_t { kPasses, kFails, kCannotTell };

struct Decision {
  Per per = Per::kStep;
  TimeChange time;         // mean per step, sample or run (`per`); its finding is the decision
  TimeChange low;          // the same for the fastest quarter of the steps
  TimeChange cpu;          // CPU time of all threads; 0 if not known
  bool is_by_cpu = false;  // `cpu` decides: other programs disturb the times
  TimeChange with_longer;  // mean step, much longer ones included, where these tell the sides apart; else equal
  TimeChange whole;        // mean per step or run, whatever the batch size; the sum of the contributions
  bool is_same_work = false;
  Pace pace;  // 1 if the work differs: then different work explains different times
  Doubt doubt = Doubt::kNone;

  // Slower by more than `percent`, beyond the noise bound: without a change, at most kFalseAlarms of all comparisons
  // fail. kCannotTell: slower by more than that, but no noise bound is known.
  Gate SlowerThan(double percent) const;
};
inline constexpr double kFalseAlarms = kAlpha / 2;  // slower is one of two ways to differ

// `pace`: as measured on the work that both runs did.
Decision Decide(const BaseSide<const MeasuredRun*>& base, const NewSide<const MeasuredRun*>& new_side, const Pace& pace,
                bool is_same_work);

}  // namespace dlhook::analyzer::diff
