// Rule reference-implementation: oneDNN computes with its reference implementation, loops that are written to be right,
// as it has no other for this shape, type or format, or none with the instructions that it may use.
//
// The gain: at most the time; how much faster another one would be is not known.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "analyzer/findings/rules.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kReferencePercent = 3;

// "ref:any", "lrn_ref:any", "gemm:ref", "conv:any+ref:any". The implementations called "simple" are no reference: a
// compiler made them for their formats. A recurrent network's "ref" is none either: its products are oneDNN's fast ones.
bool IsReference(const WorkItem& item) {
  if (!item.IsHostCompute() || item.op->onednn() == nullptr || IsKind(*item.op, OpKind::kRnn)) return false;
  const std::vector<absl::string_view> words = absl::StrSplit(item.op->implementation, absl::ByAnyChar(":_+"));
  return std::find(words.begin(), words.end(), "ref") != words.end();
}

// Then fewer implementations are to be had: instruction-set's own.
bool IsLimited(const StepFacts& facts) {
  return !facts.Setting("ONEDNN_MAX_CPU_ISA").empty() || !facts.Setting("DNNL_MAX_CPU_ISA").empty();
}

// `longest`: of those primitives.
Finding FindingOf(const StepFacts& facts, const WorkItem& longest,
                  const std::function<bool(const WorkItem&)>& is_of_kind) {
  const Op& op = *longest.op;
  Finding finding;
  finding.where = facts.LayersOf(is_of_kind);
  finding.line = facts.LineOfLongest(is_of_kind);
  finding.gain_ns = facts.Sum(is_of_kind);
  finding.sentence = absl::StrFormat("oneDNN computes %s with its reference implementation (%s): %s.", op.kind,
                                     op.implementation, facts.PartOfStep(finding.gain_ns));
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence = absl::StrCat("table algorithms, column implementation; ", op.problem, ", ", op.types);
  finding.advice =
      "It has no faster one for this: find which parameter makes the difference (ONEDNN_VERBOSE=dispatch says why "
      "others were refused), another size, type or memory format; or use a newer build of oneDNN.";
  return finding;
}

}  // namespace

// One for each primitive and implementation.
std::vector<Finding> FindReferenceImplementations(const StepFacts& facts) {
  std::vector<Finding> findings;
  std::set<std::pair<std::string, std::string>> seen;
  for (const WorkItem& item : facts.items()) {  // the longest first
    if (!IsReference(item) || IsLimited(facts) || !seen.emplace(item.op->kind, item.op->implementation).second)
      continue;
    const auto is_of_kind = [&](const WorkItem& other) {
      return IsReference(other) && other.op->kind == item.op->kind &&
             other.op->implementation == item.op->implementation;
    };
    if (facts.IsAtLeast(facts.Sum(is_of_kind), kReferencePercent))
      findings.push_back(FindingOf(facts, item, is_of_kind));
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
