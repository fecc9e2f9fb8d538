// Rule type-conversions: tensors are converted to another type in each step (PyTorch's aten::_to_copy, on the CPU).
//
// Outside of all layers the program converts what it has just made or read: data in float64, say. Within layers autocast
// does, before each product; weights too, once in a forward pass where their gradients are computed, else for each use.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
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

// A layer that is a module of the program, not an operation at one of its lines.
bool IsInModule(const StepFacts& facts, ScopeIndex scope) {
  const LayerIndex layer = facts.attribution().of_scope[scope].layer;
  return layer != kNone && !absl::StrContains(facts.attribution().layers[layer].name, ' ');
}

Finding OfConversions(const StepFacts& facts, const Conversions& found, bool in_layers) {
  const auto most = std::max_element(found.by_line.begin(), found.by_line.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool is_inference = facts.steps().kind == StepKind::kInference;
  Finding finding;
  if (in_layers) {
    finding.where =
        facts.LayersOf([](const WorkItem& item) { return item.scope != nullptr && item.scope->op == "copy_"; });
  }
  if (most->first != kNone) finding.line = LineLabel(facts.model(), ReadPythonPlaces(facts.model())[most->first]);
  finding.gain_ns = std::min(found.ns, facts.step_ns());
  finding.sentence = absl::StrFormat("Tensors are converted to another type%s in each %s (aten::_to_copy): %s.",
                                     in_layers ? " within layers, as autocast does," : "", facts.StepNoun(),
                                     facts.PartOfStep(finding.gain_ns));
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table work: aten::copy_ of these layers; whether only the memory format changes is not recorded";
  if (!in_layers) {
    finding.advice =
        "Convert once, where the data is made or read (NumPy makes float64 by default: astype(np.float32)), or in the "
        "loader's workers.";
  } else if (is_inference) {
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
  std::vector<bool> converts;  // by name
  for (const ScopeName& name : ReadScopeNames(model)) converts.push_back(name.op == "_to_copy");
  Conversions in_layers, outside;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    const ScopeLook& look = scopes.look[scope];
    if (look.kind != ScopeKind::kFrameworkOp || !converts[look.name]) continue;
    if (facts.StepAt(model.threads[scopes.thread[scope]].process, scopes.start_ns[scope]) == kNone) continue;
    Conversions& found = IsInModule(facts, scope) ? in_layers : outside;
    const double ns = static_cast<double>(scopes.duration_ns[scope]) / facts.count();
    found.ns += ns;
    ScopeIndex outermost = scope;  // which has the line
    while (scopes.parent[outermost] != kNone && scopes.look[scopes.parent[outermost]].kind == ScopeKind::kFrameworkOp)
      outermost = scopes.parent[outermost];
    found.by_line[scopes.look[outermost].stack] += ns;
  }
  std::vector<Finding> findings;
  for (const bool of_layers : {false, true}) {
    const Conversions& found = of_layers ? in_layers : outside;
    if (facts.IsAtLeast(found.ns, kConversionsPercent)) findings.push_back(OfConversions(facts, found, of_layers));
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
