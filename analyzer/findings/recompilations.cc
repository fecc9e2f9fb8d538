// Rule recompilations: torch.compile or tf.function compiles again in steady steps, for sizes or values that it has not seen. Both number
// what they compile (scope_names.h). It was compiled just before it ran first; the loss is what the steps in which that was take beyond the
// others' median. Few sizes are soon compiled, so there must be several recompilations, one of them in the later half of the run.
//
// Rule recompile-limit: torch.compile compiled a function so often that it stopped: whatever none of its versions allows runs uncompiled
// from then on. The gain is what the median of the steps in which none of the function's regions runs takes beyond that of the others; if
// there are no such steps after warm-up, it is not known: information.
//
// Rule graph-breaks: torch.compile could not compile a function as one graph. The program's own code runs between the
// graphs, and what it computes there is neither compiled nor fused.
//
// Condition: PyTorch kept where it broke graphs, or functions that go on after a break were compiled; and 3 % of a step (median
// of the steps) passes inside compiled functions that go on after a break (a region inside a region) but outside of their
// compiled code (CompiledFunction). Without gradients there is no such scope: then the look-ups of the inner graphs count.
// The gain is at most that time, because the code between the graphs has to run somewhere.

#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kRecompilationsPercent = 5;  // of the steps after warm-up
constexpr size_t kLeast = 3;                  // recompilations

struct Compiler {
  const char* name;
  const char* does;
  const char* advice;
  bool is_torch;
};
constexpr Compiler kCompilers[] = {
    {"torch.compile", "compiles",
     "TORCH_LOGS=recompiles says why. For sizes: torch.compile(model, dynamic=True), or pad the input to few sizes.",
     true},
    {"tf.function", "traces",
     "For sizes: tf.function(reduce_retracing=True), an input_signature with None for what changes, or pad the input "
     "to few sizes. Pass tensors instead of Python numbers, and define the function once, outside of loops.",
     false}};

// Without its number; empty: not compiled by this one.
absl::string_view FunctionOf(absl::string_view scope, const Compiler& compiler) {
  const CompiledRun run = CompiledRunOf(scope);
  return run.compiler == compiler.name ? run.function : absl::string_view();
}

// When functions ran first after they were compiled again, in a process; of the one that was most often, the last such run.
struct Again {
  std::vector<int64_t> times_ns;  // ascending
  absl::string_view function;
  ScopeIndex run = kNone;
};

Again FirstRuns(const TraceModel& model, ProcessIndex process, const Compiler& compiler) {
  const auto is_compiled = [&](const std::string& name) { return !FunctionOf(name, compiler).empty(); };
  if (absl::c_none_of(model.names, is_compiled)) return {};
  std::vector<ScopeIndex> first(model.names.size(), kNone);
  const ScopeColumns& scopes = model.scopes;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (model.threads[scopes.thread[scope]].process != process) continue;
    ScopeIndex& run = first[scopes.look[scope].name];
    if (run == kNone || scopes.start_ns[scope] < scopes.start_ns[run]) run = scope;
  }
  std::map<absl::string_view, std::map<int64_t, ScopeIndex>> by_function;
  for (NameIndex name = 0; name < first.size(); ++name) {
    const absl::string_view function = FunctionOf(model.names[name], compiler);
    if (first[name] != kNone && !function.empty()) by_function[function][scopes.start_ns[first[name]]] = first[name];
  }
  Again again;
  size_t most = 1;
  for (const auto& [function, runs] : by_function) {
    for (auto run = std::next(runs.begin()); run != runs.end(); ++run) again.times_ns.push_back(run->first);
    if (runs.size() <= most) continue;
    most = runs.size();
    again.function = function;
    again.run = runs.rbegin()->second;
  }
  absl::c_sort(again.times_ns);
  return again;
}

// PyTorch's reason, numbers aside, for which it compiled longest, and for which function. Empty: not known.
std::string DearestReason(const TraceModel& model, ProcessIndex process) {
  std::map<std::string, std::pair<int64_t, std::string>> reasons;  // how long, and the last one
  for (const CompiledCode& code : model.compiled) {
    if (code.process != process || code.kind != CompiledKind::kCompilation || code.text.empty()) continue;
    std::string key = absl::StrCat(code.function, FileLine(code), code.text);
    std::erase_if(key, [](char c) { return absl::ascii_isdigit(c); });
    auto& [compile_ns, last] = reasons[key];
    compile_ns += std::max<int64_t>(code.compile_ns, 1);
    last = absl::StrCat(CompiledFunctionName(code.function), " (", FileLine(code), "): ", code.text);
  }
  const auto most = MostOf(reasons, [](const auto& of) { return of.first; });
  return most == reasons.end() ? "" : most->second.second;
}

