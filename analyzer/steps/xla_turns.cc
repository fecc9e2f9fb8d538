// Which pass the operations of XLA's programs are in, and where steps end at the edges of windows.

#include "analyzer/steps/step_assembly.h"

namespace dlhook::analyzer::inline steps {
namespace {

// Programs of JAX's own functions that multiply, called outside of the program's jitted ones.
constexpr absl::string_view kEager[] = {
    "jit_dot_general", "jit_conv_general_dilated", "jit__einsum", "jit_matmul", "jit_dot", "jit_tensordot", "jit_inner",
    "jit_vdot"};

// The last whole step in a window, and what was recorded of executions after it, of which the window has parts only.
struct LastStep {
  Step* step = nullptr;
  int64_t window_end_ns = 0;
  uint32_t first_op = kNone;
  std::map<uint32_t, int64_t> after;  // first starts, by operation
};

class NextSteps {
 public:
  NextSteps(const TraceModel& model, const StepTrack& track, std::vector<LastStep>* lasts)
      : model_(model), track_(track), lasts_(*lasts) {
    for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
      const bool is_ours = model.threads[model.scopes.thread[scope]].process == track.process;
      if (is_ours && model.scopes.look[scope].kind == ScopeKind::kXlaOp) Note(scope);
    }
  }

  // When the step after it began; its end: not known. Threads begin a program with one of several operations. If a part
  // has all of them, nothing before them is missing.
  int64_t BeginningAfter(const LastStep& last) const {
    const auto is_earlier = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto next = absl::c_min_element(last.after, is_earlier);
    const auto firsts = last.first_op == kNone ? firsts_.end() : firsts_.find(ProgramOf(last.first_op));
    if (next == last.after.end() || firsts == firsts_.end() || !firsts->second.contains(next->first))
      return last.step->end_ns;
    const bool has_all = absl::c_all_of(firsts->second, [&](uint32_t op) { return last.after.contains(op); });
    return has_all ? next->second : last.step->end_ns;
  }

 private:
  const std::string& ProgramOf(uint32_t op) const { return model_.compiled_ops[op].program; }

  void Note(ScopeIndex scope) {
    const int64_t start_ns = model_.scopes.start_ns[scope];
    const CompiledLink link = CompiledLink::Of(model_.scopes.link[scope]);
    if (link.op >= model_.compiled_ops.size()) return;
    const Step* const step = LastBegun(track_.steps, start_ns);
    if (step != nullptr && step->start_ns == start_ns) firsts_[ProgramOf(link.op)].insert(link.op);
    const auto after =
        absl::c_upper_bound(lasts_, start_ns, [](int64_t ns, const LastStep& of) { return ns < of.step->start_ns; });
    if (after == lasts_.begin()) return;
    LastStep& last = *(after - 1);
    if (start_ns == last.step->start_ns) last.first_op = link.op;
    if (link.run != 0 || start_ns < LastPhaseEnd(*last.step) || start_ns >= last.window_end_ns) return;
    int64_t& first_ns = last.after.try_emplace(link.op, start_ns).first->second;
    first_ns = std::min(first_ns, start_ns);
  }

  const TraceModel& model_;
  const StepTrack& track_;
  std::vector<LastStep>& lasts_;
  std::map<std::string, std::set<uint32_t>> firsts_;  // operations with which steps begin, by program
};

}  // namespace

XlaTurns::XlaTurns(const TraceModel& model, const Attribution& attribution, ProcessIndex process,
                   const GraphReplays& replays)
    : model_(model) {
  if (model.compiled_ops.empty()) return;
  for (uint32_t op = 0; op < model.compiled_ops.size(); ++op) {
    if (IsProduct(op)) networks_.insert(model.compiled_ops[op].program);
  }
  const auto for_each = [&](void (XlaTurns::*note)(ScopeIndex scope, MomentKind kind)) {
    for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
      if (IsOurs(scope, process)) (this->*note)(scope, steps::KindOf(attribution.PlaceOfScope(scope).direction));
    }
  };
  for_each(&XlaTurns::Note);
  for (const auto& [call, parts] : replays) NoteGraph(call, process, parts);
  bool are_plain = false;
  for (auto& [number, run] : runs_) {
    FindTurn(run);
    are_plain |= IsPlain(run);
  }
  if (!are_plain) return;
  for_each(&XlaTurns::NotePlain);
  for (auto& [number, run] : runs_) {
    if (!IsPlain(run)) continue;
    FindTurn(run);
    if (run.turn_ns == INT64_MIN) run.turn_ns = run.first_ns + 1;  // a step has a beginning
  }
}

bool XlaTurns::IsOurs(ScopeIndex scope, ProcessIndex process) const {
  const ScopeColumns& scopes = model_.scopes;
  return scopes.look[scope].kind == ScopeKind::kXlaOp && model_.threads[scopes.thread[scope]].process == process;
}

void XlaTurns::Note(ScopeIndex scope, MomentKind kind) {
  const ScopeColumns& scopes = model_.scopes;
  const CompiledLink link = CompiledLink::Of(scopes.link[scope]);
  Run& run = runs_[link.run];
  const int64_t start_ns = scopes.start_ns[scope];
  run.has_forward |= kind == MomentKind::kForward;
  run.has_gradients |= kind == MomentKind::kBackward;
  run.first_ns = std::min(run.first_ns, start_ns);
  if (kind == MomentKind::kUpdate) run.last_update_ns = std::max(run.last_update_ns, start_ns);
  if (!IsProduct(link.op)) return;
  NotePass({.start_ns = start_ns, .end_ns = scopes.EndOf(scope), .kind = kind}, &run);
}

// Of a run whose forward pass has no product.
void XlaTurns::NotePlain(ScopeIndex scope, MomentKind kind) {
  const ScopeColumns& scopes = model_.scopes;
  Run& run = runs_[CompiledLink::Of(scopes.link[scope]).run];
  if (!IsPlain(run)) return;
  NotePass({.start_ns = scopes.start_ns[scope], .end_ns = scopes.EndOf(scope), .kind = kind}, &run);
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
  const bool is_eager = absl::c_linear_search(kEager, program);
  return networks_.contains(program) && !is_eager;
}

void XlaTurns::FindTurn(Run& run) {
  absl::c_sort(run.passes);
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

bool AreStepsKnownBetweenWindows(const TraceModel& model) {
  return !model.HasReachedLimit() || absl::c_linear_search(model.roles, ScopeRole::kOptimizerStep);
}

int64_t LastPhaseEnd(const Step& step) { return step.phases.empty() ? step.end_ns : step.phases.back().end_ns; }

void LeaveOutPauses(const TraceModel& model, const ProcessMoments& moments, StepTrack* track) {
  if (!moments.has_compiled && AreStepsKnownBetweenWindows(model)) return;
  if (!HasWindows(model, track->process)) return;
  const auto end_of_window = [&](const Step& step) { return EndOfWindow(model, track->process, step.start_ns); };
  std::vector<LastStep> lasts;
  for (Step& step : track->steps) {
    if (!moments.has_compiled) break;
    const int64_t window_end_ns = end_of_window(step);
    if (step.end_ns > window_end_ns && LastPhaseEnd(step) <= window_end_ns)
      lasts.push_back({.step = &step, .window_end_ns = window_end_ns});
  }
  const NextSteps next(model, *track, &lasts);
  for (const LastStep& last : lasts) last.step->end_ns = next.BeginningAfter(last);
  std::erase_if(track->steps, [&](const Step& step) { return step.end_ns > end_of_window(step); });
}

}  // namespace dlhook::analyzer::steps
