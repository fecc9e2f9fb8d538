// Rule reference-implementation: oneDNN computes with its reference implementation, loops that are written to be right,
// as it has no other for this shape, type or format, or none with the instructions that it may use.
//
// The gain: at most the time; how much faster another one would be is not known.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kReferencePercent = 3;

// "ref:any", "lrn_ref:any", "gemm:ref", "conv:any+ref:any". The implementations called "simple" are no reference: a
// compiler made them for their formats. A recurrent network's "ref" is none either: its products are oneDNN's fast ones.
bool IsReference(const WorkItem& item) {
  if (!item.IsHostCompute() || item.op->onednn() == nullptr || item.op->kind == "rnn") return false;
  const std::vector<absl::string_view> words = absl::StrSplit(item.op->implementation, absl::ByAnyChar(":_+"));
  return std::find(words.begin(), words.end(), "ref") != words.end();
}

// Then fewer implementations are to be had: instruction-set's own.
bool IsLimited(const StepFacts& facts) {
  return !facts.Setting("ONEDNN_MAX_CPU_ISA").empty() || !facts.Setting("DNNL_MAX_CPU_ISA").empty();
}

}  // namespace

std::vector<Finding> FindReferenceImplementations(const StepFacts& facts) {
  const double ns = facts.Sum(IsReference);
  if (!facts.IsAtLeast(ns, kReferencePercent) || IsLimited(facts)) return {};
  const auto longest = std::find_if(facts.items().begin(), facts.items().end(), IsReference);
  const Op& op = *longest->op;
  Finding finding;
  finding.where = facts.LayersOf(IsReference);
  finding.line = facts.LineOfLongest(IsReference);
  finding.sentence = absl::StrFormat("oneDNN computes %s with its reference implementation (%s): %s.", op.kind,
                                     op.implementation, facts.PartOfStep(ns));
  finding.gain_ns = ns;
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence = absl::StrCat("table algorithms, column implementation; ", op.problem, ", ", op.types);
  finding.advice =
      "It has no faster one for this: look which parameter makes the difference (ONEDNN_VERBOSE=dispatch says why "
      "others were refused), another size, type or memory format; or take a newer build of oneDNN.";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
