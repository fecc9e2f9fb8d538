// Rule heavy-operations: PyTorch's operations that are known to have a cheaper form for what they are mostly used for (on the
// CPU): a singular value decomposition for a norm, a sort for the largest values, a one-hot matrix for rows of a table; and those
// that only copy.
//
// Which values the program needs of them is its author's to say: the gain is at most their time. Of an FFT the length decides,
// which is not recorded: information.

#include "analyzer/calls/op_labels.h"
#include "analyzer/findings/rules.h"
#include "analyzer/model/onednn_text.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kHeavyPercent = 10;
constexpr double kHeavyFftPercent = 30;
constexpr double kHeavyMovePercent = 25;
constexpr double kLongFilter = 256;      // elements of a kernel
constexpr double kFewerOperations = 16;  // times: those of a transform take longer each

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
       .advice = "For a spectral norm, or the largest singular values, products do: power iteration "
                 "(torch.nn.utils.parametrizations.spectral_norm), torch.svd_lowrank; torch.linalg.solve(A, b) in "
                 "place of inv(A) @ b; or not in each step."},
      {.ops = {"linalg_cholesky_ex", "cholesky", "_linalg_solve_ex", "linalg_solve", "linalg_lu_factor_ex",
               "_linalg_det", "_linalg_slogdet"},
       .what = "A whole matrix is factored, or a system solved",
       .advice =
           "If the matrix stays the same (a covariance, a graph): factor it once, before the loop "
           "(torch.linalg.cholesky, lu_factor), and use the factors (cholesky_solve, lu_solve; MultivariateNormal "
           "with scale_tril=, made once)."},
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
      {.ops = {"multinomial"},
       .what = "Rows are drawn by their probabilities",
       .advice = "Where these stay the same, and for negatives: torch.searchsorted(sums, torch.rand(n)) with their "
                 "cumulative sums made once; with replacement=True it makes no number for each probability."},
      {.ops = {"randperm"},
       .what = "A permutation of all rows is made",
       .advice = "Where few are needed: torch.randint(n, (k,)); else one permutation for many steps, a part for each.",
       .is_called_itself = true},
      {.ops = {"isnan", "isinf", "isfinite"},
       .what = "Tensors are searched for NaN or infinity",
       .advice = "Only to find an error, or the loss alone in each n-th step."},
      {.ops = {"scatter_add_", "scatter_add", "scatter_reduce_", "scatter_reduce", "gather"},
       .what = "Elements are taken or added one by one, each by an index of its own",
       .advice = "If all elements of a row have the same index (index.unsqueeze(1).expand(...)): x.index_add_(0, "
                 "index, rows) and x.index_select(0, index) take whole rows, and need no expanded index.",
       .counts_in_backward = true,
       .is_called_itself = true},
      {.ops = {"coalesce", "_coalesce"},
       .what = "Indices of sparse tensors are sorted and joined (coalesce)",
       .advice = "Once, before the loop, if the indices stay (a graph's edges): keep the coalesced tensor, or its CSR "
                 "form (to_sparse_csr())."},
      {.ops = {"im2col", "col2im"},
       .what = "Windows of images are copied side by side (unfold, fold)",
       .advice = "Where a product follows, it is a convolution: torch.nn.functional.conv2d copies no windows (with "
                 "groups= for several images of weights).",
       .counts_in_backward = true},
      {.ops = {"kl_div", "xlogy"},
       .what = "A divergence from a whole distribution is computed",
       .advice = "Of a smoothed class (label smoothing): F.cross_entropy(z, ids, label_smoothing=0.1) makes no "
                 "distribution. Of another network's: kl_div(..., log_target=True) takes its logarithms as they are."},
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
       .advice = "Where they are only read, expand() gives the same values without copying, and operations broadcast "
                 "by themselves."},
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
       .advice = "If a history grows by a row (keys and values of a cache): allocate it once for the most rows, write "
                 "into it (cache[:, n] = row, index_copy_) and use the slice cache[:, :n + 1]. Parts that are made "
                 "here can be written into one tensor at once (out=).",
       .least_percent = kHeavyMovePercent,
       .in_inference_only = true,
       .is_called_itself = true},
      {.ops = {"index_select", "take", "index"},
       .what = "Rows are copied by their indices",
       .advice =
           "If most stay where they are (a cache of beams whose order did not change): move only those that do, "
           "in place. A slice of rows side by side copies nothing, x.index_select(d, ids) takes less than x[:, ids].",
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

// Convolutions with so large kernels that a Fourier transform of their input needs far fewer operations: 5/2 N log2 N for each
// real transform of N elements (of each image, kernel and result), 4 N for a product of two.
std::vector<Finding> LongFilters(const StepFacts& facts) {
  const auto ratio_of = [](const WorkItem& item) {
    const std::string* const problem = item.IsHostCompute() ? item.op->onednn_problem() : nullptr;
    if (problem == nullptr || !IsKind(*item.op, OpKind::kConvolution) || !item.op->flops) return 0.0;
    const auto numbers = ParseProblemNumbers(*problem);
    if (!numbers) return 0.0;
    const auto of = [&](const char* name) {
      const auto found = numbers->find(name);
      return found == numbers->end() ? 1.0 : static_cast<double>(found->second);
    };
    if (of("kd") * of("kh") * of("kw") < kLongFilter) return 0.0;
    const double n = std::exp2(
        std::ceil(std::log2((of("id") + of("kd") - 1) * (of("ih") + of("kh") - 1) * (of("iw") + of("kw") - 1))));
    const double images = of("mb") * (of("ic") + of("oc")) + of("ic") * of("oc") / of("g");
    const double products = of("mb") * of("ic") * of("oc") / of("g");
    return static_cast<double>(*item.op->flops) / (2.5 * n * std::log2(n) * images + 4 * n * products);
  };
  const auto is_in = [&](const WorkItem& item) { return ratio_of(item) >= kFewerOperations; };
  const double ns = facts.Sum(is_in);
  if (!facts.IsAtLeast(ns, kHeavyPercent)) return {};
  const WorkItem& longest = *absl::c_find_if(facts.items(), is_in);
  return {{.where = facts.LayersOf(is_in),
           .line = facts.LineOfLongest(is_in),
           .sentence = absl::StrFormat("A convolution has so large a kernel (%s) that Fourier transforms would need "
                                       "%.0f times fewer operations: %s.",
                                       ProblemLabel(*longest.op), ratio_of(longest), facts.PartOfStep(ns)),
           .gain_ns = ns,
           .evidence = "table convolutions: problem and FLOPs; 5/2 N log2 N for each transform of N elements",
           .advice = "torch.fft: irfft(rfft(x, n) * rfft(kernel, n), n), with n at least the sizes of both together "
                     "(torchaudio.functional.fftconvolve, scipy.signal.oaconvolve).",
           .changes_numerics = true}};
}

// From 1; 0: none.
int KindOf(const std::string& op) {
  const std::vector<Heavy>& all = HeavyOperations();
  for (size_t i = 0; i < all.size(); ++i) {
    if (absl::c_linear_search(all[i].ops, op)) return static_cast<int>(i + 1);
  }
  return 0;
}

// Of programs that XLA compiled, and TensorFlow's kernels.
struct GraphHeavy {
  std::vector<absl::string_view> ops;
  const char* what;
  const char* advice;
};

const std::vector<GraphHeavy>& GraphHeavyOperations() {
  static const auto& kHeavy = *new std::vector<GraphHeavy>{
      {{"copy"},
       "Whole arrays are copied",
       "Why is not recorded. A change of a part (x.at[i].set(), dynamic_update_slice) copies the whole, but inside of "
       "jax.jit where x is made there or given up: jax.jit(f, donate_argnums=...) around the function that does so, "
       "x = f(x, ...). Else XLA itself brings an array into another layout, or keeps what a loop overwrites."},
      {{"sort"},
       "Whole arrays are sorted",
       "jax.lax.top_k where only the largest are needed, jnp.max for one; XLA's sort is slow on CPUs, and np.sort "
       "outside of jit is often faster."},
      {{"debug_callback", "pure_callback", "io_callback"},
       "Compiled code calls Python",
       "jax.debug.print and callbacks stop the compiled program each time: return the values (the second result of a "
       "scan's body) and look at them behind it, or call it in each n-th iteration (jax.lax.cond)."},
      {{"PyFunc", "EagerPyFunc", "PyFuncStateless"},
       "TensorFlow calls Python (tf.py_function, numpy_function, a generator, Keras's PyDataset)",
       "TensorFlow's own operations, or arrays that were prepared before; of a PyDataset whole batches at once, "
       "workers=N with use_multiprocessing=True."},
      {{"UnsortedSegmentSum"},
       "A sparse gradient (IndexedSlices of a table) is made as large as the table",
       "An optimizer takes it as it is, and updates the rows of the batch alone: no tf.convert_to_tensor, "
       "tf.clip_by_value or arithmetic on it (tf.clip_by_norm takes it; else on its .values)."},
      {{"OneHot"},
       "A one-hot matrix is made",
       "In place of a product with it tf.gather(table, ids), or an Embedding layer; sparse_categorical_crossentropy "
       "takes the ids themselves."},
      {{"WriteHistogramSummary", "WriteImageSummary", "WriteScalarSummary", "WriteSummary", "SaveV2"},
       "Summaries or checkpoints are written",
       "Each 100th step or each epoch is enough for curves: if step % 100 == 0, TensorBoard(update_freq=\"epoch\")."},
      {{"Svd", "SelfAdjointEigV2", "MatrixInverse", "Qr", "MatrixSquareRoot", "MatrixLogarithm"},
       "A whole matrix is decomposed or inverted",
       "tf.linalg.solve(A, b) in place of inv(A) @ b; cholesky_solve where A stays; or not in each step."}};
  return kHeavy;
}

std::vector<Finding> InGraphs(const StepFacts& facts) {
  std::vector<Finding> findings;
  for (const GraphHeavy& heavy : GraphHeavyOperations()) {
    const auto is_in = [&](const WorkItem& item) {
      if (item.scope == nullptr || item.doing.activity == ActivityKind::kDataLoading) return false;
      absl::string_view name = facts.model().names[static_cast<size_t>(item.scope - facts.scope_names().data())];
      if (absl::StrContains(name, "::")) return false;  // PyTorch's
      name.remove_prefix(name.rfind(':') + 1);          // "path/one_hot:OneHot", "EagerLocalExecute: OneHot"
      return absl::c_linear_search(heavy.ops, absl::StripPrefix(name, " "));
    };
    const double ns = facts.Sum(is_in);
    if (!facts.IsAtLeast(ns, kHeavyPercent)) continue;
    findings.push_back(
        {.where = facts.LayersOf(is_in),
         .line = facts.LineOfLongest(is_in),
         .sentence = absl::StrCat(heavy.what, facts.HasSteps() ? absl::StrCat(" in each ", facts.StepNoun()) : "", ": ",
                                  facts.PartOfStep(ns), "."),
         .gain_ns = ns,
         .evidence = "table work: this operation of the compiled program",
         .advice = heavy.advice});
  }
  return findings;
}

}  // namespace

std::vector<Finding> FindHeavyOperations(const StepFacts& facts) {
  if (facts.HasGpuTimes()) return {};
  std::vector<Finding> findings = InGraphs(facts);
  if (!facts.HasSteps() || !facts.UsesTorch()) return findings;
  Append(LongFilters(facts), findings);
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
    const auto longest = MostOf(found.by_op);
    const double gain_ns = std::min(found.ns, facts.step_ns());
    findings.push_back({.line = found.Line(facts),
                        .sentence = absl::StrFormat("%s in each %s (aten::%s): %s.", heavy.what, facts.StepNoun(),
                                                    longest->first, facts.PartOfStep(gain_ns)),
                        .gain_ns = gain_ns,
                        .evidence = "table work: this operation, and what runs inside of it",
                        .advice = heavy.advice,
                        .is_information = heavy.is_information});
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
