// Which pass the operations of XLA's programs are in: see xla_turns.h.
#include "analyzer/steps/xla_turns.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline steps {
namespace {

// Programs of JAX's own functions that multiply, called outside of the program's jitted ones.
constexpr absl::string_view kEager[] = {
    "jit_dot_general", "jit_conv_general_dilated", "jit__einsum", "jit_matmul", "jit_dot", "jit_tensordot", "jit_inner",
    "jit_vdot"};

}  // namespace

XlaTurns::XlaTurns(const TraceModel& model, const Attribution& attribution, ProcessIndex process,
                   const GraphReplays& replays)
    : model_(model) {
  if (model.compiled_ops.empty()) return;
  for (uint32_t op = 0; op < model.compiled_ops.size(); ++op) {
    if (IsProduct(op)) networks_.insert(model.compiled_ops[op].program);
  }
  const ScopeColumns& scopes = model.scopes;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (scopes.look[scope].kind != ScopeKind::kXlaOp || model.threads[scopes.thread[scope]].process != process)
      continue;
    const Place place = attribution.PlaceOfScope(scope);
    Note(scope, steps::KindOf(place.direction));
  }
  for (const auto& [call, parts] : replays) NoteGraph(call, process, parts);
  for (auto& [number, run] : runs_) FindTurn(run);
}

void XlaTurns::Note(ScopeIndex scope, MomentKind kind) {
  const ScopeColumns& scopes = model_.scopes;
  const CompiledLink link = CompiledLink::Of(scopes.link[scope]);
  Run& run = runs_[link.run];
  const int64_t start_ns = scopes.start_ns[scope];
  run.has_gradients |= kind == MomentKind::kBackward;
  if (kind == MomentKind::kUpdate) run.last_update_ns = std::max(run.last_update_ns, start_ns);
  if (!IsProduct(link.op)) return;
  NotePass({.start_ns = start_ns, .end_ns = scopes.EndOf(scope), .kind = kind}, &run);
}

void XlaTurns::NotePass(const Moment& moment, Run* run) {
  const int64_t duration_ns = moment.end_ns - moment.start_ns;
  if (moment.kind == MomentKind::kForward) run->passes.emplace_back(moment.start_ns, duration_ns);
  if (moment.kind == MomentKind::kBackward) run->passes.emplace_back(moment.start_ns, -duration_ns);
}

// Inside an operation that launches a CUDA graph are only those of the graph's operations that were changed for it.
void XlaTurns::NoteGraph(CallIndex call, ProcessIndex process, const std::vector<ReplayedPart>& parts) {
  const ScopeColumns& scopes = model_.scopes;
  ScopeIndex scope = model_.calls.ScopeOf(call);
  while (scope != kNone && scopes.look[scope].kind != ScopeKind::kXlaOp) scope = scopes.parent[scope];
  if (scope == kNone || model_.threads[scopes.thread[scope]].process != process) return;
  graphs_[scope] = &parts;
  Run& run = runs_[CompiledLink::Of(scopes.link[scope]).run];
  for (size_t i = 0; i < parts.size(); ++i) {
    Moment moment = {.start_ns = scopes.start_ns[scope], .end_ns = scopes.EndOf(scope)};
    moment.KeepPart(i, parts.size());
    moment.kind = steps::KindOf(parts[i].place.direction);
    run.has_gradients |= moment.kind == MomentKind::kBackward;
    if (moment.kind == MomentKind::kUpdate) run.last_update_ns = std::max(run.last_update_ns, moment.start_ns);
    NotePass(moment, &run);
  }
}

const std::vector<ReplayedPart>* XlaTurns::GraphOf(ScopeIndex scope) const {
  const auto graph = graphs_.find(scope);
  return graph == graphs_.end() ? nullptr : graph->second;
}

bool XlaTurns::IsProduct(uint32_t op) const {
  if (op >= model_.compiled_ops.size()) return false;
  const std::string& primitive = model_.compiled_ops[op].primitive;
  return absl::StartsWith(primitive, "dot_general") || absl::StartsWith(primitive, "conv_general");
}

bool XlaTurns::IsNetwork(const std::string& program) const {
  const bool is_eager = std::find(std::begin(kEager), std::end(kEager), program) != std::end(kEager);
  return networks_.contains(program) && !is_eager;
}

void XlaTurns::FindTurn(Run& run) {
  std::sort(run.passes.begin(), run.passes.end());
  int64_t gain_ns = 0, best_ns = 0;
  for (const auto& [start_ns, forward_ns] : run.passes) {
    gain_ns += forward_ns;
    if (gain_ns <= best_ns) continue;
    best_ns = gain_ns;
    run.turn_ns = start_ns + 1;
  }
  run.passes = {};
}

MomentKind XlaTurns::KindOf(const Moment& moment) const {
  const MomentKind kind = moment.kind;
  const CompiledLink link = CompiledLink::Of(model_.scopes.link[moment.index]);
  const auto run = runs_.find(link.run);
  if (link.run == 0 || link.op >= model_.compiled_ops.size() || run == runs_.end()) return MomentKind::kOther;
  if (!run->second.has_gradients) {
    const bool is_aside = kind == MomentKind::kForward && !IsNetwork(model_.compiled_ops[link.op].program);
    return is_aside ? MomentKind::kOther : kind;
  }
  if (kind == MomentKind::kUpdate && moment.start_ns == run->second.last_update_ns) return kind;
  return moment.start_ns < run->second.turn_ns ? MomentKind::kForward : MomentKind::kBackward;
}

}  // namespace dlhook::analyzer::steps
