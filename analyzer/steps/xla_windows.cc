// Steps whose operations are known in windows only: see step_assembly.h.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "analyzer/steps/step_assembly.h"

namespace dlhook::analyzer::inline steps {
namespace {

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
    const auto next = std::min_element(last.after.begin(), last.after.end(), is_earlier);
    const auto firsts = last.first_op == kNone ? firsts_.end() : firsts_.find(ProgramOf(last.first_op));
    if (next == last.after.end() || firsts == firsts_.end() || !firsts->second.contains(next->first))
      return last.step->end_ns;
    const bool has_all =
        std::all_of(firsts->second.begin(), firsts->second.end(), [&](uint32_t op) { return last.after.contains(op); });
    return has_all ? next->second : last.step->end_ns;
  }

 private:
  const std::string& ProgramOf(uint32_t op) const { return model_.compiled_ops[op].program; }

  void Note(ScopeIndex scope) {
    const int64_t start_ns = model_.scopes.start_ns[scope];
    const CompiledLink link = CompiledLink::Of(model_.scopes.link[scope]);
    if (link.op >= model_.compiled_ops.size()) return;
    const auto step = std::lower_bound(track_.steps.begin(), track_.steps.end(), start_ns,
                                       [](const Step& of, int64_t ns) { return of.start_ns < ns; });
    const bool begins = step != track_.steps.end() && step->start_ns == start_ns;
    if (begins) firsts_[ProgramOf(link.op)].insert(link.op);
    const auto after = std::upper_bound(lasts_.begin(), lasts_.end(), start_ns,
                                        [](int64_t ns, const LastStep& of) { return ns < of.step->start_ns; });
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

int64_t EndOfWindow(const ProcessMoments& moments, int64_t ns) {
  const auto after = std::upper_bound(moments.windows.begin(), moments.windows.end(), ns,
                                      [](int64_t at, const auto& window) { return at < window.first; });
  return after == moments.windows.begin() ? std::numeric_limits<int64_t>::min() : (after - 1)->second;
}

int64_t LastPhaseEnd(const Step& step) { return step.phases.empty() ? step.end_ns : step.phases.back().end_ns; }

void LeaveOutPauses(const TraceModel& model, const ProcessMoments& moments, StepTrack* track) {
  if (!moments.has_compiled || moments.windows.empty()) return;
  std::vector<LastStep> lasts;
  for (Step& step : track->steps) {
    const int64_t window_end_ns = EndOfWindow(moments, step.start_ns);
    if (step.end_ns > window_end_ns && LastPhaseEnd(step) <= window_end_ns)
      lasts.push_back({.step = &step, .window_end_ns = window_end_ns, .after = {}});
  }
  const NextSteps next(model, *track, &lasts);
  for (const LastStep& last : lasts) last.step->end_ns = next.BeginningAfter(last);
  std::erase_if(track->steps, [&](const Step& step) { return step.end_ns > EndOfWindow(moments, step.start_ns); });
}

}  // namespace dlhook::analyzer::steps
