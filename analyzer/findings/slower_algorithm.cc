// Rule slower-algorithm: a search measured an algorithm that is faster than the one that is executed.
//
// Times are those of the search, on the same tensors; the reason for the other choice may be its workspace or that its
// results do not repeat.
//
// Rule preparing-in-steps: warm-up work continues in steady steps: searching for algorithms, trials, creating
// primitives. Sizes that differ between them within a layer are what changes.
#include "analyzer/findings/rules.h"
#include "analyzer/model/gemm_shape.h"
#include "analyzer/model/onednn_text.h"
#include "analyzer/model/op_kind.h"
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
  const auto fastest =
      absl::c_min_element(problem->second, [](const auto& a, const auto& b) { return a.second.ns < b.second.ns; });
  return {item.calls * static_cast<double>(chosen->second.ns - fastest->second.ns), &item, &*chosen, &*fastest};
}

// Not that cuBLASLt is asked for an algorithm: PyTorch does so before each product with a bias, whatever its sizes.
bool IsPreparing(const WorkItem& item) {
  if (!item.IsCall() || (item.op->is_creation && item.op->cache_hit)) return false;
  return item.op->is_creation || item.op->is_trial || (IsKind(*item.op, OpKind::kSearch) && item.op->gemm() == nullptr);
}

// By their usual names, those of a problem's input alone: those of the result follow from them.
std::map<std::string, int64_t> SizesOf(const Op& op) {
  std::map<std::string, int64_t> sizes;
  if (const auto shape = MatmulShapeOf(op)) return {{"m", shape->m}, {"n", shape->n}, {"k", shape->k}};
  const auto numbers = ParseProblemNumbers(op.problem);
  if (!numbers) return sizes;
  for (const auto& [name, word] :
       {std::pair("mb", "batch"), {"ic", "channels"}, {"id", "depth"}, {"ih", "height"}, {"iw", "width"}}) {
    if (const auto found = numbers->find(name); found != numbers->end()) sizes[word] = found->second;
  }
  return sizes;
}

// "height 17 to 56 (40 sizes), width 17 to 56 (40 sizes)"; empty: not known.
std::string WhatChanges(const StepFacts& facts) {
  using Place = std::tuple<const LayerGroup*, LayerDirection, std::string>;
  std::map<Place, std::map<std::string, std::set<int64_t>>> of_layers;
  for (const WorkItem& item : facts.items()) {
    if (!IsPreparing(item) || item.group->layers.empty()) continue;
    auto& seen = of_layers[{item.group, item.doing.direction, item.op->kind + item.op->subject}];
    for (const auto& [name, size] : SizesOf(*item.op)) seen[name].insert(size);
  }
  std::map<std::string, std::set<int64_t>> most;  // of the layer that has most of a name's
  for (const auto& [place, sizes] : of_layers) {
    for (const auto& [name, seen] : sizes) {
      if (seen.size() > most[name].size()) most[name] = seen;
    }
  }
  std::vector<std::string> texts;
  for (const auto& [name, seen] : most) {
    if (seen.size() < 2) continue;
    texts.push_back(absl::StrFormat("%s %d to %d (%d sizes)", name, *seen.begin(), *seen.rbegin(), seen.size()));
  }
  return absl::StrJoin(texts, ", ");
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
  const Measured& fastest = largest.fastest->second;
  Finding finding = {
      .where = facts.LayersOf([&](const WorkItem& item) { return LossOf(item, by_problem).ns > 0; }),
      .line = facts.LineOf(*largest.item),
      .sentence = absl::StrFormat("A search measured a faster algorithm than the one that runs: %s %s where %s takes "
                                  "%s, %.0f times per step; in all %s.",
                                  largest.fastest->first, HumanTime(static_cast<double>(largest.fastest->second.ns)),
                                  largest.chosen->first, HumanTime(static_cast<double>(largest.chosen->second.ns)),
                                  largest.item->calls, facts.PartOfStep(sum_ns)),
      .gain_ns = sum_ns,
      .basis = GainBasis::kComputed,
      .evidence = "table candidates: times of the search; the gain is their difference x calls"};
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

std::vector<Finding> FindPreparing(const StepFacts& facts) {
  if (!facts.HasSteps()) return {};
  const double ns = facts.Sum(IsPreparing);
  if (!facts.IsAtLeast(ns, kLeastPercent)) return {};
  double calls = 0;
  std::set<std::string> problems;
  bool searches = false;
  for (const WorkItem& item : facts.items()) {
    if (!IsPreparing(item)) continue;
    calls += item.calls;
    problems.insert(item.op->problem);
    searches |= !item.op->is_creation;
  }
  const std::string changes = WhatChanges(facts);
  return {
      {.where = facts.LayersOf(IsPreparing),
       .sentence = absl::StrCat(searches ? "The search for algorithms" : "The preparation of primitives",
                                absl::StrFormat(" continues in steady steps, %.1f times per step for %d problems: %s.",
                                                calls, problems.size(), facts.PartOfStep(ns)),
                                changes.empty() ? "" : absl::StrCat(" In a layer change: ", changes, ".")),
       .gain_ns = ns,
       // Padding costs time, and a size that is new costs more than its preparation: in a test twice as much was gained.
       .basis = GainBasis::kMeasured,
       .confidence = searches ? Confidence::kHigh : Confidence::kLow,
       .evidence = "table tuning",
       .advice = searches ? "Changing shapes make cuDNN search again: pad or bucket the input to few sizes, or set "
                            "torch.backends.cudnn.benchmark = False."
                          : "Changing shapes make the library prepare again: pad or bucket the input to few sizes, "
                            "none much larger than it needs."}};
}

}  // namespace dlhook::analyzer::findings
