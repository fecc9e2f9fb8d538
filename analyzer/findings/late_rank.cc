// Rule late-rank: ranks wait in collective operations for the one that comes last.
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/tables/ranks/collective_arrivals.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kLateRankPercent = 5;  // of a step, mean over the ranks that wait

}  // namespace

std::vector<Finding> FindLateRank(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.model().processes.size() < 2) return {};
  const std::vector<RankFacts> ranks = RanksCompared(facts.model(), facts.options().analysis->steps());
  double waiting_ns = 0, all_ns = 0;
  const RankFacts* last = nullptr;
  for (const RankFacts& rank : ranks) {
    waiting_ns += rank.waiting_ns;
    all_ns += rank.step_ns;
    if (rank.is_late) last = &rank;
  }
  if (all_ns <= 0) return {};
  const bool is_one = last != nullptr;
  // The one that comes last does not wait; if each does in turn, all of them wait at times.
  if (is_one) {
    waiting_ns -= last->waiting_ns;
    all_ns -= last->step_ns;
  }
  // As a part of the time, because the table's mean step has the much longer ones that the answer's leaves out.
  const double ns = waiting_ns / all_ns * facts.step_ns();
  if (!facts.IsAtLeast(ns, kLateRankPercent)) return {};
  Finding finding;
  finding.where = is_one ? last->name : "ranks";
  finding.sentence =
      is_one ? absl::StrFormat("The other ranks wait for %s, the last to arrive at %d of %d collective operations: %s.",
                               finding.where, last->came_last, last->collectives, facts.PartOfStep(ns))
             : absl::StrFormat("Ranks wait for each other in collective operations; no single rank stands out: %s.",
                               facts.PartOfStep(ns));
  finding.gain_ns = ns;
  finding.basis = GainBasis::kUpperBound;  // on a GPU, compute may run beside it
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table ranks: waiting, waited_for";
  finding.advice =
      is_one ? "Find what takes that rank longer than the others: report its process trace (RUN/*.dlh) alone and "
               "compare its input, its processors and its GPU with another one's."
             : "Give each rank the same work per step: batches of equal size, sequences of similar length.";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
