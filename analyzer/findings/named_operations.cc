#include "analyzer/findings/named_operations.h"

#include "absl/algorithm/container.h"
#include "analyzer/calls/python_places.h"

namespace dlhook::analyzer::inline findings {
namespace {

template <typename Key>
std::pair<Key, double> Longest(const std::map<Key, double>& by) {
  const auto most = absl::c_max_element(by, [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == by.end() ? std::pair(Key(kNone), 0.0) : std::pair(most->first, most->second);
}

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
  const std::vector<PythonPlace> places = ReadPythonPlaces(facts.model());
  for (const auto& [stack, ns] : by_stack) {
    if (stack != kNone) by_line[LineLabel(facts.model(), places[stack])] += ns;
  }
  by_line.erase("");
  const auto stack = absl::c_max_element(by_line, [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto [layer, layer_ns] = Longest(by_layer);
  const std::string line = stack == by_line.end() ? "" : stack->first;
  const double stack_ns = stack == by_line.end() ? 0 : stack->second;
  const std::string of_layer = layer == kNone ? "" : facts.attribution().layers[layer].line;
  return line.empty() || (!of_layer.empty() && layer_ns > stack_ns) ? of_layer : line;
}

std::map<int, NamedOperations> SumNamedOperations(const StepFacts& facts,
                                                  const std::function<int(const std::string&)>& kind,
                                                  const std::function<int(int, ScopeIndex, ScopeIndex)>& refine) {
  const TraceModel& model = facts.model();
  const ScopeColumns& scopes = model.scopes;
  const std::vector<ScopeName> names = ReadScopeNames(model);
  std::vector<int> kinds;  // by name
  for (const ScopeName& name : names) kinds.push_back(kind(name.op));
  const auto is_op = [&](ScopeIndex scope) {
    return scope != kNone && scopes.look[scope].kind == ScopeKind::kFrameworkOp;
  };
  const std::vector<bool> counts = ThreadsThatCount(model);
  std::map<int, NamedOperations> all;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (!is_op(scope) || kinds[scopes.look[scope].name] == 0 || !counts[scopes.thread[scope]]) continue;
    if (facts.StepAt(model.threads[scopes.thread[scope]].process, scopes.start_ns[scope]) == kNone) continue;
    ScopeIndex outermost = scope;  // which has the line
    bool is_inside = false;
    while (is_op(scopes.parent[outermost])) {
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
