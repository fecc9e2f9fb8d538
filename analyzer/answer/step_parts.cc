// Where a mean step's time goes: see step_parts.h.
#include "analyzer/answer/step_parts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/calls/op_labels.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr double kSmallOp = 0.04;  // of the step; smaller ops are combined
constexpr char kOtherOps[] = "other framework ops";
constexpr char kNotKnown[] = "nothing that dlhook sees";

std::string NameOfCall(const Op& op) {
  if (op.is_creation) return "preparing primitives";
  if (op.kind == "search" || op.is_trial) return "searching for algorithms";
  if (op.kind == "kernel") return "kernel launches";
  if (op.kind == "copy" || op.kind == "memset") return "memory copies";
  if (op.kind == "collective") return "communication";
  if (op.kind == "call") return "other CUDA calls";
  return KindLabel(op);
}

std::string NameOf(const WorkItem& item) {
  switch (item.doing.activity) {
    case ActivityKind::kCall:
      return NameOfCall(*item.op);
    case ActivityKind::kScope:
      return item.scope->op.empty() ? kOtherOps : item.scope->op;
    case ActivityKind::kNotSeen:
      return "Python";
    case ActivityKind::kDataLoading:
      return "waiting for input";
    case ActivityKind::kWaiting:
      return "waiting for the GPU";
    case ActivityKind::kUnattributed:
      break;
  }
  return kNotKnown;
}

void SetPercents(std::vector<StepPart>& parts) {
  double whole_ns = 0;
  for (const StepPart& part : parts) whole_ns += part.ns;
  if (whole_ns <= 0) return;
  int left = 100;
  std::vector<std::pair<double, StepPart*>> remainders;
  for (StepPart& part : parts) {
    const double exact = 100 * part.ns / whole_ns;
    part.percent = static_cast<int>(std::floor(exact));
    left -= part.percent;
    remainders.emplace_back(part.percent - exact, &part);
  }
  std::sort(remainders.begin(), remainders.end());
  for (int i = 0; i < left && i < static_cast<int>(remainders.size()); ++i)
    ++remainders[static_cast<size_t>(i)].second->percent;
}

}  // namespace

std::vector<StepPart> PartsOfStep(const StepFacts& facts, size_t most) {
  std::map<std::string, double> by_name, of_ops;
  for (const WorkItem& item : facts.items()) {
    const bool is_op = item.doing.activity == ActivityKind::kScope;
    (is_op ? of_ops : by_name)[NameOf(item)] += item.ns;
  }
  for (const auto& [name, ns] : of_ops) {
    const bool is_small = name == kOtherOps || !facts.IsAtLeast(ns, 100 * kSmallOp);
    by_name[is_small ? kOtherOps : absl::StrCat(name, " (framework)")] += ns;
  }
  std::vector<StepPart> parts;
  StepPart not_known = {.name = kNotKnown, .ns = by_name[kNotKnown]};
  by_name.erase(kNotKnown);
  for (const auto& [name, ns] : by_name) {
    if (ns > 0) parts.push_back({.name = name, .ns = ns});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const StepPart& a, const StepPart& b) { return a.ns > b.ns; });
  if (parts.size() > most) {
    StepPart rest = {.name = "everything else"};
    for (size_t i = most - 1; i < parts.size(); ++i) rest.ns += parts[i].ns;
    parts.resize(most - 1);
    parts.push_back(rest);
  }
  if (not_known.ns > 0) parts.push_back(not_known);
  SetPercents(parts);
  return parts;
}

}  // namespace dlhook::analyzer::answer
