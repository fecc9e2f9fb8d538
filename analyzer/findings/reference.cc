// Rule reference-implementation: oneDNN computes with its reference implementation, loops that are written to be right,
// as it has no other for this shape, type or format, or none with the instructions that it may use; or it computes a grouped
// convolution, of which each group is small, as a product for each group.
//
// The gain: at most the time; how much faster another one would be is not known.

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

// A convolution of several groups ("g32mb2_ic32oc32…") by products: "gemm:jit", "x64:gemm:jit".
bool IsByProducts(const WorkItem& item) {
  if (!item.IsHostCompute() || !IsKind(*item.op, OpKind::kConvolution) || item.op->onednn() == nullptr) return false;
  const std::vector<absl::string_view> words = absl::StrSplit(item.op->implementation, absl::ByAnyChar(":_+"));
  const bool has_groups = absl::StartsWith(item.op->problem, "g") && !absl::StartsWith(item.op->problem, "g1mb");
  return has_groups && std::find(words.begin(), words.end(), "gemm") != words.end() && !IsReference(item);
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
  const bool is_reference = IsReference(longest);
  finding.sentence = absl::StrCat(
      is_reference
          ? absl::StrCat("oneDNN computes ", op.kind, " with its reference implementation (")
          : absl::StrCat("oneDNN has no kernel for this grouped ", op.kind,
                         " (depthwise, if there are as many groups as channels), and computes a small product for each "
                         "group ("),
      op.implementation, "): ", facts.PartOfStep(finding.gain_ns), ".");
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence = absl::StrCat("table algorithms, column implementation; ", op.problem, ", ", op.types);
  finding.advice = is_reference
                       ? "It has no faster one for this: find which parameter makes the difference "
                         "(ONEDNN_VERBOSE=dispatch says why "
                         "others were refused), another size, type or memory format; or use a newer build of oneDNN."
                       : "Try a dense convolution (groups=1), which computes more but may be faster, two dimensions "
                         "instead of three, or "
                         "channels_last; ONEDNN_VERBOSE=dispatch says why other kernels were refused.";
  return finding;
}

}  // namespace

// One for each primitive and implementation.
std::vector<Finding> FindReferenceImplementations(const StepFacts& facts) {
  std::vector<Finding> findings;
  std::set<std::pair<std::string, std::string>> seen;
  for (const WorkItem& item : facts.items()) {  // the longest first
    if ((!IsReference(item) && !IsByProducts(item)) || IsLimited(facts) ||
        !seen.emplace(item.op->kind, item.op->implementation).second)
      continue;
    const auto is_of_kind = [&](const WorkItem& other) {
      return IsReference(other) == IsReference(item) && IsByProducts(other) == IsByProducts(item) &&
             other.op->kind == item.op->kind && other.op->implementation == item.op->implementation;
    };
    if (facts.IsAtLeast(facts.Sum(is_of_kind), kReferencePercent))
      findings.push_back(FindingOf(facts, item, is_of_kind));
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
