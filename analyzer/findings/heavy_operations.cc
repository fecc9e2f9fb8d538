// Rule heavy-operations: PyTorch's operations that are known to have a cheaper form for what they are mostly used for (on the
// CPU): a singular value decomposition for a norm, a sort for the largest values, a one-hot matrix for rows of a table.
//
// Which values the program needs of them is its author's to say: the gain is at most their time. Of an FFT the length decides,
// which is not recorded: information.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "analyzer/findings/named_operations.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kHeavyPercent = 10;

struct Heavy {
  std::vector<std::string> ops;
  const char* what;
  const char* advice;
  double percent = kHeavyPercent;
  bool is_information = false;
  bool counts_in_backward = false;
  bool in_inference_only = false;
};

const std::vector<Heavy>& HeavyOperations() {
  static const auto& kHeavy = *new std::vector<Heavy>{
      {{"_linalg_svd", "linalg_svd", "linalg_svdvals", "svd", "_linalg_eigh", "linalg_eigh", "linalg_eig",
        "linalg_eigvals", "linalg_inv_ex", "linalg_inv", "inverse", "linalg_pinv", "linalg_lstsq", "linalg_qr"},
       "A whole matrix is decomposed or inverted",
       "For a spectral norm, or the largest singular values, products do: power iteration "
       "(torch.nn.utils.parametrizations.spectral_norm), torch.svd_lowrank; torch.linalg.solve(A, b) in place of "
       "inv(A) @ b; or not in each step."},
      {{"sort", "argsort", "msort"},
       "Whole tensors are sorted",
       "torch.topk where only the largest are needed, max or argmax for one."},
      {{"_unique2", "unique_dim", "unique_consecutive"},
       "Distinct values are searched",
       "Once, before training, if they do not change; of small integers torch.bincount finds them without sorting."},
      {{"one_hot"},
       "A one-hot matrix is made",
       "In place of a product with it F.embedding(ids, weight), or weight[ids]; cross_entropy takes the ids "
       "themselves."},
      {{"_index_put_impl_", "index_put_", "index_put"},
       "Elements are written or added by indices",
       "If that is the gradient of table[ids]: F.embedding(ids, table) or table.index_select(0, ids) have a faster "
       "one; of "
       "x[mask] = value: masked_fill_ or torch.where.",
       kHeavyPercent,
       /*is_information=*/false,
       /*counts_in_backward=*/true},
      {{"histc", "histogram", "bincount", "quantile", "nanquantile", "median", "nanmedian", "kthvalue"},
       "Statistics of tensors are computed",
       "Compute them in each n-th step only, or of a part of the elements."},
      {{"repeat", "tile", "repeat_interleave"},
       "Copies of a tensor are made",
       "Where they are only read, expand() gives the same values without copying, and operations broadcast by "
       "themselves."},
      {{"bernoulli_", "native_dropout", "feature_dropout"},
       "Dropout runs in inference",
       "model.eval() before inference: its results are random without it.",
       kHeavyPercent,
       /*is_information=*/false,
       /*counts_in_backward=*/false,
       /*in_inference_only=*/true},
      {{"_fft_r2c", "_fft_c2r", "_fft_c2c"},
       "Fourier transforms are computed",
       "A length that is a product of 2, 3, 5 and 7 (scipy.fft.next_fast_len) is several times faster than a prime "
       "one.",
       30,
       /*is_information=*/true,
       /*counts_in_backward=*/true},
  };
  return kHeavy;
}

// From 1; 0: none.
int KindOf(const std::string& op) {
  const std::vector<Heavy>& all = HeavyOperations();
  for (size_t i = 0; i < all.size(); ++i) {
    if (std::find(all[i].ops.begin(), all[i].ops.end(), op) != all[i].ops.end()) return static_cast<int>(i + 1);
  }
  return 0;
}

}  // namespace

std::vector<Finding> FindHeavyOperations(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes() || !facts.UsesTorch()) return {};
  std::vector<Finding> findings;
  // What the backward pass needs is not the program's choice: embedding_dense_backward sorts.
  const auto refine = [&](int kind, ScopeIndex, ScopeIndex outermost) {
    const Heavy& heavy = HeavyOperations()[static_cast<size_t>(kind - 1)];
    return heavy.counts_in_backward || !IsInBackward(facts.model(), outermost) ? kind : 0;
  };
  for (const auto& [kind, found] : SumNamedOperations(facts, KindOf, refine)) {
    const Heavy& heavy = HeavyOperations()[static_cast<size_t>(kind - 1)];
    if (!facts.IsAtLeast(found.ns, heavy.percent)) continue;
    if (heavy.in_inference_only && facts.steps().kind != StepKind::kInference) continue;
    const auto longest = std::max_element(found.by_op.begin(), found.by_op.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    Finding& finding = findings.emplace_back();
    finding.line = found.Line(facts);
    finding.gain_ns = std::min(found.ns, facts.step_ns());
    finding.sentence = absl::StrFormat("%s in each %s (aten::%s): %s.", heavy.what, facts.StepNoun(), longest->first,
                                       facts.PartOfStep(finding.gain_ns));
    finding.basis = GainBasis::kUpperBound;
    finding.confidence = Confidence::kMedium;
    finding.evidence = "table work: this operation, and what runs inside of it";
    finding.advice = heavy.advice;
    finding.is_information = heavy.is_information;
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
