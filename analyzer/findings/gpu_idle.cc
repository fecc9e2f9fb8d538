// Rule gpu-idle: why the GPU runs no kernel of the network. One finding per cause. The table gpu_idle assigns every
// idle nanosecond to exactly one cause, so the gains are disjoint.
#include "analyzer/gpu/gpu_idle.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/gpu_rules.h"
#include "analyzer/findings/own_cost.h"
#include "analyzer/findings/rules.h"
#include "analyzer/layers/functions/askers.h"
#include "analyzer/table/human.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/tables/gpu/gpu_tables.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kGpuIdlePercent = 3;

// Advice where the wait belongs to a copy of unpinned memory.
constexpr char kPinned[] =
    "Pin what is copied there and pass non_blocking=True (see pageable-copies): then the program does not wait for it.";

// Causes of their own here: in the table they are parts of "not known" and of "launch-bound".
constexpr char kNotStarted[] = "not started";
constexpr char kHostComputes[] = "host computes";

// In an op that launches kernels the GPU waits for less each time.
constexpr double kHostComputesNs = 200'000;

struct Advice {
  const char* sentence;
  const char* advice;
};

const std::map<std::string, Advice>& Advices() {
  static const auto& kAdvices = *new std::map<std::string, Advice>{
      {"input pipeline",
       {"The GPU waits for the next batch",
        "DataLoader(..., num_workers=N, pin_memory=True, prefetch_factor=4): more batches prepared ahead."}},
      {"synchronization",
       {"The GPU has nothing to do because the program waited for it",
        "Keep values on the GPU: .item(), .cpu(), print(tensor) and nonzero() wait; read the loss every N steps."}},
      {"launch-bound",
       {"The GPU waits for the next kernel to be launched",
        "Launch less: torch.compile(model, mode=\"reduce-overhead\"), CUDA graphs, fused operations, a larger batch."}},
      {"copies",
       {"The GPU computes nothing while it copies",
        "Overlap copies with compute: pinned memory and x.to(device, non_blocking=True), the next batch on a "
        "stream of its own."}},
      {"communication",
       {"The GPU computes nothing while ranks communicate",
        "Overlap or shrink it: larger buckets (bucket_cap_mb), no_sync() while gradients accumulate, prefetch in "
        "FSDP."}},
      {kHostComputes,
       {"The GPU waits for an operation on the CPU",
        "Let the GPU do it (device=\"cuda\"), or the data loader's workers, before the step needs it."}},
      {kNotStarted,
       {"The GPU does nothing for this program although kernels were launched",
        "See whether other programs use this GPU (nvidia-smi): they take turns with this one. If none does, the work "
        "waits for another device or for a function on the host."}},
  };
  return kAdvices;
}

// The line that waits for GPUs while they are idle for longest; empty if not known.
std::string WaitingLine(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const GpuRun run(model, facts.options().analysis->steps());
  const HostRules rules(model);
  Askers askers(model, facts.attribution());
  std::map<std::string, int64_t> by_line;
  for (GpuDeviceIndex device : run.devices()) {
    const ProcessInfo& process = model.processes[run.ProcessOf(device)];
    DivideIdleTime(
        model, rules, run.timelines(), device, {process.start_ns, process.end_ns}, [&](const IdlePiece& piece) {
          if (piece.cause != IdleCause::kSynchronization || piece.what != IdlePiece::What::kCall) return;
          by_line[askers.LineOf(piece.index)] += run.SteadyTime(device).CoveredNs(piece.start_ns, piece.end_ns);
        });
  }
  const auto most = std::max_element(by_line.begin(), by_line.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == by_line.end() ? "" : most->first;
}

// What the rules about copies claim of the time that the table gpu_idle assigns to copies.
double SaidOfCopiesNs(const StepFacts& facts) {
  double sum_ns = 0;
  for (auto* find : {FindCopiedAgain, FindPageableCopies, FindSmallCopies}) {
    for (const Finding& finding : find(facts)) sum_ns += finding.gain_ns;
  }
  return sum_ns;
}

// Of a program that XLA compiled: what there is in JAX.
std::string AdviceForXla(const std::string& cause, const std::string& advice) {
  if (cause == IdleCauseName(IdleCause::kLaunch)) {
    return "Launch less: more of the step in one jax.jit, several steps in one call (jax.lax.scan), a larger batch.";
  }
  if (cause == IdleCauseName(IdleCause::kSynchronization)) {
    return "Keep values on the GPU: block_until_ready(), float(array) and print(array) wait; read the loss every N "
           "steps.";
  }
  if (cause == IdleCauseName(IdleCause::kCopies)) {
    return "Overlap copies with compute: jax.device_put of the next batch before the step that needs it.";
  }
  return advice;
}

struct Cause {
  double ns = 0;
  double largest_ns = 0;
  std::string during, layer, line;
};

std::string CauseOf(const Table& table, const Row& row) {
  const std::string during = TextOf(table, row, "during");
  if (during == kNotStartedLabel) return kNotStarted;
  const bool in_op =
      absl::StrContains(during, "::") && TextOf(table, row, "cause") == IdleCauseName(IdleCause::kLaunch);
  const bool is_long = NumberOf(table, row, "steady_time") >= kHostComputesNs * NumberOf(table, row, "times");
  return in_op && is_long ? kHostComputes : TextOf(table, row, "cause");
}

}  // namespace

