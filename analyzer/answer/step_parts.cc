// Where a mean step's time goes: see step_parts.h.
#include "analyzer/answer/step_parts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/analysis/sample_places.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/time/gap_samples.h"
#include "analyzer/time/sample_split.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr double kSmallOp = 0.04;  // of the step; smaller ops are combined
constexpr char kOtherOps[] = "other framework ops";
constexpr char kNotKnown[] = "nothing that dlhook sees";
constexpr char kPython[] = "Python";
constexpr char kInput[] = "waiting for input";

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
      return kPython;
    case ActivityKind::kDataLoading:
      return kInput;
    case ActivityKind::kWaiting:
      return "waiting for the GPU";
    case ActivityKind::kUnattributed:
      break;
  }
  return kNotKnown;
}

// What samples tell of time that is not seen: whose code computed. Instead of the parts of these kinds of activity.
void DivideBySamples(const StepFacts& facts, std::map<std::string, double>& by_name) {
  const TraceModel& model = facts.model();
  if (model.samples.empty()) return;
  const auto& places = facts.options().analysis->Derived<SamplePlaces>(model);
  const auto& samples = facts.options().analysis->Derived<GapSamples>(model);
  std::map<ActivityKind, SampleSums> by_kind;
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    for (const GapSample& at : samples.Of(process)) {
      if (facts.HasSteps() && facts.StepAt(process, at.piece.start_ns) == kNone) continue;
      by_kind[at.piece.kind][places.OwnerOf(at.sample)].Add(SumOfOne(model.samples.cpu_ns[at.sample]));
    }
  }
  for (const auto& [kind, name] : {std::pair(ActivityKind::kNotSeen, kPython),
                                   {ActivityKind::kUnattributed, kNotKnown},
                                   {ActivityKind::kDataLoading, kInput}}) {
    const auto wall_ns = static_cast<int64_t>(
        facts.Sum([&](const WorkItem& item) { return item.doing.activity == kind; }) * facts.count());
    const SampleSplit split = SplitBySamples(wall_ns, places.Joined(by_kind[kind]));
    if (split.parts.empty()) continue;
    const bool is_input = kind == ActivityKind::kDataLoading;
    by_name.erase(name);
    for (const SamplePart& part : split.parts) {
      by_name[absl::StrCat(places.name(part.place), is_input ? " (input)" : "")] +=
          static_cast<double>(part.ns) / facts.count();
    }
    by_name[is_input ? kInput : kNotComputing] += static_cast<double>(split.rest_ns) / facts.count();
  }
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
  DivideBySamples(facts, by_name);
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
