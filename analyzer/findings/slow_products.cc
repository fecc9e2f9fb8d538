// Rule slow-products: a layer computes the same product of few rows over and over, where one product of all rows would
// read the other operand once.
//
// The gain: as if its FLOPs were done at the rate of the run's fastest product of the same types (tests/bench/findings.py measures it).
// dlhook can't see whether the products depend on each other, as in a recurrent network; layers of a recurrent type are
// left out.
#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/model/gemm_shape.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kPercent = 5;
constexpr int64_t kFewRows = 16;
constexpr double kLeastCalls = 8;       // of the same product, per step
constexpr double kSlowPart = 0.5;       // of the best rate
constexpr double kBestCallNs = 20'000;  // shorter calls measure mostly the clock and the call's overhead

bool IsJudged(const WorkItem& item) {
  if (!item.IsHostCompute() || item.op->is_asynchronous || !IsMatrixProduct(*item.op)) return false;
  return item.op->flops && item.calls > 0 && item.ns > 0;
}

double RateOf(const WorkItem& item) { return static_cast<double>(*item.op->flops) * item.calls / item.ns; }

bool IsRecurrent(const StepFacts& facts, const WorkItem& item) {
  return std::any_of(item.group->layers.begin(), item.group->layers.end(), [&](LayerIndex index) {
    const std::string type = absl::AsciiStrToLower(facts.attribution().layers[index].type);
    return absl::StrContains(type, "rnn") || absl::StrContains(type, "lstm") || absl::StrContains(type, "gru");
  });
}

// Rows of the operand that differs between the calls; 0: not known, or many.
int64_t FewRows(const Op& op) {
  const std::optional<GemmShape> shape = GemmShapeOf(op);
  const int64_t rows = shape ? std::min(shape->m, shape->n) : 0;
  return rows <= kFewRows ? rows : 0;
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
    if (!IsJudged(item) || item.calls < kLeastCalls || !facts.IsAtLeast(item.ns, kPercent)) continue;
    const int64_t rows = FewRows(*item.op);
    const double rate = RateOf(item), best_rate = best[item.op->types];
    if (rows == 0 || rate >= kSlowPart * best_rate || IsRecurrent(facts, item)) continue;
    Finding finding;
    finding.where = item.group->label;
    finding.line = facts.LineOf(item);
    finding.sentence = absl::StrFormat(
        "%.0f equal products of %d %s each (%s) run at %.3g GFLOP/s, others of the run at up to %.3g: %s.", item.calls,
        rows, rows == 1 ? "row" : "rows", item.op->problem, rate, best_rate, facts.PartOfStep(item.ns));
    finding.gain_ns = item.ns * (1 - rate / best_rate);
    finding.basis = GainBasis::kComputed;
    finding.confidence = Confidence::kLow;
    finding.evidence = "table gemm, column rate: all of its FLOPs at the best rate of the run";
    finding.advice =
        "Where they don't depend on each other, compute them as one: all rows in one call, or torch.bmm where each has "
        "a matrix of its own.";
    findings.push_back(finding);
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