std::vector<Finding> FindAgain(const StepFacts& facts, const Compiler& compiler) {
  const ProcessIndex process = facts.steps().tracks.front().process;
  const Again again = FirstRuns(facts.model(), process, compiler);
  const std::vector<int64_t>& first_runs = again.times_ns;
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
      const auto run = absl::c_upper_bound(first_runs, step.start_ns);
      const bool compiles = run != first_runs.end() && *run <= step.end_ns;
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
  const double extra_ns = compiling_ns - compiling * MedianOf(others_ns);
  if (extra_ns < kRecompilationsPercent / 100 * all_ns) return {};
  const bool have_batches = batches.size() > 1 && *batches.begin() > 0;
  const std::string reason = compiler.is_torch ? DearestReason(facts.model(), process) : "";
  return {
      {.where = compiler.name,
       .line = compiler.is_torch ? "" : facts.LineOfStack(facts.model().scopes.look[again.run].stack),
       .sentence = absl::StrCat(
           absl::StrFormat("%s %s %sagain in %.0f of %.0f %ss after warm-up, which take %s where the others take %s.",
                           compiler.name, compiler.does, compiler.is_torch ? "" : absl::StrCat(again.function, " "),
                           compiling, all, facts.StepNoun(), HumanTime(compiling_ns / compiling),
                           HumanTime(MedianOf(others_ns))),
           have_batches ? absl::StrCat(" Their batches are of ", *batches.begin(), " to ", *batches.rbegin(), ".") : "",
           reason.empty() ? "" : " For most of that time, PyTorch's reason: ", reason),
       .gain_ns = extra_ns / all,
       .basis = GainBasis::kMeasured,
       .confidence = Confidence::kHigh,
       .evidence = "table steps: those in which a compiled function with a new number runs first, or the ones before",
       .advice = compiler.advice,
       .whole_ns = all_ns / all}};
}

constexpr size_t kLeastCompiledSteps = 3;  // that run compiled code
constexpr char kAdvice[] =
    "Let what changes be the same for all calls, or a tensor instead of a Python value; for sizes: torch.compile(…, "
    "dynamic=True). If so many versions are needed: torch._dynamo.config.recompile_limit.";

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
  absl::c_sort(starts_ns);
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
      const auto run = absl::c_lower_bound(runs_ns, step.start_ns);
      const bool is_compiled = run != runs_ns.end() && *run < step.end_ns;
      (is_compiled ? kinds.compiled_ns : kinds.uncompiled_ns)
          .push_back(static_cast<double>(step.end_ns - step.start_ns));
    }
  }
  return kinds;
}

void AddGain(const StepFacts& facts, const Kinds& kinds, Finding* finding) {
  const auto uncompiled = static_cast<double>(kinds.uncompiled_ns.size());
  const double all = uncompiled + static_cast<double>(kinds.compiled_ns.size());
  if (kinds.compiled_ns.size() < kLeastCompiledSteps) {
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
  const size_t versions = absl::c_count_if(facts.model().compiled, [&](const CompiledCode& code) {
    return code.kind == CompiledKind::kCompilation && code.process == limit.process && !code.is_backward &&
           absl::StartsWith(code.region, limit.region.substr(0, limit.region.find('/') + 1));
  });
  const std::string function = CompiledFunctionName(limit.function);
  Finding finding = {
      .where = function,
      .line = FileLine(limit),
      .sentence = absl::StrCat("torch.compile reached its limit of recompilations for ", function, " after ", versions,
                               " versions: where none of them fits, it runs uncompiled from then on.",
                               limit.text.empty() ? "" : " The last reason: ", limit.text),
      .basis = GainBasis::kMeasured,
      .confidence = Confidence::kHigh,
      .evidence = "table compiled: limit reached; steps without scopes Torch-Compiled Region of the function",
      .advice = kAdvice};
  if (!kinds.uncompiled_ns.empty()) AddGain(facts, kinds, &finding);
  return finding;
}

}  // namespace

std::string RecompilationsMissing(const StepFacts& facts) {
  if (facts.Uses("JAX")) return SeesXlaCompilations(facts) ? "" : "when XLA compiles was not recorded";
  if (!facts.UsesTorch() && !facts.Uses("TensorFlow")) return "";
  if (facts.model().scopes.size() == 0) {
    return absl::StrCat(facts.UsesTorch() ? "PyTorch" : "TensorFlow", "'s operations were not recorded");
  }
  return facts.HasSteps() ? "" : "no repeating step was found";
}

std::vector<Finding> FindRecompilations(const StepFacts& facts) {
  std::vector<Finding> findings = FindXlaRecompilations(facts);
  if (!facts.HasSteps() || facts.steps().tracks.empty()) return findings;
  for (const Compiler& compiler : kCompilers) {
    Append(FindAgain(facts, compiler), findings);
  }
  return findings;
}

std::vector<Finding> FindRecompileLimit(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.steps().tracks.empty()) return {};
  std::vector<Finding> findings;
  for (const CompiledCode& code : facts.model().compiled) {
    const bool is_its = code.process == facts.steps().tracks.front().process;
    if (is_its && code.kind == CompiledKind::kRecompileLimit) findings.push_back(Describe(facts, code));
  }
  return findings;
}

