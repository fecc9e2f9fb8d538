#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

// PyTorch's own work for an observer included. Measured were 110 ns (100 000 numbers taken out of tensors), 160 ns (processor
// time of the program of python-bound in tests/frameworks, an idle machine), 370 to 550 ns (a busy one) and 590 ns (LeNet:
// tests/bench/README.md, "Peers"): see MostOfScopeNs.
constexpr double kScopeNs = 400;
constexpr size_t kLeastFirstInner = 100;
constexpr size_t kMostFirstInner = 100'000;
// 20 ns for the record, 27 for CUPTI's callbacks (docs/cost.md).
constexpr double kGpuCallNs = 50;
// A call whose work CUPTI measured: 2.0 to 2.4 us on an H200 (docs/cost.md).
constexpr double kMeasuredCallNs = 2200;
constexpr double kMuch = 0.05;  // of the gain

// What torch.profiler took for a trace of its own (analyzer/import/kineto) is not known.
bool WasRecordedByOthers(const TraceModel& model) {
  return !model.processes.empty() && model.processes.front().tool_version == "Kineto";
}

// From the start of a scope to that of the first one in it, half of a scope is recorded, and something is done: where that
// takes least (a twentieth of the times) is the most that half a scope can take.
double MostOfScopeNs(const TraceModel& model) {
  const ScopeColumns& scopes = model.scopes;
  std::vector<int64_t> until_inner_ns;
  for (ScopeIndex scope = 1; scope < scopes.size() && until_inner_ns.size() < kMostFirstInner; ++scope) {
    if (scopes.parent[scope] != scope - 1 || scopes.look[scope - 1].kind != ScopeKind::kFrameworkOp) continue;
    until_inner_ns.push_back(scopes.start_ns[scope] - scopes.start_ns[scope - 1]);
  }
  if (until_inner_ns.size() < kLeastFirstInner) return kScopeNs;
  return std::min(2 * static_cast<double>(NthOf(until_inner_ns, until_inner_ns.size() / 20)), kScopeNs);
}

// By the usual costs.
double UsualCostOfScopes(const StepFacts& facts, const std::function<bool(ScopeIndex)>& counts) {
  if (!facts.UsesTorch() || WasRecordedByOthers(facts.model())) return 0;
  const TraceModel& model = facts.model();
  int64_t scopes = 0;
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    FoldedTime::Of(model, *facts.options().analysis).ForEachScope(process, [&](ScopeIndex scope, int64_t count) {
      if (counts(scope) && facts.StepAt(process, model.scopes.start_ns[scope]) != kNone) scopes += count;
    });
  }
  return MostOfScopeNs(model) * static_cast<double>(scopes) / facts.count();
}

double UsualCostOfGpuCalls(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  if (WasRecordedByOthers(model)) return 0;
  std::vector<bool> is_measured(model.calls.size());
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    const CallIndex call = model.gpu.launch_call[activity];
    if (call != kNone && model.gpu.source[activity] == GpuTimeSource::kCupti) is_measured[call] = true;
  }
  double own_ns = 0;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const bool is_counted = model.ops[model.calls.op[call]].on_gpu;
    if (is_counted && facts.StepOfCall(call) != kNone) {
      own_ns += is_measured[call] ? kMeasuredCallNs : kGpuCallNs;
    }
  }
  return own_ns / facts.count();
}

// What the run itself shows goes before the usual costs.
double AsMeasured(const StepFacts& facts, double usual_ns, bool are_gpu_calls) {
  const std::optional<WindowCost> cost = CostOfWindows(facts);
  if (!cost.has_value() || !cost->is_cost_told || usual_ns == 0) return usual_ns;
  if (are_gpu_calls && cost->has_gpu_times_throughout) return usual_ns;
  const double all_ns = UsualCostOfScopes(facts, [](ScopeIndex) { return true; }) +
                        (cost->has_gpu_times_throughout ? 0 : UsualCostOfGpuCalls(facts));
  return std::max(cost->added_ns, 0.0) * usual_ns / all_ns;
}

}  // namespace

double CostOfScopes(const StepFacts& facts, const std::function<bool(ScopeIndex)>& counts) {
  return AsMeasured(facts, UsualCostOfScopes(facts, counts), /*are_gpu_calls=*/false);
}

double CostOfGpuCalls(const StepFacts& facts) {
  return AsMeasured(facts, UsualCostOfGpuCalls(facts), /*are_gpu_calls=*/true);
}

void SubtractOwnCost(double own_ns, Finding& finding) {
  own_ns = std::min(own_ns, finding.gain_ns);
  if (own_ns <= 0) return;
  if (own_ns > kMuch * finding.gain_ns) {
    finding.confidence = finding.confidence == Confidence::kHigh ? Confidence::kMedium : Confidence::kLow;
  }
  finding.gain_ns -= own_ns;
  absl::StrAppend(&finding.evidence, "; about ", HumanTime(own_ns), " for recording was subtracted");
}

}  // namespace dlhook::analyzer::findings
