#include "analyzer/findings/rules.h"

#include "analyzer/model/release.h"

namespace dlhook::analyzer::inline findings {
namespace {

// PyTorch's own work for an observer included. Measured were 110 ns (100 000 numbers taken out of tensors), 160 ns (processor
// time of the program of python-bound in tests/frameworks, an idle machine), 370 to 550 ns (a busy one) and 590 ns (LeNet:
// tests/bench/README.md, "Peers"): see MostOfScopeNs.
constexpr double kScopeNs = 400;
constexpr size_t kLeastFirstInner = 100;
constexpr size_t kMostFirstInner = 100'000;
// 20 ns for the record, 27 for CUPTI's callbacks (docs/cost.md).
constexpr double kGpuCallNs = 50;
// A call whose work CUPTI measured: 2.0 to 2.4 us on an H200 (docs/cost.md).
constexpr double kMeasuredCallNs = 2200;
constexpr double kMuch = 0.05;  // of the gain

// What another tool took for its trace (analyzer/import) is not known.
bool WasRecordedByOthers(const TraceModel& model) {
  return !model.processes.empty() && !SeesLibraries(model.processes.front());
}

// From the start of a scope to that of the first one in it, half of a scope is recorded, and something is done: where that
// takes least (a twentieth of the times) is the most that half a scope can take.
double MostOfScopeNs(const TraceModel& model) {
  const ScopeColumns& scopes = model.scopes;
  std::vector<int64_t> until_inner_ns;
  for (ScopeIndex scope = 1; scope < scopes.size() && until_inner_ns.size() < kMostFirstInner; ++scope) {
    if (scopes.parent[scope] != scope - 1 || scopes.look[scope - 1].kind != ScopeKind::kFrameworkOp) continue;
    until_inner_ns.push_back(scopes.start_ns[scope] - scopes.start_ns[scope - 1]);
  }
  if (until_inner_ns.size() < kLeastFirstInner) return kScopeNs;
  return std::min(2 * static_cast<double>(NthOf(until_inner_ns, until_inner_ns.size() / 20)), kScopeNs);
}

// By the usual costs.
double UsualCostOfScopes(const StepFacts& facts, const std::function<bool(ScopeIndex)>& counts) {
  if (!facts.UsesTorch() || WasRecordedByOthers(facts.model())) return 0;
  const TraceModel& model = facts.model();
  int64_t scopes = 0;
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    FoldedTime::Of(model, *facts.options().analysis).ForEachScope(process, [&](ScopeIndex scope, int64_t count) {
      if (counts(scope) && facts.StepAt(process, model.scopes.start_ns[scope]) != kNone) scopes += count;
    });
  }
  return MostOfScopeNs(model) * static_cast<double>(scopes) / facts.count();
}

double UsualCostOfGpuCalls(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  if (WasRecordedByOthers(model)) return 0;
  std::vector<bool> is_measured(model.calls.size());
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    const CallIndex call = model.gpu.launch_call[activity];
    if (call != kNone && model.gpu.source[activity] == GpuTimeSource::kCupti) is_measured[call] = true;
  }
  double own_ns = 0;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const bool is_counted = model.ops[model.calls.op[call]].on_gpu;
    if (is_counted && facts.StepOfCall(call) != kNone) {
      own_ns += is_measured[call] ? kMeasuredCallNs : kGpuCallNs;
    }
  }
  return own_ns / facts.count();
}

// What the run itself shows goes before the usual costs.
double AsMeasured(const StepFacts& facts, double usual_ns, bool are_gpu_calls) {
  const std::optional<WindowCost> cost = CostOfWindows(facts);
  if (!cost.has_value() || !cost->is_cost_told || usual_ns == 0) return usual_ns;
  if (are_gpu_calls && cost->has_gpu_times_throughout) return usual_ns;
  const double all_ns = UsualCostOfScopes(facts, [](ScopeIndex) { return true; }) +
                        (cost->has_gpu_times_throughout ? 0 : UsualCostOfGpuCalls(facts));
  return std::max(cost->added_ns, 0.0) * usual_ns / all_ns;
}

}  // namespace

