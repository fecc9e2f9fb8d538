// Rule warm-up: a run so short that its first steps take much of it: searching for algorithms, compiling, creating
// primitives. Only information: no steady step gets faster.
//
// The time: what the warm-up steps take beyond as many steady ones, spread over all steps.
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kWarmUpPercent = 20;  // of all steps
constexpr double kLeastNs = 2e9;
constexpr double kIdleThreads = 0.5;

}  // namespace

std::vector<Finding> FindLongWarmUp(const StepFacts& facts) {
  // A part of a run has all of its warm-up, but not all of its steps.
  if (!facts.HasSteps() || !facts.model().read_spans.empty()) return {};
  // First steps may have been slow for another reason. The steady ones tell: the program's own compilers are done there.
  if (facts.load().is_known && facts.load().runnable > facts.load().processors + kIdleThreads) return {};
  double warm_up = 0, warm_up_ns = 0, all = 0, all_ns = 0;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    for (const Step& step : track.steps) {
      const auto ns = static_cast<double>(step.end_ns - step.start_ns);
      ++all;
      all_ns += ns;
      if (!step.is_warm_up || step.kind != facts.steps().kind) continue;
      ++warm_up;
      warm_up_ns += ns;
    }
  }
  const double extra_ns = warm_up_ns - warm_up * facts.step_ns();
  if (extra_ns < kLeastNs || extra_ns < kWarmUpPercent / 100 * all_ns) return {};
  const bool compiles = facts.model().HasRole(ScopeRole::kTorchRegion);
  Finding finding;
  finding.where = "warm-up";
  finding.sentence = absl::StrFormat("%.0f warm-up %s %s; all %.0f steps of the run take %s, a steady one %s.", warm_up,
                                     warm_up == 1 ? "step takes" : "steps take", HumanTime(warm_up_ns), all,
                                     HumanTime(all_ns), HumanTime(facts.step_ns()));
  finding.gain_ns = extra_ns / all;
  finding.whole_ns = all_ns / all;
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kHigh;
  finding.is_information = true;
  finding.evidence = "table steps, phase warm-up; the time is spread over all steps of the run";
  finding.advice = compiles ? "For runs this short: without torch.compile, or with its cache kept between runs "
                              "(TORCHINDUCTOR_CACHE_DIR)."
                            : "For runs this short: do several in one process; table tuning shows searches and plans.";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
