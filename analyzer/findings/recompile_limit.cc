// Rule recompile-limit: torch.compile compiled a function so often that it stopped: for whatever none of its versions
// allows, the function runs uncompiled from then on.
//
// Condition: PyTorch kept that the limit was reached. The gain is what the median of the steps in which none of the
// function's regions runs takes beyond that of the steps in which one does. If no such steps are left after warm-up, it is
// not known: information.

#include "absl/strings/str_format.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr size_t kLeastSteps = 3;  // that run compiled code
constexpr char kAdvice[] =
    "Let what changes be the same for all calls, or a tensor instead of a Python value; for sizes: "
    "torch.compile(…, dynamic=True). If so many versions are needed: torch._dynamo.config.recompile_limit.";

// When compiled code of the function with this number ("0/8": 0) began to run, ascending.
std::vector<int64_t> RunsOf(const TraceModel& model, ProcessIndex process, absl::string_view region) {
  const std::string prefix = absl::StrCat(region.substr(0, region.find('/')), "/");
  std::vector<bool> is_its;  // by name
  for (const std::string& name : model.names) is_its.push_back(absl::StartsWith(TorchRegion(name), prefix));
  std::vector<int64_t> starts_ns;
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    if (!is_its[model.scopes.look[scope].name]) continue;
    if (model.threads[model.scopes.thread[scope]].process == process) starts_ns.push_back(model.scopes.start_ns[scope]);
  }
  std::sort(starts_ns.begin(), starts_ns.end());
  return starts_ns;
}

struct Kinds {
  std::vector<double> compiled_ns, uncompiled_ns;
};

Kinds StepsByKind(const StepFacts& facts, ProcessIndex process, const std::vector<int64_t>& runs_ns) {
  Kinds kinds;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    for (const Step& step : track.steps) {
      if (track.process != process || step.kind != facts.steps().kind || step.is_warm_up) continue;
      const auto run = std::lower_bound(runs_ns.begin(), runs_ns.end(), step.start_ns);
      const bool is_compiled = run != runs_ns.end() && *run < step.end_ns;
      (is_compiled ? kinds.compiled_ns : kinds.uncompiled_ns)
          .push_back(static_cast<double>(step.end_ns - step.start_ns));
    }
  }
  return kinds;
}

double MedianOf(std::vector<double> values) {
  const auto median = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), median, values.end());
  return *median;
}

void AddGain(const StepFacts& facts, const Kinds& kinds, Finding* finding) {
  const auto uncompiled = static_cast<double>(kinds.uncompiled_ns.size());
  const double all = uncompiled + static_cast<double>(kinds.compiled_ns.size());
  if (kinds.compiled_ns.size() < kLeastSteps) {
    absl::StrAppend(&finding->sentence, " What steps would take with compiled code is not known.");
    finding->gain_ns = facts.step_ns();
    finding->basis = GainBasis::kUpperBound;
    finding->confidence = Confidence::kLow;
    finding->is_information = true;
    return;
  }
  const double compiled_ns = MedianOf(kinds.compiled_ns), uncompiled_ns = MedianOf(kinds.uncompiled_ns);
  absl::StrAppendFormat(&finding->sentence, " %.0f of %.0f %ss run none, and take %s where the others take %s.",
                        uncompiled, all, facts.StepNoun(), HumanTime(uncompiled_ns), HumanTime(compiled_ns));
  finding->gain_ns = std::max(0.0, uncompiled_ns - compiled_ns) * uncompiled / all;
  finding->basis = GainBasis::kComputed;
  finding->confidence = Confidence::kMedium;
}

Finding Describe(const StepFacts& facts, const CompiledCode& limit) {
  const Kinds kinds = StepsByKind(facts, limit.process, RunsOf(facts.model(), limit.process, limit.region));
  const size_t versions =
      std::count_if(facts.model().compiled.begin(), facts.model().compiled.end(), [&](const CompiledCode& code) {
        return code.kind == CompiledKind::kCompilation && code.process == limit.process && !code.is_backward &&
               absl::StartsWith(code.region, limit.region.substr(0, limit.region.find('/') + 1));
      });
  Finding finding;
  finding.where = CompiledFunctionName(limit.function);
  finding.line = FileLine(limit);
  finding.sentence = absl::StrFormat(
      "torch.compile reached its limit of recompilations for %s after %d versions: where none of them fits, it runs "
      "uncompiled from then on.",
      finding.where, versions);
  if (!limit.text.empty()) absl::StrAppend(&finding.sentence, " The last reason: ", limit.text);
  finding.evidence = "table compiled: limit reached; steps without scopes Torch-Compiled Region of the function";
  finding.advice = kAdvice;
  if (!kinds.uncompiled_ns.empty()) AddGain(facts, kinds, &finding);
  return finding;
}

}  // namespace

std::vector<Finding> FindRecompileLimit(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.steps().tracks.empty()) return {};
  std::vector<Finding> findings;
  for (const CompiledCode& code : facts.model().compiled) {
    const bool is_its = code.process == facts.steps().tracks.front().process;
    if (is_its && code.kind == CompiledKind::kRecompileLimit) findings.push_back(Describe(facts, code));
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
