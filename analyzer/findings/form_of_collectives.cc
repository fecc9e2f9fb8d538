// Rule faster-form, collective operations of Gloo, with waits for other ranks: gradients reduced in each of several backward
// passes before an update; many operations of few bytes, of pickled objects, of buffers.

#include <cmath>

#include "absl/strings/str_format.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/findings/faster_form.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/scope_looks.h"

namespace dlhook::analyzer::inline findings {
namespace {

bool IsCollectiveOp(const std::string& op) {
  return absl::c_linear_search(std::initializer_list<absl::string_view>{"allreduce_", "broadcast_", "allgather_",
                                                                        "_allgather_base_", "_reduce_scatter_base_"},
                               op);
}

// Gradient accumulation without no_sync(), which reduces what only the update needs.
std::vector<Finding> ReducedGradients(const StepFacts& facts) {
  const auto passes = static_cast<double>(facts.counted().micro_steps);
  const auto is_reduction = [](const WorkItem& item) {
    return item.scope != nullptr && item.scope->op == "allreduce_" && IsBackward(item.doing.direction);
  };
  double reductions = 0;
  for (const WorkItem& item : facts.items()) reductions += is_reduction(item) ? item.begun : 0;
  if (passes < 2 || reductions < passes) return {};
  const double ns = facts.Sum([&](const WorkItem& item) { return is_reduction(item) || IsCommunication(item); });
  if (!facts.IsAtLeast(ns, kFormPercent)) return {};
  Finding finding =
      OfForm(facts, ns * (1 - 1 / passes), kNone,
             absl::StrFormat("Gradients are reduced over the ranks in each of %.0f backward passes before an update, "
                             "%.0f times a %s. All but the last pass, with waits for other ranks",
                             passes, reductions, facts.StepNoun()),
             "DistributedDataParallel: `with model.no_sync():` around all passes but the last (accelerate: "
             "accumulate()); else reduce them once, before the update.");
  finding.where = facts.LayersOf(is_reduction);
  // Hooks of the backward pass have no line: that of what ran before.
  const ScopeColumns& scopes = facts.model().scopes;
  const std::vector<PythonPlace> places = ReadPythonPlaces(facts.model());
  StackIndex stack = kNone;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    const ScopeLook& look = scopes.look[scope];
    if (look.stack != kNone) stack = look.stack;
    if (stack == kNone || !absl::EndsWith(facts.model().names[look.name], "::allreduce_")) continue;
    finding.line = LineLabel(facts.model(), places[stack]);
    if (facts.StepAt(facts.model().threads[scopes.thread[scope]].process, scopes.start_ns[scope]) != kNone) break;
  }
  return {finding};
}

struct Collective {
  const char* op;  // objects: a function of torch.distributed, whose collectives' stacks have it
  bool of_objects = false;
  double least = 0.5;        // of a step
  double most_ns = 2e6;      // each, on average: longer ones have much to send
  const char* wrapper = "";  // of the network
  const char* does;
  const char* advice;
};

const std::vector<Collective>& Collectives() {
  static const auto& kCollectives = *new std::vector<Collective>{
      {.op = "_object",
       .of_objects = true,
       .most_ns = INFINITY,
       .does = "Python objects are pickled and sent to other ranks",
       .advice = "A tensor in place of a list (all_gather_into_tensor, all_reduce of a sum), and not in each step."},
      {.op = "c10d::broadcast_",
       .most_ns = INFINITY,
       .wrapper = "DistributedDataParallel",
       .does = "DistributedDataParallel sends the buffers of rank 0 to all in each forward pass",
       .advice =
           "DistributedDataParallel(..., broadcast_buffers=False) if they are equal anyway (masks, positions), or "
           "each rank may keep its own (statistics of batches)."},
      {.op = "c10d::allreduce_",
       .least = 8,
       .wrapper = "DistributedDataParallel",
       .does = "DistributedDataParallel reduces gradients in many small pieces",
       .advice = "DistributedDataParallel(..., bucket_cap_mb=25), its default, or more: fewer and larger buckets."},
      {.op = "c10d::_allgather_base_",
       .least = 16,
       .does = "Sharded parameters are gathered in many small pieces",
       .advice = "FSDP: shard whole blocks (fully_shard(block), auto_wrap_policy), not each small layer."},
  };
  return kCollectives;
}

// What takes part in collective operations of Gloo, with waits for other ranks.
std::vector<Finding> SmallCollectives(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const ScopeColumns& scopes = model.scopes;
  double all = 0;
  for (const auto& [name, count] : facts.counted().ops) all += absl::StartsWith(name, "c10d::") ? count : 0;
  const double ns = facts.Sum([](const WorkItem& item) {
    return IsCommunication(item) || (item.scope != nullptr && IsCollectiveOp(item.scope->op));
  });
  if (all == 0 || !facts.IsAtLeast(ns, kFormPercent)) return {};
  std::vector<Finding> findings;
  for (const Collective& collective : Collectives()) {
    if (*collective.wrapper != 0 && !Wraps(model, collective.wrapper)) continue;
    std::vector<bool> counts;  // by stack
    for (const PythonStack& stack : model.python_stacks) {
      counts.push_back(!collective.of_objects || absl::c_any_of(stack.frames, [&](const PythonFrame& frame) {
        return absl::EndsWith(model.names[frame.file], "torch/distributed/distributed_c10d.py") &&
               absl::StrContains(model.names[frame.function], collective.op);
      }));
    }
    double times = 0;
    ScopeIndex last = kNone;
    ForEachScopeThat(
        scopes,
        [&](const ScopeLook& look) {
          const std::string& name = model.names[look.name];
          if (!collective.of_objects) return name == collective.op;
          return absl::StartsWith(name, "c10d::") && look.stack != kNone && counts[look.stack];
        },
        [&](ScopeIndex scope) {
          const ProcessIndex process = model.threads[scopes.thread[scope]].process;
          if (facts.StepAt(process, scopes.start_ns[scope]) == kNone) return;
          times += 1 / facts.count();
          if (last == kNone || scopes.look[scope].stack != kNone) last = scope;
        });
    const double own_ns = ns * std::min(times / all, 1.0);
    if (times < collective.least || own_ns / times > collective.most_ns || !facts.IsAtLeast(own_ns, kFormPercent))
      continue;
    const double kept = collective.least >= 2 ? 1 / times : 0;  // one is needed
    findings.push_back(
        OfForm(facts, own_ns * (1 - kept), last,
               absl::StrFormat("%s, %.2g times a %s. Their part of the time of all collective operations, "
                               "with waits for other ranks",
                               collective.does, times, facts.StepNoun()),
               collective.advice));
    findings.back().evidence = "table ops: c10d::…; table work: [communication], divided by the number of these";
  }
  return findings;
}

}  // namespace

std::vector<Finding> FormsOfCollectives(const StepFacts& facts) {
  std::vector<Finding> reduced = ReducedGradients(facts);
  return reduced.empty() ? SmallCollectives(facts) : reduced;
}

}  // namespace dlhook::analyzer::findings
