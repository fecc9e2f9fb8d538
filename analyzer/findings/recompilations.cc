// Rule recompilations: torch.compile or tf.function compiles again in steady steps, for sizes or values that it has not
// seen.
//
// Both number what they compile: "Torch-Compiled Region: 0/3" is the third recompilation of frame 0,
// "__inference_train_step_98" was traced from train_step, again if another number of it ran before. It was compiled just
// before it ran first; the loss is what the steps in which that was take beyond the others' median. Few sizes are soon
// compiled, so there must be several recompilations, one of them in the later half of the run.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "analyzer/calls/compiled_names.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kRecompilationsPercent = 5;  // of the steps after warm-up
constexpr size_t kLeast = 3;                  // recompilations

struct Compiler {
  const char* name;
  absl::string_view prefix;  // of the scopes in which compiled functions run
  char before_number;        // function, this character, number
  const char* advice;
  bool is_torch;
};
constexpr Compiler kCompilers[] = {
    {"torch.compile", kTorchRegionPrefix, '/',
     "TORCH_LOGS=recompiles says why. For sizes: torch.compile(model, dynamic=True), or pad the input to few sizes.",
     true},
    {"tf.function", "EagerLocalExecute: __inference_", '_',
     "For sizes: tf.function(reduce_retracing=True), an input_signature with None for what changes, or pad the input "
     "to few sizes. Pass tensors instead of Python numbers.",
     false}};

// Without its number; empty: not compiled by this one.
absl::string_view FunctionOf(absl::string_view scope, const Compiler& compiler) {
  if (!absl::ConsumePrefix(&scope, compiler.prefix)) return {};
  const size_t end = scope.rfind(compiler.before_number);
  return end == absl::string_view::npos ? absl::string_view() : scope.substr(0, end);
}

// When each function ran first after it was compiled again, in a process.
std::vector<int64_t> FirstRuns(const TraceModel& model, ProcessIndex process, const Compiler& compiler) {
  const auto is_compiled = [&](const std::string& name) { return !FunctionOf(name, compiler).empty(); };
  if (std::none_of(model.names.begin(), model.names.end(), is_compiled)) return {};
  std::vector<int64_t> first(model.names.size(), -1);
  const ScopeColumns& scopes = model.scopes;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (model.threads[scopes.thread[scope]].process != process) continue;
    int64_t& ns = first[scopes.look[scope].name];
    if (ns < 0 || scopes.start_ns[scope] < ns) ns = scopes.start_ns[scope];
  }
  std::map<absl::string_view, std::set<int64_t>> by_function;
  for (NameIndex name = 0; name < first.size(); ++name) {
    const absl::string_view function = FunctionOf(model.names[name], compiler);
    if (first[name] >= 0 && !function.empty()) by_function[function].insert(first[name]);
  }
  std::vector<int64_t> again;
  for (const auto& [function, runs] : by_function) again.insert(again.end(), std::next(runs.begin()), runs.end());
  return again;
}

// PyTorch's reason that was given most often, numbers aside, and for which function. Empty: not known.
std::string CommonReason(const TraceModel& model, ProcessIndex process) {
  std::map<std::string, std::pair<size_t, std::string>> reasons;  // how often, and the last one
  for (const CompiledCode& code : model.compiled) {
    if (code.process != process || code.kind != CompiledKind::kCompilation || code.text.empty()) continue;
    std::string key = absl::StrCat(code.function, FileLine(code), code.text);
    std::erase_if(key, [](char c) { return absl::ascii_isdigit(c); });
    auto& [count, last] = reasons[key];
    ++count;
    last = absl::StrCat(CompiledFunctionName(code.function), " (", FileLine(code), "): ", code.text);
  }
  const auto most = std::max_element(reasons.begin(), reasons.end(),
                                     [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  return most == reasons.end() ? "" : most->second.second;
}

std::vector<Finding> FindAgain(const StepFacts& facts, const Compiler& compiler) {
  const ProcessIndex process = facts.steps().tracks.front().process;
  const std::vector<int64_t> first_runs = FirstRuns(facts.model(), process, compiler);
  if (first_runs.size() < kLeast) return {};
  std::vector<double> others_ns;
  std::set<int64_t> batches;
  double all_ns = 0, compiling_ns = 0, all = 0, compiling = 0;
  bool is_late = false;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    if (track.process != process || track.steps.empty()) continue;
    const int64_t middle_ns = track.steps.front().start_ns / 2 + track.steps.back().end_ns / 2;
    bool has_begun = false;  // steps of a new size may be marked as warm-up anywhere
    for (const Step& step : track.steps) {
      has_begun |= !step.is_warm_up;
      if (step.kind != facts.steps().kind || !has_begun) continue;
      const auto ns = static_cast<double>(step.end_ns - step.start_ns);
      all_ns += ns;
      ++all;
      // A function may be what a step begins with: compiled in the end of the one before.
      const bool compiles = std::any_of(first_runs.begin(), first_runs.end(),
                                        [&](int64_t at_ns) { return at_ns > step.start_ns && at_ns <= step.end_ns; });
      if (!compiles) {
        others_ns.push_back(ns);
        continue;
      }
      compiling_ns += ns;
      ++compiling;
      batches.insert(step.batch);
      is_late |= step.start_ns > middle_ns;
    }
  }
  if (compiling < kLeast || others_ns.empty() || !is_late) return {};
  const auto median = others_ns.begin() + static_cast<ptrdiff_t>(others_ns.size() / 2);
  std::nth_element(others_ns.begin(), median, others_ns.end());
  const double extra_ns = compiling_ns - compiling * *median;
  if (extra_ns < kRecompilationsPercent / 100 * all_ns) return {};
  Finding finding;
  finding.where = compiler.name;
  finding.sentence = absl::StrFormat(
      "%s compiles again in %.0f of %.0f %ss after warm-up, which take %s where the others take %s.", compiler.name,
      compiling, all, facts.StepNoun(), HumanTime(compiling_ns / compiling), HumanTime(*median));
  if (batches.size() > 1 && *batches.begin() > 0) {
    absl::StrAppendFormat(&finding.sentence, " Their batches are of %d to %d.", *batches.begin(), *batches.rbegin());
  }
  const std::string reason = compiler.is_torch ? CommonReason(facts.model(), process) : "";
  if (!reason.empty()) absl::StrAppend(&finding.sentence, " Most often, PyTorch's reason: ", reason);
  finding.gain_ns = extra_ns / all;
  finding.whole_ns = all_ns / all;
  finding.confidence = Confidence::kHigh;
  finding.evidence = "table steps: those in which a compiled function with a new number runs first, or the ones before";
  finding.advice = compiler.advice;
  return {finding};
}

}  // namespace

std::string RecompilationsMissing(const StepFacts& facts) {
  if (facts.Uses("JAX") && facts.model().compiled_ops.empty()) return "when XLA compiles was not recorded";
  if (!facts.UsesTorch() && !facts.Uses("TensorFlow") && !facts.Uses("JAX")) return "";
  if (facts.model().scopes.size() == 0) {
    return absl::StrCat(facts.UsesTorch() ? "PyTorch" : "TensorFlow", "'s operations were not recorded");
  }
  return facts.HasSteps() ? "" : "no repeating step was found";
}

std::vector<Finding> FindRecompilations(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.steps().tracks.empty()) return {};
  std::vector<Finding> findings = FindXlaRecompilations(facts);
  for (const Compiler& compiler : kCompilers) {
    for (Finding& finding : FindAgain(facts, compiler)) findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
