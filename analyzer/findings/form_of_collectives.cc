// Rule faster-form, collective operations of Gloo, with waits for other ranks: gradients reduced in each of several backward
// passes before an update; many operations of few bytes, of pickled objects, of buffers, of an optimizer's parameters; a pipeline of
// few microbatches.

#include "analyzer/calls/scope_names.h"
#include "analyzer/findings/rules.h"
#include "analyzer/model/scope_looks.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline findings {
namespace {

// Gradient accumulation without no_sync(), which reduces what only the update needs.
std::vector<Finding> ReducedGradients(const StepFacts& facts) {
  const auto passes = static_cast<double>(facts.counted().micro_steps);
  const auto is_reduction = [](const WorkItem& item) {
    return item.scope != nullptr && item.scope->op == "allreduce_" && IsBackward(item.doing.direction);
  };
  double reductions = 0;
  for (const WorkItem& item : facts.items()) reductions += is_reduction(item) ? item.begun : 0;
  if (passes < 2 || reductions < passes) return {};
  const double ns = facts.Sum(IsCommunication);
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
  StackIndex stack = kNone;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    const ScopeLook& look = scopes.look[scope];
    if (look.stack != kNone) stack = look.stack;
    if (stack == kNone || !absl::EndsWith(facts.model().names[look.name], "::allreduce_")) continue;
    finding.line = facts.LineOfStack(stack);
    if (facts.StepOfScope(scope) != kNone) break;
  }
  return {finding};
}

constexpr char kDataParallel[] = "DistributedDataParallel";

// What calls an operation: DistributedDataParallel before it calls its network, its hooks in the backward pass, the optimizer that
// has a part of the parameters on each rank, the program between passes; all others (tensor parallel networks, metrics).
enum class Caller { kAny, kWrapper, kBackward, kShardedOptimizer, kProgram };

Caller CallerOf(const TraceModel& model, ScopeIndex scope) {
  const ScopeColumns& scopes = model.scopes;
  const StackIndex stack = scopes.look[scope].stack;
  for (scope = scopes.parent[scope]; scope != kNone; scope = scopes.parent[scope]) {
    const std::string& name = model.names[scopes.look[scope].name];
    if (absl::StartsWith(name, kDataParallel)) return Caller::kWrapper;
    if (absl::StrContains(name, "#ZeroRedundancyOptimizer.")) return Caller::kShardedOptimizer;
    if (scopes.look[scope].kind == ScopeKind::kBackwardNode)
      return Wraps(model, kDataParallel) ? Caller::kBackward : Caller::kAny;
    if (!FactsOf(scopes.look[scope].kind).is_bracket) return Caller::kAny;
  }
  const auto is_module = [](const PythonFrame& frame) { return frame.module != kNone; };
  const bool is_between = stack != kNone && absl::c_none_of(model.python_stacks[stack].frames, is_module);
  return is_between ? Caller::kProgram : Caller::kAny;
}

struct Collective {
  const char* op;  // objects: a function of torch.distributed, whose collectives' stacks have it
  bool of_objects = false;
  double least = 0.5;    // of a step
  double most_ns = 2e6;  // each, on average: longer ones have much to send
  Caller caller = Caller::kAny;
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
       .caller = Caller::kWrapper,
       .does = "DistributedDataParallel sends the buffers of rank 0 to all in each forward pass",
       .advice = "DistributedDataParallel(..., broadcast_buffers=False) if they are equal anyway (masks, positions), "
                 "or each rank may keep its own (statistics of batches)."},
      {.op = "c10d::allreduce_",
       .least = 8,
       .caller = Caller::kBackward,
       .does = "DistributedDataParallel reduces gradients in many small pieces",
       .advice = "DistributedDataParallel(..., bucket_cap_mb=25), its default, or more: fewer and larger buckets."},
      {.op = "c10d::broadcast_",
       .least = 8,
       .caller = Caller::kShardedOptimizer,
       .does = "ZeroRedundancyOptimizer sends each parameter that it updated by itself",
       .advice =
           "ZeroRedundancyOptimizer(..., parameters_as_bucket_view=True): one broadcast for each rank's parameters."},
      {.op = "c10d::allreduce_",
       .least = 8,
       .caller = Caller::kProgram,
       .does = "The program reduces tensors over the ranks one by one",
       .advice = "One reduction of all of them: of gradients, DistributedDataParallel; else torch.cat of the flattened "
                 "tensors."},
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
  const double all = facts.counted().OpsThatBegin("c10d::"), ns = facts.Sum(IsCommunication);
  if (all == 0 || !facts.IsAtLeast(ns, kFormPercent)) return {};
  std::vector<Finding> findings;
  for (const Collective& collective : Collectives()) {
    const std::vector<bool> counts = facts.StacksWith([&](const std::string& file, const std::string& function) {
      return absl::EndsWith(file, "torch/distributed/distributed_c10d.py") &&
             absl::StrContains(function, collective.op);
    });
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
          if (facts.StepOfScope(scope) == kNone) return;
          if (collective.caller != Caller::kAny && CallerOf(model, scope) != collective.caller) return;
          times += 1 / facts.count();
          if (last == kNone || scopes.look[scope].stack != kNone) last = scope;
        });
    const double own_ns = ns * std::min(times / all, 1.0);
    if (times < collective.least || own_ns / times > collective.most_ns || !facts.IsAtLeast(own_ns, kFormPercent))
      continue;
    const double kept = collective.least >= 2 ? 1 / times : 0;  // one is needed
    findings.push_back(OfForm(
        facts, own_ns * (1 - kept), last,
        absl::StrFormat(
            "%s, %.2g times a %s. Their part of the time of all collective operations, with waits for other ranks",
            collective.does, times, facts.StepNoun()),
        collective.advice));
    findings.back().evidence = "table ops: c10d::…; table work: [communication], divided by the number of these";
  }
  return findings;
}

