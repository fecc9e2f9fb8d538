// Rule float64: products and convolutions in double precision. They take twice as long as in single precision, because
// half as many numbers fit into a vector register and into the memory bandwidth.
#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/findings/rules.h"
#include "analyzer/model/release.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kFloat64Percent = 3;
constexpr double kGain = 0.5;  // part of the time

bool RunsPython(const TraceModel& model) {
  return !model.python_stacks.empty() || absl::c_any_of(model.processes, [](const ProcessInfo& process) {
    return absl::StartsWith(process.program, "python") || !ReleaseOf(process, "Python").empty();
  });
}

}  // namespace

std::vector<Finding> FindFloat64(const StepFacts& facts) {
  const auto is_double = [](const WorkItem& item) {
    return item.IsHostCompute() && absl::StrContains(item.op->types, "f64");
  };
  const double ns = facts.Sum(is_double);
  if (!facts.IsAtLeast(ns, kFloat64Percent)) return {};
  Finding finding;
  finding.where = facts.LayersOf(is_double);
  finding.line = facts.LineOfLongest(is_double);
  finding.sentence = absl::StrCat("The libraries compute in double precision (float64): ", facts.PartOfStep(ns), ".");
  finding.gain_ns = kGain * ns;
  finding.basis = GainBasis::kComputed;
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table gemm, column types: float32 does twice as many operations in the same time";
  finding.advice = "If double precision is not needed, find where it comes from";
  absl::StrAppend(&finding.advice,
                  RunsPython(facts.model())
                      ? ": NumPy makes float64 by default (dtype=np.float32, x.astype(np.float32))"
                      : "; libraries have the same functions for float32 (sgemm for dgemm), but not every language "
                        "has such numbers (R has none)",
                  facts.UsesTorch() ? "; a float64 array makes float64 tensors (torch.from_numpy(x).float())." : ".");
  finding.changes_numerics = true;
  return {finding};
}

}  // namespace dlhook::analyzer::findings
