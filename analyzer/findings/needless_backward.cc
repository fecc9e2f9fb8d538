// Rule needless-backward: backward passes compute what could be computed once, or what nothing reads.
//
// The same node of the graph (a sequence number of PyTorch's autograd, of a thread) runs in several backward passes: backward()
// was called for each of several losses. Two may be a gradient penalty's; the graph of earlier steps belongs to growing-steps.
//
// More parameters get a gradient (AccumulateGrad) than optimizers update: layers that are not frozen, or a network that only
// another one's loss runs through. How many an optimizer updates is what most kinds of its operations are called: known of
// PyTorch's own that update each tensor separately, and unless the program may update others by itself (add_) or copy the
// gradients into a flat buffer that is updated as one (DeepSpeed's ZeRO).
#include "absl/container/flat_hash_set.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kNeedlessPercent = 5;
constexpr double kLeastPassesOfNode = 2.5;  // through one node
constexpr double kLeastGradients = 1.6;     // for each parameter that is updated
constexpr double kMoreGradients = 4;        // than that, at least
constexpr std::array<absl::string_view, 9> kOptimizers = {"SGD",    "Adam",  "AdamW", "RMSprop", "Adagrad",
                                                          "Adamax", "NAdam", "RAdam", "Adadelta"};
constexpr std::array<absl::string_view, 4> kUpdates = {"add_", "sub_", "addcdiv_", "lerp_"};

bool IsInNode(const TraceModel& model, ScopeIndex scope) {
  do {
    scope = model.scopes.parent[scope];
  } while (scope != kNone && model.scopes.look[scope].kind != ScopeKind::kBackwardNode);
  return scope != kNone;
}

std::vector<Finding> FindPassesAgain(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const ScopeColumns& scopes = model.scopes;
  struct Sum {
    double ns = 0, nodes = 0, runs = 0;
  };
  std::map<LayerIndex, Sum> by_layer;
  std::map<StackIndex, double> by_stack;  // nanoseconds
  absl::flat_hash_set<std::tuple<ThreadIndex, int64_t, NameIndex, LayerIndex>> nodes;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    const ScopeLook& look = scopes.look[scope];
    if (look.kind != ScopeKind::kBackwardNode || scopes.link[scope] < 0) continue;
    const ThreadIndex thread = scopes.thread[scope];
    if (facts.StepAt(model.threads[thread].process, scopes.start_ns[scope]) == kNone) continue;
    const LayerIndex layer = facts.attribution().PlaceOfScope(scope).layer;
    Sum& sum = by_layer[layer];
    // A checkpoint's node holds others.
    const auto ns = IsInNode(model, scope) ? 0 : static_cast<double>(scopes.duration_ns[scope]);
    sum.ns += ns;
    sum.nodes += nodes.insert({thread, scopes.link[scope], look.name, layer}).second ? 1 : 0;
    ++sum.runs;
    ScopeIndex called = scope;  // by the line of backward()
    while (called != kNone && scopes.look[called].stack == kNone) called = scopes.parent[called];
    if (called != kNone) by_stack[scopes.look[called].stack] += ns;
  }
  double ns = 0, gain_ns = 0, all_runs = 0, all_nodes = 0;
  std::set<LayerIndex> layers;
  for (const auto& [layer, sum] : by_layer) {
    if (sum.runs < kLeastPassesOfNode * sum.nodes) continue;
    layers.insert(layer);
    ns += sum.ns;
    gain_ns += sum.ns * (1 - sum.nodes / sum.runs);
    all_runs += sum.runs;
    all_nodes += sum.nodes;
  }
  gain_ns = std::min(gain_ns / facts.count(), facts.step_ns());
  if (!facts.IsAtLeast(gain_ns, kNeedlessPercent) || GrowthOfSteps(facts)) return {};
  const auto longest = MostOf(by_stack);
  Finding finding = {.where = facts.LayersOf([&](const WorkItem& item) {
    return absl::c_any_of(item.group->layers, [&](LayerIndex layer) { return layers.contains(layer); });
  })};
  if (longest != by_stack.end()) finding.line = facts.LineOfStack(longest->first);
  finding.gain_ns = gain_ns;
  finding.sentence =
      absl::StrFormat("Backward passes run %.0f times through the same forward pass: %s.", all_runs / all_nodes,
                      facts.PartOfStep(std::min(ns / facts.count(), facts.step_ns())));
  finding.evidence = "nodes of the graph that run several times; the gain: all but one time";
  finding.advice =
      "Add the losses up and call backward() once. Where each one's own gradient is needed: compute them together "
      "(torch.func.jacrev or vmap, grad(is_grads_batched=True)); where one needs the gradient before: fewer of them.";
  return {finding};
}