std::vector<Finding> FindGpuIdle(const StepFacts& facts) {
  if (GpuTimesOf(facts.model()) != GpuTimes::kOfKernels || !facts.HasSteps()) return {};
  const absl::StatusOr<Table> table = facts.MakeRunTable("gpu_idle");
  if (!table.ok()) return {};
  std::map<std::string, Cause> causes;
  double devices = 0;
  std::map<std::string, bool> known;
  for (const Row& row : table->rows) {
    // As a part of the time, because the table's mean step has the much longer ones that the answer's leaves out.
    const double ns = NumberOf(*table, row, "percent") / 100 * facts.step_ns();
    const std::string device = absl::StrCat(NumberOf(*table, row, "process"), "/", NumberOf(*table, row, "device"));
    if (known.try_emplace(device, true).second) ++devices;
    const std::string during = TextOf(*table, row, "during");
    if (during == kDeviceWorkLabel) continue;  // work for the network, as kernels are
    Cause& cause = causes[CauseOf(*table, row)];
    cause.ns += ns;
    if (ns <= cause.largest_ns) continue;
    cause.largest_ns = ns;
    cause.during = during == kNotStartedLabel ? "" : during;
    cause.layer = TextOf(*table, row, "layer");
    cause.line = TextOf(*table, row, "line");
  }
  const std::vector<Finding> pageable = FindPageableCopies(facts);
  std::vector<Finding> findings;
  for (const auto& [name, advice] : Advices()) {
    const auto cause = causes.find(name);
    if (cause == causes.end()) continue;
    double ns = cause->second.ns / devices;
    if (name == IdleCauseName(IdleCause::kCopies)) ns = std::max(ns - SaidOfCopiesNs(facts), 0.0);
    if (!facts.IsAtLeast(ns, kGpuIdlePercent)) continue;
    Finding finding;
    finding.where = cause->second.layer;
    finding.line = cause->second.line;  // of what the GPU does next
    const bool is_wait = name == IdleCauseName(IdleCause::kSynchronization);
    if (is_wait) {
      finding.where = "";
      finding.line = WaitingLine(facts);
    }
    const bool waits_for_copy =
        is_wait && !finding.line.empty() && !pageable.empty() && finding.line == pageable.front().line;
    finding.sentence = absl::StrCat(advice.sentence, ": ", facts.PartOfStep(ns),
                                    cause->second.during.empty() ? "" : ", most of it during ", cause->second.during,
                                    devices > 1 ? ", mean over the GPUs." : ".");
    finding.gain_ns = ns;
    const bool is_row = name == kNotStarted || name == kHostComputes;
    finding.evidence =
        is_row ? absl::StrCat("table gpu_idle, during ", name == kNotStarted ? kNotStartedLabel : cause->second.during)
               : absl::StrCat("table gpu_idle, cause ", name);
    finding.advice = waits_for_copy ? kPinned : advice.advice;
    if (!facts.model().compiled_ops.empty()) finding.advice = AdviceForXla(name, advice.advice);
    if (name == IdleCauseName(IdleCause::kLaunch)) {
      const double own_ns = CostOfScopes(facts, [](ScopeIndex) { return true; }) + CostOfGpuCalls(facts);
      SubtractOwnCost(own_ns * ns / facts.step_ns(), finding);  // which the host spends evenly over the step
      if (!facts.IsAtLeast(finding.gain_ns, kGpuIdlePercent)) continue;
    }
    findings.push_back(finding);
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
