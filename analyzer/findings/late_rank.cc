// Rule late-rank: ranks wait in collective operations for the one that comes last.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kLateRankPercent = 5;  // of a step, mean over the ranks that wait

std::string NameOf(const Table& table, const Row& row) {
  const std::string rank = TextOf(table, row, "rank");
  return rank.empty() ? absl::StrFormat("process %.0f", NumberOf(table, row, "process")) : absl::StrCat("rank ", rank);
}

}  // namespace

std::vector<Finding> FindLateRank(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.model().processes.size() < 2) return {};
  const absl::StatusOr<Table> table = facts.MakeRunTable("ranks");
  if (!table.ok() || table->rows.size() < 2) return {};
  double waiting_ns = 0, all_ns = 0;
  const Row* last = nullptr;
  for (const Row& row : table->rows) {
    waiting_ns += NumberOf(*table, row, "waiting");
    all_ns += NumberOf(*table, row, "step_time");
    if (TextOf(*table, row, "late") == "yes") last = &row;
  }
  if (all_ns <= 0) return {};
  const bool is_one = last != nullptr;
  // The one that comes last does not wait; if each does in turn, all of them wait at times.
  if (is_one) {
    waiting_ns -= NumberOf(*table, *last, "waiting");
    all_ns -= NumberOf(*table, *last, "step_time");
  }
  // As a part of the time, because the table's mean step has the much longer ones that the answer's leaves out.
  const double ns = waiting_ns / all_ns * facts.step_ns();
  if (!facts.IsAtLeast(ns, kLateRankPercent)) return {};
  Finding finding;
  finding.where = is_one ? NameOf(*table, *last) : "ranks";
  finding.sentence =
      is_one
          ? absl::StrFormat("The other ranks wait for %s, which comes last to %.0f of %.0f collective operations: %s.",
                            finding.where, NumberOf(*table, *last, "came_last"), NumberOf(*table, *last, "collectives"),
                            facts.PartOfStep(ns))
          : absl::StrFormat("Ranks wait for each other in collective operations; no single rank stands out: %s.",
                            facts.PartOfStep(ns));
  finding.gain_ns = ns;
  finding.basis = GainBasis::kUpperBound;  // on a GPU, compute may run beside it
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table ranks: waiting, waited_for";
  finding.advice =
      is_one ? "Find what that rank does longer than the others: report its process trace (RUN/*.dlh) by itself and "
               "compare its input, its processors and its GPU with another one's."
             : "Give each rank as much work a step: batches of equal size, sequences of similar length.";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