// Of all optimizers in a step; 0: not known of one.
double UpdatedParameters(const StepFacts& facts) {
  // Numbers of kinds of operations, by their calls in a step.
  std::map<const LayerGroup*, std::map<double, int>> optimizers;
  if (facts.TimesOf("aten::embedding_sparse_backward") > 0) return 0;  // a sparse gradient needs many kinds
  for (const WorkItem& item : facts.items()) {
    if (item.doing.direction != LayerDirection::kUpdate || item.scope == nullptr || item.begun == 0) continue;
    if (item.group->label == absl::StrCat("optimizer (", item.scope->op, ")")) continue;  // its own ranges
    if (absl::StartsWith(item.scope->op, "_foreach_") || absl::StartsWith(item.scope->op, "_fused_")) return 0;
    ++optimizers[item.group][std::round(item.begun)];
  }
  double updated = 0;
  for (const auto& [group, kinds] : optimizers) {
    const auto is_its = [&](absl::string_view name) { return group->label == absl::StrCat("optimizer (", name, ")"); };
    if (absl::c_none_of(kOptimizers, is_its)) return 0;
    updated += absl::c_max_element(kinds, [](const auto& a, const auto& b) { return a.second <= b.second; })->first;
  }
  return updated;
}

std::vector<Finding> FindUnusedGradients(const StepFacts& facts) {
  const double passes = static_cast<double>(std::max<int64_t>(facts.counted().micro_steps, 1));
  const double gradients = facts.TimesOf("torch::autograd::AccumulateGrad") / passes;
  const double updated = UpdatedParameters(facts);
  if (updated == 0 || gradients < std::max(kLeastGradients * updated, updated + kMoreGradients)) return {};
  double in_place = 0, copies = 0;  // where the program may update parameters, or gather gradients
  for (const WorkItem& item : facts.items()) {
    const LayerDirection direction = item.doing.direction;
    const bool is_modules = absl::c_any_of(
        item.group->layers, [&](LayerIndex layer) { return !facts.attribution().layers[layer].module.empty(); });
    const bool is_own = direction != LayerDirection::kUpdate && !IsBackward(direction) && !is_modules;
    if (!is_own || item.scope == nullptr) continue;
    if (absl::c_linear_search(kUpdates, item.scope->op)) in_place += item.begun;
    if (item.scope->op == "copy_") copies += item.begun;
  }
  if (in_place >= (gradients - updated) / 2 || copies >= gradients) return {};
  const auto is_in = [](const WorkItem& item) { return IsBackward(item.doing.direction); };
  const double gain_ns = facts.Sum(is_in) * (1 - updated / gradients);
  if (!facts.IsAtLeast(gain_ns, kNeedlessPercent)) return {};
  return {
      {.where = facts.LayersOf(is_in),
       .line = facts.LineOfLongest(is_in),
       .sentence = absl::StrFormat(
           "%.0f gradients of parameters are computed for every %.0f that optimizers use: backward passes take %s.",
           gradients, updated, facts.PartOfStep(facts.Sum(is_in))),
       .gain_ns = gain_ns,
       .evidence = "nodes AccumulateGrad, and operations of the optimizers; the gain: this part of the backward passes",
       .advice = "requires_grad_(False) for layers that are not trained; detach() what one network passes to another "
                 "one's loss (a GAN: fake.detach()); freeze a network while only another one is updated."}};
}

}  // namespace

std::vector<Finding> FindNeedlessBackward(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.steps().kind != StepKind::kTraining || facts.HasGpuTimes()) return {};
  std::vector<Finding> findings = FindPassesAgain(facts);
  if (findings.empty()) findings = FindUnusedGradients(facts);
  return findings;
}

}  // namespace dlhook::analyzer::findings
