// Rule heavy-operations: PyTorch's operations that are known to have a cheaper form for what they are mostly used for (on the
// CPU): a singular value decomposition for a norm, a sort for the largest values, a one-hot matrix for rows of a table; and those
// that only copy.
//
// Which values the program needs of them is its author's to say: the gain is at most their time. Of an FFT the length decides,
// which is not recorded: information.

#include "absl/strings/str_format.h"
#include "analyzer/findings/named_operations.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kHeavyPercent = 10;
constexpr double kHeavyFftPercent = 30;
constexpr double kHeavyMovePercent = 25;

struct Heavy {
  std::vector<std::string> ops;
  const char* what;
  const char* advice;
  double least_percent = kHeavyPercent;  // of a step
  bool is_information = false;
  bool counts_in_backward = false;
  bool in_inference_only = false;
  bool is_called_itself = false;  // by the program's line, not by another operation or a loader
};

const std::vector<Heavy>& HeavyOperations() {
  static const auto& kHeavy = *new std::vector<Heavy>{
      {.ops = {"_linalg_svd", "linalg_svd", "linalg_svdvals", "svd", "_linalg_eigh", "linalg_eigh", "linalg_eig",
               "linalg_eigvals", "linalg_inv_ex", "linalg_inv", "inverse", "linalg_pinv", "linalg_lstsq", "linalg_qr"},
       .what = "A whole matrix is decomposed or inverted",
       .advice =
           "For a spectral norm, or the largest singular values, products do: power iteration "
           "(torch.nn.utils.parametrizations.spectral_norm), torch.svd_lowrank; torch.linalg.solve(A, b) in place "
           "of inv(A) @ b; or not in each step."},
      {.ops = {"sort", "argsort", "msort"},
       .what = "Whole tensors are sorted",
       .advice = "torch.topk where only the largest are needed (before top-p, too), max or argmax for one."},
      {.ops = {"_unique2", "unique_dim", "unique_consecutive"},
       .what = "Distinct values are searched",
       .advice = "Once, before training, if they do not change; of small integers torch.bincount finds them without "
                 "sorting."},
      {.ops = {"one_hot"},
       .what = "A one-hot matrix is made",
       .advice = "In place of a product with it F.embedding(ids, weight), or weight[ids]; cross_entropy takes the ids "
                 "themselves."},
      {.ops = {"_index_put_impl_", "index_put_", "index_put"},
       .what = "Elements are written or added by indices",
       .advice = "If that is the gradient of table[ids]: F.embedding(ids, table) or table.index_select(0, ids) have a "
                 "faster one; of x[mask] = value: masked_fill_ or torch.where.",
       .counts_in_backward = true},
      {.ops = {"embedding_renorm_"},
       .what = "Rows of an embedding are shortened one by one (max_norm)",
       .advice = "Without max_norm: shorten all rows of the batch at once (F.normalize, clamp of their norms), or the "
                 "weight in each n-th step (weight.renorm_)."},
      {.ops = {"histc", "histogram", "bincount", "quantile", "nanquantile", "median", "nanmedian", "kthvalue"},
       .what = "Statistics of tensors are computed",
       .advice = "If they are only watched: in each n-th step, or of a part of the elements."},
      {.ops = {"repeat", "tile", "repeat_interleave"},
       .what = "Copies of a tensor are made",
       .advice =
           "Where they are only read, expand() gives the same values without copying, and operations broadcast by "
           "themselves."},
      {.ops = {"bernoulli_", "native_dropout", "feature_dropout"},
       .what = "Dropout runs in inference",
       .advice = "model.eval() before inference, unless its results are to be random.",
       .in_inference_only = true},
      {.ops = {"_fft_r2c", "_fft_c2r", "_fft_c2c"},
       .what = "Fourier transforms are computed",
       .advice = "A length that is a product of 2, 3, 5 and 7 (scipy.fft.next_fast_len) is several times faster than a "
                 "prime one.",
       .least_percent = kHeavyFftPercent,
       .is_information = true,
       .counts_in_backward = true},
      {.ops = {"cat", "concat"},
       .what = "Tensors are copied to join them",
       .advice =
           "If a history grows by a row (keys and values of a cache): allocate it once for the most rows, write into "
           "it (cache[:, n] = row, index_copy_) and use the slice cache[:, :n + 1]. Parts that are made here can be "
           "written into one tensor at once (out=).",
       .least_percent = kHeavyMovePercent,
       .in_inference_only = true,
       .is_called_itself = true},
      {.ops = {"index_select", "gather", "take"},
       .what = "Rows are copied by their indices",
       .advice =
           "If most stay where they are (a cache of beams whose order did not change): move only those that do, in "
           "place. A slice of rows side by side copies nothing.",
       .least_percent = kHeavyMovePercent,
       .in_inference_only = true,
       .is_called_itself = true},
      {.ops = {"contiguous", "clone", "copy_"},
       .what = "Tensors are copied",
       .advice =
           "Once, if it does not change (weight.t().contiguous() before the loop); products and convolutions take "
           "transposed and strided operands as they are, and an operation's out= or in-place form needs no copy.",
       .least_percent = kHeavyMovePercent,
       .is_called_itself = true},
  };
  return kHeavy;
}

bool IsInInput(const TraceModel& model, ScopeIndex scope) {
  while (scope != kNone && model.RoleOf(scope) != ScopeRole::kInput) scope = model.scopes.parent[scope];
  return scope != kNone;
}

// From 1; 0: none.
int KindOf(const std::string& op) {
  const std::vector<Heavy>& all = HeavyOperations();
  for (size_t i = 0; i < all.size(); ++i) {
    if (absl::c_linear_search(all[i].ops, op)) return static_cast<int>(i + 1);
  }
  return 0;
}

}  // namespace

std::vector<Finding> FindHeavyOperations(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes() || !facts.UsesTorch()) return {};
  std::vector<Finding> findings;
  // What the backward pass needs is not the program's choice: embedding_dense_backward sorts.
  const auto refine = [&](int kind, ScopeIndex scope, ScopeIndex outermost) {
    const Heavy& heavy = HeavyOperations()[static_cast<size_t>(kind - 1)];
    if (heavy.is_called_itself && (scope != outermost || IsInInput(facts.model(), outermost))) return 0;
    return heavy.counts_in_backward || !IsInBackward(facts.model(), outermost) ? kind : 0;
  };
  for (const auto& [kind, found] : SumNamedOperations(facts, KindOf, refine)) {
    const Heavy& heavy = HeavyOperations()[static_cast<size_t>(kind - 1)];
    if (!facts.IsAtLeast(found.ns, heavy.least_percent)) continue;
    if (heavy.is_called_itself && !FindGrowingSteps(facts).empty()) continue;  // that is the cause
    if (heavy.in_inference_only && facts.steps().kind != StepKind::kInference) continue;
    const auto longest =
        absl::c_max_element(found.by_op, [](const auto& a, const auto& b) { return a.second < b.second; });
    Finding& finding = findings.emplace_back();
    finding.line = found.Line(facts);
    finding.gain_ns = std::min(found.ns, facts.step_ns());
    finding.sentence = absl::StrFormat("%s in each %s (aten::%s): %s.", heavy.what, facts.StepNoun(), longest->first,
                                       facts.PartOfStep(finding.gain_ns));
    finding.Estimate(GainBasis::kUpperBound);
    finding.evidence = "table work: this operation, and what runs inside of it";
    finding.advice = heavy.advice;
    finding.is_information = heavy.is_information;
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
