// Rule gpu-allocations: steady steps allocate and free GPU memory. Frameworks' allocators keep memory for reuse;
// cudaFree waits for the GPU.
#include "absl/strings/str_format.h"
#include "analyzer/findings/gpu_rules.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kGpuAllocationsLeastCalls = 0.5;  // per step; below this an allocator is still growing

bool IsAllocation(const Op& op) { return op.allocation() && op.allocation()->kind == AllocationKind::kDevice; }

}  // namespace

std::vector<Finding> FindGpuAllocations(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const HostCalls calls =
      HostCallsOf(facts, [&](CallIndex call) { return IsAllocation(model.ops[model.calls.op[call]]); });
  if (calls.calls < kGpuAllocationsLeastCalls || !facts.IsAtLeast(calls.idle_ns, kLeastPercent)) return {};
  Finding finding;
  finding.line = calls.line;
  finding.sentence = absl::StrFormat(
      "GPU memory is allocated and freed %.1f times per step, and the GPU computes nothing meanwhile: %s.", calls.calls,
      facts.PartOfStep(calls.idle_ns));
  finding.gain_ns = calls.idle_ns;
  finding.evidence = "table ops: cudaMalloc, cudaFree";
  finding.advice =
      "No torch.cuda.empty_cache() in the loop. Where sizes change: PYTORCH_ALLOC_CONF=expandable_segments:True, "
      "or one step at the largest size before the others.";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
