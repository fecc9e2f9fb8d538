// Rule recompilations: torch.compile compiles again in steady steps, for sizes or values that it has not seen.
//
// PyTorch numbers what it compiled: "Torch-Compiled Region: 0/3" is the third recompilation of frame 0. A step in which a
// number appears first compiled it; the loss is what such steps take beyond the others' median. Few sizes are soon
// compiled, so there must be several recompilations, one of them in the later half of the run.
#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kPercent = 5;  // of the steps after warm-up
constexpr size_t kLeast = 3;    // recompilations
constexpr char kRegion[] = "Torch-Compiled Region: ";

bool IsRecompiled(const std::string& name) {
  return absl::StartsWith(name, kRegion) && absl::StrContains(name, '/') && !absl::EndsWith(name, "/0");
}

// When each recompiled region ran first, in a process.
std::vector<int64_t> FirstRuns(const TraceModel& model, ProcessIndex process) {
  std::vector<int64_t> first(model.names.size(), -1);
  const ScopeColumns& scopes = model.scopes;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (model.threads[scopes.thread[scope]].process != process || !IsRecompiled(model.names[scopes.name[scope]]))
      continue;
    int64_t& ns = first[scopes.name[scope]];
    if (ns < 0 || scopes.start_ns[scope] < ns) ns = scopes.start_ns[scope];
  }
  first.erase(std::remove(first.begin(), first.end(), -1), first.end());
  return first;
}

}  // namespace

std::vector<Finding> FindRecompilations(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.steps().tracks.empty()) return {};
  const ProcessIndex process = facts.steps().tracks.front().process;
  const std::vector<int64_t> compiled_ns = FirstRuns(facts.model(), process);
  if (compiled_ns.size() < kLeast) return {};
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
      const bool compiles = std::any_of(compiled_ns.begin(), compiled_ns.end(),
                                        [&](int64_t at_ns) { return at_ns >= step.start_ns && at_ns < step.end_ns; });
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
  if (extra_ns < kPercent / 100 * all_ns) return {};
  Finding finding;
  finding.where = "torch.compile";
  finding.sentence = absl::StrFormat(
      "torch.compile compiles again in %.0f of %.0f %ss after warm-up, which take %s where the others take %s.",
      compiling, all, facts.StepNoun(), HumanTime(compiling_ns / compiling), HumanTime(*median));
  if (batches.size() > 1 && *batches.begin() > 0) {
    absl::StrAppendFormat(&finding.sentence, " Their batches are of %d to %d.", *batches.begin(), *batches.rbegin());
  }
  finding.gain_ns = extra_ns / all;
  finding.whole_ns = all_ns / all;
  finding.confidence = Confidence::kHigh;
  finding.evidence = "table steps: those in which a compiled region with a new number runs first";
  finding.advice =
      "TORCH_LOGS=recompiles says why. For sizes: torch.compile(model, dynamic=True), or pad the input to few sizes.";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
