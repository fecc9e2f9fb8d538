// Which pass the operations of XLA's programs are in: see xla_turns.h.
#include "analyzer/steps/xla_turns.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace dlhook::analyzer::inline steps {

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
    const Place place = scope < attribution.of_scope.size() ? attribution.of_scope[scope] : Place();
    Note(scope, steps::KindOf(place.direction));
  }
  for (const auto& [call, parts] : replays) NoteReplay(call, process, parts);
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
  if (kind == MomentKind::kForward) run.passes.emplace_back(start_ns, scopes.duration_ns[scope]);
  if (kind == MomentKind::kBackward) run.passes.emplace_back(start_ns, -scopes.duration_ns[scope]);
}

// An operation of XLA's that launches a CUDA graph contains no others, unless they were changed for it.
void XlaTurns::NoteReplay(CallIndex call, ProcessIndex process, const std::vector<ReplayedPart>& parts) {
  ScopeIndex scope = model_.calls.ScopeOf(call);
  while (scope != kNone && model_.scopes.look[scope].kind != ScopeKind::kXlaOp) scope = model_.scopes.parent[scope];
  if (scope == kNone || model_.threads[model_.scopes.thread[scope]].process != process) return;
  Run& run = runs_[CompiledLink::Of(model_.scopes.link[scope]).run];
  for (const ReplayedPart& part : parts)
    run.has_gradients |= steps::KindOf(part.place.direction) == MomentKind::kBackward;
}

bool XlaTurns::IsProduct(uint32_t op) const {
  if (op >= model_.compiled_ops.size()) return false;
  const std::string& primitive = model_.compiled_ops[op].primitive;
  return absl::StartsWith(primitive, "dot_general") || absl::StartsWith(primitive, "conv_general");
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

MomentKind XlaTurns::KindOf(ScopeIndex scope, MomentKind kind) const {
  const CompiledLink link = CompiledLink::Of(model_.scopes.link[scope]);
  const auto run = runs_.find(link.run);
  if (link.run == 0 || link.op >= model_.compiled_ops.size() || run == runs_.end()) return MomentKind::kOther;
  const int64_t start_ns = model_.scopes.start_ns[scope];
  if (!run->second.has_gradients) {
    const bool is_aside = kind == MomentKind::kForward && !networks_.contains(model_.compiled_ops[link.op].program);
    return is_aside ? MomentKind::kOther : kind;
  }
  if (kind == MomentKind::kUpdate && start_ns == run->second.last_update_ns) return kind;
  return start_ns < run->second.turn_ns ? MomentKind::kForward : MomentKind::kBackward;
}

}  // namespace dlhook::analyzer::steps