// Few microbatches for the stages of a pipeline (torch.distributed.pipelining): while it fills and drains, stages - 1 of
// microbatches + stages - 1 turns of a step, a stage has nothing to do. Of m microbatches the first and the last stage receive m
// tensors or gradients in a step, those between 2 m: that tells the stages.
std::vector<Finding> FewMicrobatches(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  std::set<NameIndex> forward;  // "Forward 0" …: a range for each microbatch
  for (NameIndex name = 0; name < model.names.size(); ++name) {
    uint32_t number = 0;
    absl::string_view rest = model.names[name];
    if (absl::ConsumePrefix(&rest, "Forward ") && absl::SimpleAtoi(rest, &number)) forward.insert(name);
  }
  const auto microbatches = static_cast<double>(forward.size());
  if (forward.size() < 2) return {};
  const auto in_step = [&](const auto& is_name) {
    double times = 0;
    ForEachScopeThat(
        model.scopes, [&](const ScopeLook& look) { return is_name(look.name); },
        [&](ScopeIndex scope) { times += facts.StepOfScope(scope) != kNone ? 1 / facts.count() : 0; });
    return times;
  };
  const double passes = in_step([&](NameIndex name) { return forward.contains(name); });
  const double received =
      in_step([&](NameIndex name) { return CollectiveOf(model.names[name]) == CollectiveKind::kReceive; });
  const double stages = received < 2 * passes ? 1 / (1 - received / (2 * passes)) : 0;
  if (std::abs(passes - microbatches) > 0.01 * passes || stages < 1.9 || std::abs(stages - std::round(stages)) > 0.1)
    return {};
  const double turns = microbatches + stages - 1, idle = (stages - 1) / turns;
  const double ns = facts.Sum(IsCommunication);
  const double gain_ns = std::min(ns, idle / 2 * facts.step_ns());
  // Stages that wait for processors lose nothing by having no work.
  if (!facts.IsAtLeast(gain_ns, kFormPercent) || 2 * facts.load().waiting_ns > ns) return {};
  Finding finding =
      OfForm(facts, gain_ns, kNone,
             absl::StrFormat("A pipeline of %.0f stages has %.0f microbatches a %s: while it fills and drains, a stage "
                             "has nothing to do in %.0f of %.0f turns. Twice as many save half of that",
                             stages, microbatches, facts.StepNoun(), stages - 1, turns),
             "More and smaller microbatches: twice as many halve it. Or several stages on each rank "
             "(ScheduleInterleaved1F1B).");
  finding.where = "pipeline";
  finding.evidence = "ranges Forward 0 …, receives; table collectives: receive";
  return {finding};
}

}  // namespace

std::vector<Finding> FormsOfCollectives(const StepFacts& facts) {
  std::vector<Finding> found = FewMicrobatches(facts);
  if (found.empty()) found = ReducedGradients(facts);
  return found.empty() ? SmallCollectives(facts) : found;
}

}  // namespace dlhook::analyzer::findings