namespace {

constexpr double kPercent = 3;
constexpr absl::string_view kCacheLookup = "TorchDynamo Cache Lookup";
constexpr absl::string_view kSuggestion = " PyTorch: ";  // between PyTorch's reason and what it suggests

// The outermost regions of a process that have others inside them, and how long each is outside of compiled code;
// ascending by start.
struct BrokenRun {
  int64_t start_ns = 0;
  int64_t outside_ns = 0;
  bool are_lookups = false;  // of graphs inside: all that is known
};

std::vector<BrokenRun> BrokenRuns(const TraceModel& model, ProcessIndex process) {
  const ScopeColumns& scopes = model.scopes;
  const auto is_region = [&](ScopeIndex scope) { return model.RoleOf(scope) == ScopeRole::kTorchRegion; };
  std::vector<BrokenRun> runs;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (!is_region(scope) || model.threads[scopes.thread[scope]].process != process) continue;
    bool has_inner = false, has_code = false;
    int64_t outside_ns = scopes.duration_ns[scope], code_end_ns = 0, lookups_ns = 0;
    ScopeIndex inner = scope + 1;
    for (; inner < scopes.size() && scopes.thread[inner] == scopes.thread[scope] &&
           scopes.start_ns[inner] < scopes.EndOf(scope);
         ++inner) {
      has_inner |= is_region(inner);
      if (model.names[scopes.look[inner].name] == kCacheLookup) lookups_ns += scopes.duration_ns[inner];
      if (model.names[scopes.look[inner].name] != kCompiledFunction || scopes.start_ns[inner] < code_end_ns) continue;
      has_code = true;
      code_end_ns = scopes.EndOf(inner);
      outside_ns -= scopes.duration_ns[inner];
    }
    if (has_inner) runs.push_back({scopes.start_ns[scope], has_code ? outside_ns : lookups_ns, !has_code});
    scope = inner - 1;
  }
  absl::c_sort(runs, [](const BrokenRun& a, const BrokenRun& b) { return a.start_ns < b.start_ns; });
  return runs;
}

}  // namespace

std::vector<Finding> FindGraphBreaks(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.steps().tracks.empty()) return {};
  const ProcessIndex process = facts.steps().tracks.front().process;
  std::vector<const CompiledCode*> breaks, resumed;
  for (const CompiledCode& code : facts.model().compiled) {
    if (code.process != process) continue;
    if (code.kind == CompiledKind::kGraphBreak) breaks.push_back(&code);
    const auto is_its = [&](const CompiledCode* other) { return other->line == code.line && other->file == code.file; };
    if (IsResumed(code) && absl::c_none_of(resumed, is_its)) resumed.push_back(&code);
  }
  if (breaks.empty()) breaks = resumed;
  if (breaks.empty()) return {};
  const std::vector<BrokenRun> runs = BrokenRuns(facts.model(), process);
  std::vector<double> outside_ns;  // by step; compilations are in few
  for (const StepTrack& track : facts.options().analysis->steps()) {
    for (const Step& step : track.steps) {
      if (track.process != process || step.kind != facts.steps().kind || step.is_warm_up) continue;
      outside_ns.push_back(0);
      auto run = absl::c_lower_bound(runs, step.start_ns,
                                     [](const BrokenRun& a, int64_t start_ns) { return a.start_ns < start_ns; });
      for (; run != runs.end() && run->start_ns < step.end_ns; ++run) {
        outside_ns.back() += static_cast<double>(run->outside_ns);
      }
    }
  }
  if (outside_ns.empty()) return {};
  const double median_ns = MedianOf(outside_ns);
  if (!facts.IsAtLeast(median_ns, kPercent)) return {};
  const CompiledCode& first = *breaks.front();
  const std::vector<std::string> parts = absl::StrSplit(first.text, absl::MaxSplits(kSuggestion, 1));
  return {{.where = CompiledFunctionName(first.function),
           .line = FileLine(first),
           .sentence = absl::StrFormat(
               "torch.compile breaks the graph of %s at %s%s: %s. %s %s.", CompiledFunctionName(first.function),
               FileLine(first),
               breaks.size() > 1 ? absl::StrCat(" (and ", breaks.size() - 1, " more: table compiled)") : "",
               parts.front().empty() ? "why was not kept (item(), print, a branch on a tensor's value ...)"
                                     : absl::StripSuffix(parts.front(), "."),
               runs.front().are_lookups ? "What runs between its graphs is not told apart; looking these up takes"
                                        : "The time between its graphs is",
               facts.PartOfStep(median_ns)),
           .gain_ns = median_ns,
           .evidence =
               runs.front().are_lookups
                   ? "table compiled: where graphs were broken; scopes TorchDynamo Cache Lookup inside of others"
                   : "table compiled: where graphs were broken; scopes Torch-Compiled Region without CompiledFunction",
           .advice = parts.size() > 1
                         ? absl::StrCat("PyTorch suggests: ", parts[1])
                         : "TORCH_LOGS=graph_breaks explains each; move such code out of the compiled function."}};
}

}  // namespace dlhook::analyzer::findings
