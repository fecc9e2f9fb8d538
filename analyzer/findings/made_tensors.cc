#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {

const std::vector<DeviceMemory>& MemoryOfDevices(const StepFacts& facts) {
  static const auto& kNothing = *new std::vector<DeviceMemory>;
  const LayerAnalysis& analysis = *facts.options().analysis;
  if (facts.model().memory.empty()) return kNothing;
  return analysis.Derived<MemoryUse>(facts.model(), facts.attribution(), analysis.steps()).devices;
}

std::vector<MadeTensor> TensorsMade(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const ScopeColumns& scopes = model.scopes;
  std::map<ScopeIndex, MadeTensor> by_scope;
  for (const DeviceMemory& device : MemoryOfDevices(facts)) {
    if (device.device != 0) continue;
    std::multiset<int64_t> alive;
    std::multimap<size_t, int64_t> dying;  // by event
    for (const MemoryBlock& block : device.blocks) {
      const MemoryEvent& born = model.memory[block.born];
      for (; !dying.empty() && dying.begin()->first <= block.born; dying.erase(dying.begin()))
        alive.erase(alive.find(dying.begin()->second));
      const int64_t largest_before = alive.empty() ? 0 : *alive.rbegin();
      alive.insert(born.bytes);
      if (block.died != SIZE_MAX) dying.emplace(block.died, born.bytes);
      if (!facts.IsOp(born.scope)) continue;
      ScopeIndex scope = born.scope;  // the outermost
      bool converts = false;
      for (;; scope = scopes.parent[scope]) {
        converts |= facts.scope_names()[scopes.look[scope].name].op == "_to_copy";
        if (!facts.IsOp(scopes.parent[scope])) break;
      }
      const bool stays = block.died == SIZE_MAX || model.memory[block.died].time_ns >= scopes.EndOf(scope);
      const size_t step = stays || converts ? facts.StepAt(device.process, scopes.start_ns[scope]) : kNone;
      if (step == kNone) continue;
      MadeTensor& made =
          by_scope.try_emplace(scope, MadeTensor{.scope = scope, .largest_before = largest_before}).first->second;
      made.step = step;
      if (stays) made.bytes = std::max(made.bytes, born.bytes);
      if (converts) made.converted_bytes = std::max(made.converted_bytes, born.bytes);
    }
  }
  std::vector<MadeTensor> tensors;
  for (const auto& [scope, made] : by_scope) tensors.push_back(made);
  return tensors;
}

double StepsOf(const StepFacts& facts, const std::vector<MadeTensor>& made) {
  const TraceModel& model = facts.model();
  std::set<std::pair<ProcessIndex, size_t>> steps;
  for (const MadeTensor& tensor : made)
    steps.insert({model.threads[model.scopes.thread[tensor.scope]].process, tensor.step});
  return std::max(static_cast<double>(steps.size()), 1.0);
}

MadeTime TimeOfMade(const StepFacts& facts, const std::vector<MadeTensor>& made, const std::set<size_t>& tensors) {
  MadeTime time;
  std::set<LayerIndex> layers;
  for (const size_t i : tensors) {
    const LayerIndex layer = facts.attribution().of_scope[made[i].scope].layer;
    if (layer != kNone) {
      layers.insert(layer);
    } else {
      time.ns += static_cast<double>(facts.model().scopes.duration_ns[made[i].scope]);
    }
  }
  time.ns /= StepsOf(facts, made);
  const auto is_in = [&](const WorkItem& item) {
    return item.scope != nullptr && !item.group->layers.empty() &&
           absl::c_all_of(item.group->layers, [&](LayerIndex layer) { return layers.contains(layer); });
  };
  time.ns = std::min(time.ns + facts.Sum(is_in), facts.step_ns());
  time.where = facts.LayersOf(is_in);
  return time;
}

}  // namespace dlhook::analyzer::findings
