// Rule op-by-op: Python calls the operations of a step one by one in a framework that would compile them together: TensorFlow
// outside of tf.function, JAX outside of jit. Each then costs a call from Python, a look-up and a start, and none is fused.
//
// Evidence: TensorFlow names the operations that Python calls; of JAX each operation runs as a program of its own, and functions
// that are differentiated are traced again each time. Keras's run_eagerly is debug-switch's. The gain is at most what is no
// operation's own time.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kOpByOpPercent = 20;
constexpr double kFewestOps = 20;           // of a step of TensorFlow
constexpr double kFewestPrograms = 8;       // of a step of JAX, which may be a part of the program's
constexpr double kOpsOfProgram = 4;         // at most, in the mean
constexpr double kLongestOpNs = 1'000'000;  // mean time from one to the next: a step of longer ones has other causes

bool IsWaiting(const WorkItem& item) {
  return item.doing.activity == ActivityKind::kDataLoading || item.doing.activity == ActivityKind::kWaiting;
}

// Of a mean step: without waiting for a processor.
double RunningNs(const StepFacts& facts) { return std::max(facts.step_ns() - facts.load().waiting_ns, 0.0); }

// Programs of JAX that ran in the steps.
struct Programs {
  double runs = 0, ops = 0;
  std::string line;  // of the one with most runs
};

Programs ProgramsOf(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const ScopeColumns& scopes = model.scopes;
  std::set<std::pair<ProcessIndex, int64_t>> runs;
  std::map<std::string, int64_t> lines;
  Programs programs;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (scopes.look[scope].kind != ScopeKind::kXlaOp) continue;
    const CompiledLink link = CompiledLink::Of(scopes.link[scope]);
    const ProcessIndex process = model.threads[scopes.thread[scope]].process;
    if (link.run == 0 || link.op >= model.compiled_ops.size()) continue;
    if (facts.StepAt(process, scopes.start_ns[scope]) == kNone) continue;
    ++programs.ops;
    if (runs.insert({process, link.run}).second) ++lines[model.compiled_ops[link.op].line];
  }
  programs.runs = static_cast<double>(runs.size());
  lines.erase("");
  const auto most =
      std::max_element(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != lines.end()) programs.line = most->first;
  return programs;
}

Finding OpByOp(double gain_ns, std::string sentence, std::string advice) {
  Finding finding;
  finding.gain_ns = gain_ns;
  finding.sentence = std::move(sentence);
  finding.advice = std::move(advice);
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  return finding;
}

std::vector<Finding> InTensorFlow(const StepFacts& facts) {
  const EagerOps eager = EagerOpsOf(facts);
  if (eager.count < kFewestOps || eager.of_keras || RunningNs(facts) / eager.count > kLongestOpNs) return {};
  const double ns = facts.Sum([](const WorkItem& item) {
    const bool computes =
        item.IsCall() || (item.scope != nullptr && item.scope->op == "Run");  // KernelAndDeviceFunc::Run
    return !computes && !IsWaiting(item);
  });
  if (!facts.IsAtLeast(ns, kOpByOpPercent)) return {};
  Finding finding =
      OpByOp(ns,
             absl::StrFormat(
                 "Python calls %.0f operations of TensorFlow one by one in each %s: all but computing them takes %s.",
                 eager.count, facts.StepNoun(), facts.PartOfStep(ns)),
             "Put @tf.function on the function that computes a step: TensorFlow then runs it as one graph.");
  const std::vector<GapLines>& gaps = GapLinesOf(facts);
  if (!gaps.empty()) finding.line = gaps.front().text;
  if (!gaps.empty() && !gaps.front().function.empty()) finding.where = gaps.front().function;
  finding.evidence = "table work: EagerLocalExecute in each step";
  return {finding};
}

std::vector<Finding> InJax(const StepFacts& facts) {
  const Programs programs = ProgramsOf(facts);
  if (programs.runs < kFewestPrograms * facts.count() || programs.ops > kOpsOfProgram * programs.runs) return {};
  if (RunningNs(facts) * facts.count() / programs.runs > kLongestOpNs) return {};
  const double ns =
      facts.Sum([](const WorkItem& item) { return !item.IsCall() && item.scope == nullptr && !IsWaiting(item); });
  if (!facts.IsAtLeast(ns, kOpByOpPercent)) return {};
  Finding finding =
      OpByOp(ns,
             absl::StrFormat(
                 "JAX runs %.0f compiled programs of %.1f operations each in a %s, one for each call from Python: what "
                 "lies between them takes %s.",
                 programs.runs / facts.count(), programs.ops / programs.runs, facts.StepNoun(), facts.PartOfStep(ns)),
             "Put @jax.jit on the function that computes a step (around value_and_grad and the update, too): it is "
             "then traced "
             "once, and runs as one program.");
  finding.line = programs.line;
  finding.evidence = "table work: operations of programs like jit_mul; table accounting: unattributed";
  return {finding};
}

}  // namespace

std::vector<Finding> FindOpByOp(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes()) return {};
  if (facts.Uses("TensorFlow")) return InTensorFlow(facts);
  return facts.model().compiled_ops.empty() ? std::vector<Finding>() : InJax(facts);
}

}  // namespace dlhook::analyzer::findings