double CostOfScopes(const StepFacts& facts, const std::function<bool(ScopeIndex)>& counts) {
  return AsMeasured(facts, UsualCostOfScopes(facts, counts), /*are_gpu_calls=*/false);
}

double CostOfGpuCalls(const StepFacts& facts) {
  return AsMeasured(facts, UsualCostOfGpuCalls(facts), /*are_gpu_calls=*/true);
}

void SubtractOwnCost(double own_ns, Finding& finding) {
  own_ns = std::min(own_ns, finding.gain_ns);
  if (own_ns <= 0) return;
  if (own_ns > kMuch * finding.gain_ns) {
    finding.confidence = finding.confidence == Confidence::kHigh ? Confidence::kMedium : Confidence::kLow;
  }
  finding.gain_ns -= own_ns;
  absl::StrAppend(&finding.evidence, "; about ", HumanTime(own_ns), " for recording was subtracted");
}

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

std::map<ScopeIndex, const Op*> ProductsOfOperations(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  std::map<ScopeIndex, const Op*> products;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const Op& op = model.ops[model.calls.op[call]];
    if (op.on_gpu || !MatmulShapeOf(op)) continue;
    ScopeIndex scope = model.calls.ScopeOf(call);
    while (facts.IsOp(scope) && !facts.IsOutermostOp(scope)) scope = model.scopes.parent[scope];
    if (facts.IsOp(scope)) products[scope] = &op;
  }
  return products;
}

bool IsInInput(const TraceModel& model, ScopeIndex scope) {
  while (scope != kNone && model.RoleOf(scope) != ScopeRole::kInput) scope = model.scopes.parent[scope];
  return scope != kNone;
}

bool IsInBackward(const TraceModel& model, ScopeIndex outermost) {
  const ScopeIndex parent = model.scopes.parent[outermost];
  return parent != kNone && model.scopes.look[parent].kind == ScopeKind::kBackwardNode;
}

const std::vector<DeviceMemory>& MemoryOfDevices(const StepFacts& facts) {
  static const auto& kNothing = *new std::vector<DeviceMemory>;
  const LayerAnalysis& analysis = *facts.options().analysis;
  if (facts.model().memory.empty()) return kNothing;
  return analysis.Derived<MemoryUse>(facts.model(), facts.attribution(), analysis.steps()).devices;
}

struct TensorsOfRun {
  explicit TensorsOfRun(const StepFacts& facts);
  std::vector<MadeTensor> tensors;
};

const std::vector<MadeTensor>& TensorsMade(const StepFacts& facts) {
  return facts.options().analysis->Derived<TensorsOfRun>(facts).tensors;
}

TensorsOfRun::TensorsOfRun(const StepFacts& facts) {
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
  for (const auto& [scope, made] : by_scope) tensors.push_back(made);
}

MadeTime TimeOfMade(const StepFacts& facts, const std::vector<MadeTensor>& made, const std::set<size_t>& tensors,
                    bool with_calls) {
  const TraceModel& model = facts.model();
  MadeTime time;
  std::set<LayerIndex> layers;
  std::set<std::pair<ProcessIndex, size_t>> steps;
  for (const MadeTensor& tensor : made)
    steps.insert({model.threads[model.scopes.thread[tensor.scope]].process, tensor.step});
  for (const size_t i : tensors) {
    const LayerIndex layer = facts.attribution().of_scope[made[i].scope].layer;
    if (layer != kNone) {
      layers.insert(layer);
    } else {
      time.ns += static_cast<double>(model.scopes.duration_ns[made[i].scope]);
    }
  }
  time.ns /= std::max(static_cast<double>(steps.size()), 1.0);
  const auto is_in = [&](const WorkItem& item) {
    return (item.scope != nullptr || (with_calls && item.IsHostCompute())) && !item.group->layers.empty() &&
           absl::c_all_of(item.group->layers, [&](LayerIndex layer) { return layers.contains(layer); });
  };
  time.ns = std::min(time.ns + facts.Sum(is_in), facts.step_ns());
  time.where = facts.LayersOf(is_in);
  return time;
}

}  // namespace dlhook::analyzer::findings
