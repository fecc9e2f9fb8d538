// Rules pageable-copies and small-copies: copies that the program waits for while the GPU computes nothing.
//
// pageable-copies: the driver stages an asynchronous copy of unpinned memory, which is slow and does not overlap with
// compute.
// small-copies: many copies to the GPU, each with the fixed cost of a call.
// Copies that copied-again names are its own. The time that these rules claim is subtracted from the cause "copies"
// of gpu-idle.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/gpu_rules.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr uint64_t kSmallBytes = 64 * 1024;  // up to here CUDA copies pageable memory without waiting
constexpr double kPageablePercent = 3;
constexpr double kSmallPercent = 5;
constexpr double kManyCopies = 10;  // per step

bool IsPageable(const Op& op) {
  const CopyCall* copy = op.copy();
  return copy && copy->asynchronous && copy->host_memory == HostMemory::kPageable && copy->bytes >= kSmallBytes;
}

bool IsSmall(const Op& op) {
  return op.copy() && op.copy()->direction == CopyDirection::kHostToDevice && op.copy()->bytes < kSmallBytes;
}

}  // namespace

std::vector<Finding> FindPageableCopies(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const absl::flat_hash_set<CallIndex> again = CopiedAgain(facts);
  const HostCalls copies = HostCallsOf(
      facts, [&](CallIndex call) { return IsPageable(model.ops[model.calls.op[call]]) && !again.contains(call); });
  if (!facts.IsAtLeast(copies.idle_ns, kPageablePercent)) return {};
  Finding finding;
  finding.line = copies.line;
  finding.sentence = absl::StrFormat(
      "%.1f asynchronous copies per step use memory that is not pinned, and the GPU computes nothing meanwhile: "
      "%s.",
      copies.calls, facts.PartOfStep(copies.idle_ns));
  finding.gain_ns = copies.idle_ns;
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table copies: rows of pageable memory; table gpu_idle";
  finding.advice =
      "Pin the source: DataLoader(..., pin_memory=True), or x.pin_memory() once; then x.to(device, "
      "non_blocking=True) returns at once, and copying the next batch overlaps with compute.";
  return {finding};
}

std::vector<Finding> FindSmallCopies(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const HostCalls copies = HostCallsOf(facts, [&](CallIndex call) { return IsSmall(model.ops[model.calls.op[call]]); });
  if (copies.calls <= kManyCopies) return {};
  const double gain_ns = copies.idle_ns * (copies.calls - 1) / copies.calls;
  if (!facts.IsAtLeast(gain_ns, kSmallPercent)) return {};
  Finding finding;
  finding.line = copies.line;
  finding.sentence =
      absl::StrFormat("%.0f copies of less than 64 KiB to the GPU per step, and it computes nothing meanwhile: %s.",
                      copies.calls, facts.PartOfStep(copies.idle_ns));
  finding.gain_ns = gain_ns;
  finding.basis = GainBasis::kComputed;
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table copies: sizes; one copy in the place of all of them would remain";
  finding.advice =
      "Stack them and copy once: torch.stack(values).to(device); make constants on the GPU (device=...) before the "
      "loop.";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
