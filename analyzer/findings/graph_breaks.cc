// Rule graph-breaks: torch.compile could not compile a function as one graph. The program's own code runs between the
// graphs, and what it computes there is neither compiled nor fused.
//
// Condition: PyTorch kept where it broke graphs, or functions that go on after a break were compiled; and 3 % of a step (median
// of the steps) passes inside compiled functions that go on after a break (a region inside a region) but outside of their
// compiled code (CompiledFunction). Without gradients there is no such scope: then the look-ups of the inner graphs count.
// The gain is at most that time, because the code between the graphs has to run somewhere.

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
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
