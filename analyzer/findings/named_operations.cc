#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

// Those that begin a quarter as many scopes as the busiest one of their process, or more: what one beside the steps does (a
// monitor, a loader) takes no time of these.
std::vector<bool> ThreadsThatCount(const TraceModel& model) {
  std::vector<size_t> scopes;
  std::map<ProcessIndex, size_t> most;
  for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread) {
    const auto [begin, end] = model.scopes.thread.RangeOf(thread);
    scopes.push_back(end - begin);
    size_t& of_process = most[model.threads[thread].process];
    of_process = std::max(of_process, scopes.back());
  }
  std::vector<bool> counts;
  for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread)
    counts.push_back(4 * scopes[thread] >= most[model.threads[thread].process]);
  return counts;
}

}  // namespace

std::string NamedOperations::Line(const StepFacts& facts) const {
  std::map<std::string, double> by_line;  // of several stacks
  for (const auto& [stack, ns] : by_stack) by_line[facts.LineOfStack(stack)] += ns;
  by_line.erase("");
  const auto line = MostOf(by_line);
  const auto layer = MostOf(by_layer);
  const std::string of_layer = layer == by_layer.end() ? "" : facts.attribution().layers[layer->first].line;
  if (line == by_line.end() || (!of_layer.empty() && layer->second > line->second)) return of_layer;
  return line->first;
}

std::map<int, NamedOperations> SumNamedOperations(const StepFacts& facts,
                                                  const std::function<int(const std::string&)>& kind,
                                                  const std::function<int(int, ScopeIndex, ScopeIndex)>& refine) {
  const TraceModel& model = facts.model();
  const ScopeColumns& scopes = model.scopes;
  const std::vector<ScopeName>& names = facts.scope_names();
  std::vector<int> kinds;  // by name
  for (const ScopeName& name : names) kinds.push_back(kind(name.op));
  const std::vector<bool> counts = ThreadsThatCount(model);
  std::map<int, NamedOperations> all;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (!facts.IsOp(scope) || kinds[scopes.look[scope].name] == 0 || !counts[scopes.thread[scope]]) continue;
    if (facts.StepOfScope(scope) == kNone) continue;
    ScopeIndex outermost = scope;  // which has the line
    bool is_inside = false;
    while (facts.IsOp(scopes.parent[outermost])) {
      outermost = scopes.parent[outermost];
      is_inside |= kinds[scopes.look[outermost].name] != 0;
    }
    const int refined = is_inside ? 0 : refine(kinds[scopes.look[scope].name], scope, outermost);
    if (refined == 0) continue;
    NamedOperations& found = all[refined];
    const double ns = static_cast<double>(scopes.duration_ns[scope]) / facts.count();
    found.ns += ns;
    found.by_op[names[scopes.look[scope].name].op] += ns;
    // Of the backward pass Python's line is that of backward().
    if (!IsInBackward(model, outermost)) found.by_stack[scopes.look[outermost].stack] += ns;
    const LayerIndex layer = facts.attribution().of_scope[scope].layer;
    if (layer != kNone) found.by_layer[layer] += ns;
  }
  return all;
}

bool IsInBackward(const TraceModel& model, ScopeIndex outermost) {
  const ScopeIndex parent = model.scopes.parent[outermost];
  return parent != kNone && model.scopes.look[parent].kind == ScopeKind::kBackwardNode;
}

}  // namespace dlhook::analyzer::findings
