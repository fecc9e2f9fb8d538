// Slower or faster: see causes.h.
#include <cmath>

#include "analyzer/diff/causes.h"
#include "analyzer/steps/measured_steps.h"

namespace dlhook::analyzer::inline diff {
namespace {

constexpr double kMostSteps = 0.75;

Samples Scaled(Samples samples, double factor) {
  for (BlockMeans& blocks : samples) {
    for (double& block : blocks) block *= factor;
  }
  return samples;
}

Samples Minus(Samples samples, const Samples& others) {
  for (size_t run = 0; run < std::min(samples.size(), others.size()); ++run) {
    for (size_t i = 0; i < std::min(samples[run].size(), others[run].size()); ++i) samples[run][i] -= others[run][i];
  }
  return samples;
}

// Without the time in which its first thread waited for a processor that other programs used.
Samples OwnTime(const MeasuredRun& run) {
  return Minus(run.samples, Scaled(run.load.waiting_samples, run.load.OthersPart()));
}

// By which factor the same work may take more processor time where threads have to wait: those that wait actively for
// one without a processor keep their own as long as it waits; and others that share a core or its caches slow it down.
double CrowdFactor(const MachineLoad& load) {
  const double threads = std::max(std::min(load.own.wanted ? load.own.threads : load.threads, load.allowed), 2U);
  const double first_ns = load.first_thread_cpu_ns > 0 ? load.first_thread_cpu_ns : load.cpu_ns;
  return first_ns > 0 ? 1 + (threads - 1) * load.waiting_ns / first_ns : 1;
}

TimeChange ChangeOf(const Samples& base, const Samples& new_side, double base_factor, double new_factor) {
  TimeChange change;
  change.base_samples = Scaled(base, base_factor);
  change.new_samples = Scaled(new_side, new_factor);
  change.base_ns = MeanOf(change.base_samples);
  change.new_ns = MeanOf(change.new_samples);
  return change;
}

// Whether most steps of the slower side take longer than most of the other one's.
bool AreMostSteps(const MeasuredRun& slower, double slower_factor, const MeasuredRun& faster, double faster_factor) {
  const std::vector<int64_t> durations = slower.steps.Durations();
  const double most_ns = faster_factor * static_cast<double>(QuartilesOf(faster.steps.Durations()).upper);
  const auto longer = std::count_if(durations.begin(), durations.end(),
                                    [&](int64_t ns) { return slower_factor * static_cast<double>(ns) > most_ns; });
  return static_cast<double>(longer) >= kMostSteps * static_cast<double>(durations.size());
}

}  // namespace

Gate Decision::SlowerThan(double percent) const {
  if (with_longer.finding == Speed::kSlower && with_longer.change_ns() > percent / 100 * with_longer.base_ns) {
    return Gate::kFails;
  }
  const TimeChange& judged = is_by_cpu ? cpu : time;
  const double excess_ns = judged.change_ns() - percent / 100 * judged.base_ns;
  if (excess_ns <= 0) return Gate::kPasses;
  if (judged.finding == Speed::kUnknown) return Gate::kCannotTell;
  return judged.finding == Speed::kSlower && excess_ns > *judged.noise_ns ? Gate::kFails : Gate::kPasses;
}

Decision Decide(const BaseSide<const MeasuredRun*>& base, const NewSide<const MeasuredRun*>& new_side, const Pace& pace,
                bool is_same_work) {
  const MeasuredRun &before = **base, &after = **new_side;
  const double base_samples = before.steps.samples(), samples = after.steps.samples();
  Decision decision;
  decision.is_same_work = is_same_work;
  if (is_same_work) decision.pace = pace;
  double base_factor = 1, factor = 1;
  if (before.steps.count() == 0) decision.per = Per::kRun;
  if (decision.per == Per::kStep && before.steps.batch != after.steps.batch && before.steps.batch > 0 &&
      after.steps.batch > 0 && base_samples > 0 && samples > 0 && base_samples != samples) {
    decision.per = Per::kSample;
    base_factor = 1 / base_samples;
    factor = 1 / samples;
  }
  decision.low = ChangeOf(before.low_samples, after.low_samples, base_factor, factor);
  Judge(decision.pace, kPaceOfStep, 1, decision.low);
  decision.time = ChangeOf(before.samples, after.samples, base_factor, factor);
  decision.time.base_ns = before.time_ns * base_factor;  // blocks may differ by a step
  decision.time.new_ns = after.time_ns * factor;
  Judge(decision.pace, kPaceOfStep, 1, decision.time);
  const bool knows_both = before.load.is_known && after.load.is_known;
  if (knows_both && decision.per != Per::kRun) {
    decision.cpu = ChangeOf(before.load.cpu_samples, after.load.cpu_samples, base_factor, factor);
    const double crowd = CrowdFactor(after.load) / CrowdFactor(before.load);
    Judge({crowd * std::pow(decision.pace.ratio, kPaceOfStep)}, 1, 1, decision.cpu);
  }
  double own_change_ns = decision.time.change_ns();
  if ((before.load.is_known || after.load.is_known) && decision.per != Per::kRun) {
    // A side whose waiting is not known counts as if it had not waited.
    TimeChange running = ChangeOf(OwnTime(before), OwnTime(after), base_factor, factor);
    Judge(decision.pace, kPaceOfStep, 1, running);
    own_change_ns = running.change_ns();
    if (running.finding != decision.time.finding) decision.doubt = Doubt::kWaiting;
    // The machine was busy when the faster side ran, and how busy it was for the slower one is not known.
    const MeasuredRun& faster = decision.time.change_ns() > 0 ? before : after;
    if (!knows_both && faster.WaitedMuch()) decision.doubt = Doubt::kWaiting;
  }
  const bool is_slower = decision.time.change_ns() > 0;
  if (is_same_work && decision.low.finding != decision.time.finding &&
      !(is_slower ? AreMostSteps(after, factor, before, base_factor)
                  : AreMostSteps(before, base_factor, after, factor)))
    decision.doubt = Doubt::kOnlySomeSteps;
  if (!decision.time.IsBeyondNoise()) decision.doubt = Doubt::kNone;
  if (decision.doubt != Doubt::kNone) decision.time.finding = Speed::kNoise;
  // Where others disturb the times, the processor time that the program needs decides, if it is what changed.
  const double cpu_change_ns = decision.cpu.change_ns();
  if ((before.WaitedMuch() || after.WaitedMuch()) && decision.cpu.IsBeyondNoise() &&
      cpu_change_ns * decision.time.change_ns() > 0 &&
      (decision.time.finding == Speed::kNoise || std::abs(cpu_change_ns) >= std::abs(own_change_ns) / 2)) {
    decision.is_by_cpu = true;
    decision.doubt = Doubt::kNone;
    decision.time.finding = decision.cpu.finding;
  }
  decision.whole = decision.time;
  if (decision.per == Per::kSample) {
    decision.whole = ChangeOf(before.samples, after.samples, 1, 1);
    Judge(decision.pace, kPaceOfStep, 1, decision.whole);
  }
  return decision;
}

}  // namespace dlhook::analyzer::diff
