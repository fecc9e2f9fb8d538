// Rule slow-products: matrix products at a small part of the rate that the best product of the same type reaches in this run.
//
// Only products that a processor could compute fast are judged: with fewer than kIntensity operations per byte of their operands the
// memory limits them, whatever is done.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/calls/gemm_shape.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kPercent = 5;
constexpr double kSlowPart = 0.3;       // of the best rate
constexpr double kIntensity = 8;        // FLOPs per byte
constexpr double kBestCallNs = 20'000;  // shorter calls measure the clock and the call itself

bool IsJudged(const WorkItem& item) {
  if (!item.IsHostCompute() || item.op->is_asynchronous || !IsMatrixProduct(*item.op)) return false;
  if (!item.op->flops || !item.op->bytes || *item.op->bytes <= 0 || item.calls <= 0 || item.ns <= 0) return false;
  return static_cast<double>(*item.op->flops) >= kIntensity * static_cast<double>(*item.op->bytes);
}

double RateOf(const WorkItem& item) { return static_cast<double>(*item.op->flops) * item.calls / item.ns; }

std::string WhySlow(const Op& op) {
  const std::optional<GemmShape> shape = GemmShapeOf(op);
  if (!shape) return "";
  const int64_t least = std::min({shape->m, shape->n, shape->k});
  if (least <= 16) {
    return absl::StrCat(least == shape->k ? "its sums are only " : "it is only ", least,
                        least == shape->k ? " long" : " rows or columns wide");
  }
  return "";
}

}  // namespace

std::vector<Finding> FindSlowProducts(const StepFacts& facts) {
  std::map<std::string, double> best;  // by types, FLOPs per ns
  for (const WorkItem& item : facts.items()) {
    if (!IsJudged(item) || item.ns / item.calls < kBestCallNs) continue;
    best[item.op->types] = std::max(best[item.op->types], RateOf(item));
  }
  std::vector<Finding> findings;
  for (const WorkItem& item : facts.items()) {
    if (!IsJudged(item) || !facts.IsAtLeast(item.ns, kPercent)) continue;
    const double rate = RateOf(item), best_rate = best[item.op->types];
    if (rate >= kSlowPart * best_rate) continue;
    const std::string why = WhySlow(*item.op);
    Finding finding;
    finding.where = item.group->label;
    finding.line = facts.LineOf(item);
    finding.sentence = absl::StrFormat("The product %s runs at %.3g GFLOP/s, others of its type at up to %.3g: %s%s.",
                                       item.op->problem, rate, best_rate, facts.PartOfStep(item.ns),
                                       why.empty() ? "" : absl::StrCat("; ", why));
    finding.gain_ns = item.ns * (1 - rate / best_rate);
    finding.basis = GainBasis::kUpperBound;
    finding.confidence = Confidence::kLow;
    finding.evidence = "table gemm, column rate";
    finding.advice =
        why.empty() ? "Compare its sizes and transposition with those of the fast ones in table gemm; sizes that are "
                      "multiples of 16 and contiguous operands are the usual cure."
                    : "Batch it: one product of several such (torch.bmm, a larger batch) reads the other operand once.";
    findings.push_back(finding);
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
