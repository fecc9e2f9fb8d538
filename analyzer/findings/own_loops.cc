// Rule own-loops: PyTorch computes products or convolutions on the CPU in loops of its own, where no library takes their
// type on this processor: float16 mostly, integers.
//
// Evidence: no call of a library inside the op. Sparse operands have loops of their own in each type, and so have small
// ones, and batches of small matrices (bmm). Measured with PyTorch 2.13 on a Zen 5 core against float32: 1.6 to 80 times
// as long from 4 rows on, half as long with one row and a transposed other operand, as nn.Linear has it. How many rows
// there are is not recorded, so in inference products are information.

#include "analyzer/findings/rules.h"
#include "analyzer/model/release.h"
#include "analyzer/model/scope_looks.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kOwnLoopsPercent = 3;
constexpr double kOwnLoopsLeastOpNs = 20'000;  // mean

bool IsProduct(const std::string& op) { return op == "mm" || op == "addmm" || op == "addmm_"; }

bool IsConvolution(const std::string& op) {
  return absl::StartsWith(op, "_slow_conv") || absl::StartsWith(op, "slow_conv");
}

bool IsBlind(const Capability& capability) {
  const CapabilityState state = capability.state;
  return capability.name == "onednn-tap" &&
         (state == CapabilityState::kOff || state == CapabilityState::kRefused || state == CapabilityState::kLost);
}

bool LosesCalls(const Loss& loss) {
  return loss.reason != LossReason::kSamplesDropped && loss.reason != LossReason::kReadingsDropped;
}

struct Loops {
  double ns = 0;  // of all steps
  double count = 0;
};

// By op, of the steady steps; an op inside another that counts counts with it.
std::map<std::string, Loops> OwnLoopsOf(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const ScopeColumns& scopes = model.scopes;
  const std::vector<ScopeName>& names = facts.scope_names();
  std::vector<bool> judged;  // by name
  for (const ScopeName& name : names) judged.push_back(IsProduct(name.op) || IsConvolution(name.op));
  const auto is_judged = [&](const ScopeLook& look) { return judged[look.name]; };
  std::vector<bool> calls_library(scopes.size());
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    ScopeIndex scope = model.calls.ScopeOf(call);
    for (; scope != kNone && !calls_library[scope]; scope = scopes.parent[scope]) calls_library[scope] = true;
  }
  std::map<std::string, Loops> by_op;
  ForEachScopeThat(scopes, is_judged, [&](ScopeIndex scope) {
    if (calls_library[scope]) return;
    if (scopes.parent[scope] != kNone && is_judged(scopes.look[scopes.parent[scope]])) return;
    if (facts.StepOfScope(scope) == kNone) return;
    Loops& loops = by_op[names[scopes.look[scope].name].op];
    loops.ns += static_cast<double>(scopes.duration_ns[scope]);
    ++loops.count;
  });
  std::erase_if(by_op, [](const auto& of) { return of.second.ns < kOwnLoopsLeastOpNs * of.second.count; });
  return by_op;
}

// Of these ops, by time.
std::vector<Finding> FindingOf(const StepFacts& facts, const std::map<std::string, Loops>& by_op, bool is_information) {
  double ns = 0;
  std::vector<std::string> ops;
  for (const auto& [op, loops] : by_op) {
    ns += loops.ns / facts.count();
    ops.push_back(absl::StrCat("aten::", op));
  }
  if (!facts.IsAtLeast(ns, kOwnLoopsPercent)) return {};
  const auto& [longest, loops] = *MostOf(by_op, &Loops::ns);
  const auto is_in = [&](const WorkItem& item) { return item.scope != nullptr && by_op.contains(item.scope->op); };
  return {
      {.where = facts.LayersOf(is_in),
       .line = facts.LineOfLongest(is_in),
       .sentence = absl::StrFormat(
           "PyTorch computes %s in its own loops instead of calling a library: %s.%s", absl::StrJoin(ops, ", "),
           facts.PartOfStep(ns), is_information ? " With one or two rows these are fast, with more they are not." : ""),
       .gain_ns = ns,
       .confidence = is_information ? Confidence::kLow : Confidence::kMedium,
       .evidence = absl::StrFormat("table work; no call of a library inside; aten::%s %.0f times in a step, %s each",
                                   longest, loops.count / facts.count(), HumanTime(loops.ns / loops.count)),
       .advice = "Their type, which is not recorded, is probably one that no library supports on this processor "
                 "(float16 without AVX512-FP16 or AMX, integers): use float32, or bfloat16 where the processor has it "
                 "(torch.autocast(\"cpu\", dtype=torch.bfloat16)). Measure both.",
       .changes_numerics = true,
       .is_information = is_information}};
}

}  // namespace

std::string OwnLoopsMissing(const StepFacts& facts) {
  if (!facts.UsesTorch() || facts.HasGpuTimes()) return "";
  if (!facts.HasSteps()) return "no repeating step was found";
  if (facts.model().scopes.size() == 0) return "PyTorch's operations were not recorded";
  const TraceModel& model = facts.model();
  const auto is_whole = [](const ProcessInfo& process) {
    return SeesLibraries(process) && absl::c_none_of(process.losses, LosesCalls) &&
           absl::c_none_of(process.capabilities, IsBlind);
  };
  const bool sees_all =
      facts.Setting("DLHOOK_CAPTURE").empty() && model.aggregates.empty() && absl::c_all_of(model.processes, is_whole);
  return sees_all ? "" : "not every call of a library was recorded";
}

std::vector<Finding> FindOwnLoops(const StepFacts& facts) {
  if (!facts.UsesTorch() || facts.HasGpuTimes() || !OwnLoopsMissing(facts).empty()) return {};
  const auto& looks = facts.model().scopes.look.values();  // not all names: symbols of samples are some
  for (uint32_t look = 0; look < looks.size(); ++look) {
    if (absl::StrContains(facts.model().names[looks[look].name], "sparse")) return {};
  }
  std::map<std::string, Loops> losses = OwnLoopsOf(facts), products;
  if (facts.steps().kind != StepKind::kTraining) {
    for (const auto& [op, loops] : losses) {
      if (IsProduct(op)) products[op] = loops;
    }
    std::erase_if(losses, [](const auto& of) { return IsProduct(of.first); });
  }
  std::vector<Finding> findings = FindingOf(facts, losses, false);
  Append(FindingOf(facts, products, true), findings);
  return findings;
}

}  // namespace dlhook::analyzer::findings
