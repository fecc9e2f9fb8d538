// Rule slower-algorithm: a search measured an algorithm that is faster than the one that is executed.
//
// Times are those of the search, on the same tensors; the reason for the other choice may be its workspace or that its
// results do not repeat.

#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/tables/op_groups.h"

namespace dlhook::analyzer::inline findings {
namespace {

struct Measured {
  int64_t ns = 0;
  int64_t workspace_bytes = 0;
  bool is_deterministic = true;  // or not known
};
using Candidates = std::map<std::string, Measured>;  // by ChosenLabel

void Add(const std::string& name, const Measured& measured, Candidates& candidates) {
  if (measured.ns <= 0) return;
  const auto [it, is_new] = candidates.try_emplace(name, measured);
  if (!is_new) it->second.ns = std::min(it->second.ns, measured.ns);
}

// By ProblemKey.
std::map<std::string, Candidates> MeasuredCandidates(const TraceModel& model, const Choices& choices) {
  std::map<std::string, Candidates> by_problem;
  for (const PlanSearch& search : choices.plan_searches) {
    Candidates& candidates = by_problem[ProblemKey(model.ops[search.candidates.front().op])];
    for (const PlanCandidate& candidate : search.candidates) {
      const Op& op = model.ops[candidate.op];
      Add(ChosenLabel(op), {candidate.time_ns().value_or(0), op.workspace_bytes.value_or(0)}, candidates);
    }
  }
  for (const AlgorithmSearch& search : choices.algorithm_searches) {
    const Op& op = model.ops[model.calls.op[search.call]];
    if (!op.search()->is_measured) continue;
    Candidates& candidates = by_problem[ProblemKey(op)];
    for (const Candidate& candidate : op.candidates) {
      if (candidate.status != 0) continue;
      Add(candidate.algorithm, {candidate.time_ns, candidate.workspace_bytes, candidate.is_deterministic}, candidates);
    }
  }
  return by_problem;
}

struct Loss {
  double ns = 0;
  const WorkItem* item = nullptr;
  const Candidates::value_type* chosen = nullptr;
  const Candidates::value_type* fastest = nullptr;
};

Loss LossOf(const WorkItem& item, const std::map<std::string, Candidates>& by_problem) {
  if (!item.IsCall() || item.op->is_trial || item.op->cudnn() == nullptr) return {};
  const auto problem = by_problem.find(ProblemKey(*item.op));
  if (problem == by_problem.end()) return {};
  const auto chosen = problem->second.find(ChosenLabel(*item.op));
  if (chosen == problem->second.end()) return {};
  const auto fastest = std::min_element(problem->second.begin(), problem->second.end(),
                                        [](const auto& a, const auto& b) { return a.second.ns < b.second.ns; });
  return {item.calls * static_cast<double>(chosen->second.ns - fastest->second.ns), &item, &*chosen, &*fastest};
}

}  // namespace

std::vector<Finding> FindSlowerAlgorithm(const StepFacts& facts) {
  const auto by_problem = MeasuredCandidates(facts.model(), *facts.options().choices);
  double sum_ns = 0;
  Loss largest;
  for (const WorkItem& item : facts.items()) {
    const Loss loss = LossOf(item, by_problem);
    sum_ns += loss.ns;
    if (loss.ns > largest.ns) largest = loss;
  }
  // More than a whole step: the search timed something else, or the trace is damaged.
  if (!facts.IsAtLeast(sum_ns, kLeastPercent) || sum_ns > facts.step_ns()) return {};
  Finding finding;
  finding.where = facts.LayersOf([&](const WorkItem& item) { return LossOf(item, by_problem).ns > 0; });
  finding.line = facts.LineOf(*largest.item);
  finding.sentence = absl::StrFormat(
      "A search measured a faster algorithm than the one that runs: %s %s where %s takes %s, %.0f times per step; in "
      "all "
      "%s.",
      largest.fastest->first, HumanTime(static_cast<double>(largest.fastest->second.ns)), largest.chosen->first,
      HumanTime(static_cast<double>(largest.chosen->second.ns)), largest.item->calls, facts.PartOfStep(sum_ns));
  finding.gain_ns = sum_ns;
  finding.basis = GainBasis::kComputed;
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table candidates: times of the search; the gain is their difference x calls";
  const Measured& fastest = largest.fastest->second;
  if (fastest.workspace_bytes > largest.chosen->second.workspace_bytes) {
    finding.advice = absl::StrCat("Allow it its workspace of ", HumanCell(fastest.workspace_bytes, "bytes"),
                                  " (it has ", HumanCell(largest.chosen->second.workspace_bytes, "bytes"), " now).");
  } else if (!fastest.is_deterministic) {
    finding.advice =
        "Its results differ in the last bits from run to run. If that is acceptable: "
        "torch.use_deterministic_algorithms(False), torch.backends.cudnn.deterministic = False.";
    finding.changes_numerics = true;
  } else {
    finding.advice = "Use the algorithm that the search found (torch.backends.cudnn.benchmark = True).";
  }
  return {finding};
}

}  // namespace dlhook::analyzer::findings
