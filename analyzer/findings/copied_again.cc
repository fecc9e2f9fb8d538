// Rule copied-again: steps copy the same contents to the GPU again.
//
// The shim samples some bytes of each larger copy from the host (trace::Copy). Equal samples of the same place in
// nearly all steps mean that the contents do not change, or hardly.
#include <map>
#include <set>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/gpu_rules.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kCopiedAgainPercent = 3;
constexpr double kNearlyAll = 0.9;  // of the steps
constexpr size_t kLeastSteps = 3;

struct Source {
  ProcessIndex process = 0;
  OpIndex op = 0;  // direction, bytes
  uint64_t address = 0;
  uint64_t contents = 0;
  auto operator<=>(const Source&) const = default;
};

}  // namespace

absl::flat_hash_set<CallIndex> CopiedAgain(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  std::map<Source, std::vector<CallIndex>> copies;
  for (const CallIndex call : model.operands.call) {
    const absl::Span<const uint64_t> operands = model.OperandsOf(call);
    if (model.ops[model.calls.op[call]].copy() == nullptr || operands.size() < 4 || operands[3] == 0) continue;
    const ProcessIndex process = model.threads[model.calls.thread[call]].process;
    copies[{process, model.calls.op[call], operands[1], operands[3]}].push_back(call);
  }
  absl::flat_hash_set<CallIndex> again;
  for (const StepTrack& track : facts.steps().tracks) {
    if (track.steps.size() < kLeastSteps) continue;
    for (const auto& [source, calls] : copies) {
      if (source.process != track.process) continue;
      std::set<size_t> steps;
      for (const CallIndex call : calls) steps.insert(facts.StepAt(track.process, model.calls.start_ns[call]));
      steps.erase(kNone);
      if (static_cast<double>(steps.size()) < kNearlyAll * static_cast<double>(track.steps.size())) continue;
      again.insert(calls.begin(), calls.end());
    }
  }
  return again;
}

std::vector<Finding> FindCopiedAgain(const StepFacts& facts) {
  const absl::flat_hash_set<CallIndex> again = CopiedAgain(facts);
  const HostCalls copies = HostCallsOf(facts, [&](CallIndex call) { return again.contains(call); });
  if (!facts.IsAtLeast(copies.idle_ns, kCopiedAgainPercent)) return {};
  Finding finding;
  finding.line = copies.line;
  finding.sentence = absl::StrFormat(
      "%.1f copies per step transfer the same contents to the GPU again, and it computes nothing meanwhile: %s.",
      copies.calls, facts.PartOfStep(copies.idle_ns));
  finding.gain_ns = copies.idle_ns;
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence =
      "8 blocks of 128 bytes of each copy, equal in nine of ten steps or more; the rest was not compared";
  finding.advice =
      "Copy it once before the loop and keep it on the GPU: x = x.to(device), register_buffer for constants of a "
      "module.";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
