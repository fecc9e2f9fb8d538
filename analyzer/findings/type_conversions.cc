// Rule type-conversions: tensors are converted to another type in each step (PyTorch's aten::_to_copy, on the CPU).
//
// Autocast converts inside of an operation, before the product; weights too, once in a forward pass where their gradients are
// computed, else for each use. The program's own conversions are operations by themselves (aten::to): outside of its modules
// of what it has just made or read, data in float64, say. Networks in channels_last convert the memory format so, too.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kConversionsPercent = 10;

struct Conversions {
  double ns = 0;  // in a step
  std::map<StackIndex, double> by_line;
};

enum class By : uint8_t { kProgram, kModule, kAutocast };

Finding OfConversions(const StepFacts& facts, const Conversions& found, By by) {
  const auto most = std::max_element(found.by_line.begin(), found.by_line.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  Finding finding;
  if (by != By::kProgram) {
    finding.where =
        facts.LayersOf([](const WorkItem& item) { return item.scope != nullptr && item.scope->op == "copy_"; });
  }
  if (most->first != kNone) finding.line = LineLabel(facts.model(), ReadPythonPlaces(facts.model())[most->first]);
  finding.gain_ns = std::min(found.ns, facts.step_ns());
  finding.sentence = absl::StrFormat("Tensors are converted to another type%s in each %s (aten::_to_copy): %s.",
                                     by == By::kAutocast ? " inside of operations, as autocast does," : "",
                                     facts.StepNoun(), facts.PartOfStep(finding.gain_ns));
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table work: aten::copy_ of these layers; whether only the memory format changes is not recorded";
  if (by == By::kProgram) {
    finding.advice =
        "If it is data, convert it once, where it is made or read (NumPy makes float64 by default: "
        "astype(np.float32)), or in the loader's workers.";
  } else if (by == By::kModule) {
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
  const TraceModel& model = facts.model();
  const ScopeColumns& scopes = model.scopes;
  std::vector<bool> converts, is_own;  // by name
  for (const ScopeName& name : ReadScopeNames(model)) {
    converts.push_back(name.op == "_to_copy");
    is_own.push_back(name.op == "_to_copy" || name.op == "to" || name.op == "type_as");
  }
  std::map<By, Conversions> all;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    const ScopeLook& look = scopes.look[scope];
    if (look.kind != ScopeKind::kFrameworkOp || !converts[look.name]) continue;
    if (facts.StepAt(model.threads[scopes.thread[scope]].process, scopes.start_ns[scope]) == kNone) continue;
    ScopeIndex outermost = scope;  // which has the line
    while (scopes.parent[outermost] != kNone && scopes.look[scopes.parent[outermost]].kind == ScopeKind::kFrameworkOp)
      outermost = scopes.parent[outermost];
    const LayerIndex layer = facts.attribution().of_scope[scope].layer;
    const bool in_module = layer != kNone && !facts.attribution().layers[layer].module.empty();
    Conversions& found = all[!is_own[scopes.look[outermost].name] ? By::kAutocast
                             : in_module                          ? By::kModule
                                                                  : By::kProgram];
    const double ns = static_cast<double>(scopes.duration_ns[scope]) / facts.count();
    found.ns += ns;
    found.by_line[scopes.look[outermost].stack] += ns;
  }
  std::vector<Finding> findings;
  for (const auto& [by, found] : all) {
    // Where no call computes in another type, and the network's format is not the usual one, it may be the format.
    const bool may_be_format = by == By::kProgram && UsesChannelsLast(facts);
    if (facts.IsAtLeast(found.ns, kConversionsPercent) && !may_be_format)
      findings.push_back(OfConversions(facts, found, by));
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
