// Rule batch-norm-in-inference: batch normalization runs by itself where its factors are constants, which could be
// multiplied into the weights of the convolution or product before it.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kBatchNormPercent = 3;

bool IsBatchNorm(const WorkItem& item) {
  if (item.IsCall()) return IsKind(*item.op, OpKind::kBatchNormalization);
  return item.scope != nullptr && WorkOfOp(item.scope->op) == "batch norm";
}

}  // namespace

std::vector<Finding> FindBatchNormInInference(const StepFacts& facts) {
  if (facts.steps().kind != StepKind::kInference || !facts.UsesTorch()) return {};
  const double ns = facts.Sum(IsBatchNorm);
  if (!facts.IsAtLeast(ns, kBatchNormPercent)) return {};
  Finding finding;
  finding.where = facts.LayersOf(IsBatchNorm);
  finding.sentence =
      absl::StrCat("Batch normalization runs as a separate operation in inference: ", facts.PartOfStep(ns), ".");
  finding.gain_ns = ns;
  finding.basis = GainBasis::kComputed;
  finding.confidence = Confidence::kMedium;
  finding.evidence =
      "table layers: batch norm. The gain is its time where it directly follows a convolution or product";
  finding.advice =
      "Fold it into the preceding convolution once: torch.nn.utils.fusion.fuse_conv_bn_eval, or "
      "torch.jit.optimize_for_inference(torch.jit.trace(model, example)).";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
