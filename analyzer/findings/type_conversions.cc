// Rule type-conversions: tensors are converted to another type in each step (PyTorch's aten::_to_copy, on the CPU).
//
// Autocast converts inside of an operation, before the product; weights too, once in a forward pass where their gradients are
// computed, else for each use. The program's own conversions are operations by themselves (aten::to): outside of its modules
// of what it has just made or read, data in float64, say. Networks in channels_last convert the memory format so, too.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/findings/named_operations.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kConversionsPercent = 10;

enum By : int { kProgram = 1, kModule, kAutocast };

Finding OfConversions(const StepFacts& facts, const NamedOperations& found, int by) {
  Finding finding;
  if (by != kProgram) {
    finding.where =
        facts.LayersOf([](const WorkItem& item) { return item.scope != nullptr && item.scope->op == "copy_"; });
  }
  finding.line = found.Line(facts);
  finding.gain_ns = std::min(found.ns, facts.step_ns());
  finding.sentence = absl::StrFormat("Tensors are converted to another type%s in each %s (aten::_to_copy): %s.",
                                     by == kAutocast ? " inside of operations, as autocast does," : "",
                                     facts.StepNoun(), facts.PartOfStep(finding.gain_ns));
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table work: aten::copy_ of these layers; whether only the memory format changes is not recorded";
  if (by == kProgram) {
    finding.advice =
        "If it is data, convert it once, where it is made or read (NumPy makes float64 by default: "
        "astype(np.float32)), or in the loader's workers.";
  } else if (by == kModule) {
    finding.advice = "Keep one type within these layers, or convert once for several of them.";
  } else if (facts.steps().kind == StepKind::kInference) {
    finding.advice =
        "Convert the model once, model.to(torch.bfloat16), in place of torch.autocast: it converts weights for each "
        "use.";
    finding.changes_numerics = true;
  } else {
    finding.advice = "A larger batch: the weights are converted once in a pass, however many rows it has.";
    finding.is_information = true;
  }
  return finding;
}

}  // namespace

std::vector<Finding> FindTypeConversions(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes()) return {};
  const auto is_own = [](const std::string& op) { return op == "_to_copy" || op == "to" || op == "type_as"; };
  const std::vector<ScopeName> names = ReadScopeNames(facts.model());
  const auto found_by = SumNamedOperations(
      facts, [](const std::string& op) { return op == "_to_copy" ? kProgram : 0; },
      [&](int, ScopeIndex scope, ScopeIndex outermost) -> int {
        if (!is_own(names[facts.model().scopes.look[outermost].name].op)) return kAutocast;
        const LayerIndex layer = facts.attribution().of_scope[scope].layer;
        const bool in_module = layer != kNone && !facts.attribution().layers[layer].module.empty();
        return in_module ? kModule : kProgram;
      });
  std::vector<Finding> findings;
  for (const auto& [by, found] : found_by) {
    // Where no call computes in another type, and the network's format is not the usual one, it may be the format.
    const bool may_be_format = by == kProgram && UsesChannelsLast(facts);
    if (facts.IsAtLeast(found.ns, kConversionsPercent) && !may_be_format)
      findings.push_back(OfConversions(facts, found, by));
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
