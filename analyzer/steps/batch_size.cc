// The batch size of a step: see batch_size.h.
#include "analyzer/steps/batch_size.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline steps {
namespace {

// "mb8_ic3oc16_ih32…"
int64_t OneDnnBatch(const Op& op) {
  const absl::string_view problem = op.onednn()->problem;
  const size_t begin = problem.find("mb");
  if (begin == absl::string_view::npos) return 0;
  const absl::string_view digits = problem.substr(begin + 2);
  int64_t batch = 0;
  return absl::SimpleAtoi(digits.substr(0, digits.find_first_not_of("0123456789")), &batch) ? batch : 0;
}

// The first dimension of a tensor that is not a parameter.
int64_t CudnnBatch(const Op& op) {
  for (const CudnnTensor& tensor : op.cudnn()->tensors) {
    if (tensor.role == TensorRole::kX && tensor.dims.size() >= 3) return tensor.dims[0];
  }
  return 0;
}

int64_t BatchOf(const Op& op) {
  if (op.is_creation || op.is_trial) return 0;
  if (op.onednn()) return OneDnnBatch(op);
  if (op.cudnn()) return CudnnBatch(op);
  return 0;
}

bool IsForward(const Attribution& attribution, CallIndex call, const Op& op) {
  if (call < attribution.of_call.size() && attribution.of_call[call].direction != LayerDirection::kUnknown) {
    return attribution.of_call[call].direction == LayerDirection::kForward;
  }
  return op.direction == Direction::kForward;
}

bool IsConvolution(const Attribution& attribution, CallIndex call) {
  const LayerIndex layer = call < attribution.of_call.size() ? attribution.of_call[call].layer : kNone;
  return layer != kNone && absl::StrContains(attribution.layers[layer].type, "convolution");
}

// What is known of one step while its calls are examined.
struct Guess {
  bool is_told = false;  // found, or known to be unknowable
  bool is_over = false;  // the backward pass has begun
  int products = 0;
  std::set<int64_t> common;
  std::set<int64_t> rows;  // of products inside framework ops
  bool all_have_rows = true;
};

class BatchFinder {
 public:
  BatchFinder(const TraceModel& model, const Attribution& attribution, StepTrack& track)
      : model_(model), attribution_(attribution), track_(track), guesses_(track.steps.size()) {
    for (const Op& op : model_.ops) batches_.push_back(BatchOf(op));
    for (size_t i = 0; i < guesses_.size(); ++i) guesses_[i].is_told = track.steps[i].batch > 0;
  }

  void Run() {
    const auto [begin, end] = model_.calls.RangeOf(track_.thread);
    for (CallIndex call = begin; call < end; ++call) {
      const bool is_own = model_.threads[model_.calls.thread[call]].process == track_.process;
      if (is_own && model_.calls.parent[call] == kNone) Take(call);
    }
    for (size_t i = 0; i < guesses_.size(); ++i) {
      const Guess& guess = guesses_[i];
      if (guess.is_told || guess.products == 0) continue;
      if (guess.all_have_rows && guess.rows.size() == 1) {
        track_.steps[i].batch = *guess.rows.begin();
      } else if (guess.products > 1 && guess.common.size() == 1) {
        track_.steps[i].batch = *guess.common.begin();
      }
    }
  }

 private:
  void Take(CallIndex call) {
    const int64_t start_ns = model_.calls.start_ns[call];
    const auto after = std::upper_bound(track_.steps.begin(), track_.steps.end(), start_ns,
                                        [](int64_t ns, const Step& step) { return ns < step.start_ns; });
    if (after == track_.steps.begin() || start_ns >= (after - 1)->end_ns) return;
    Guess& guess = guesses_[static_cast<size_t>(after - track_.steps.begin()) - 1];
    if (guess.is_told) return;
    const OpIndex op = model_.calls.op[call];
    if (batches_[op] > 0) {
      (after - 1)->batch = batches_[op];
      guess.is_told = true;
      return;
    }
    TakeProduct(call, model_.ops[op], guess);
  }

  // y[m,n] = x[m,k] w[k,n]: the batch is m or n, depending on how the library stores matrices.
  void TakeProduct(CallIndex call, const Op& op, Guess& guess) const {
    if (!op.gemm() || op.gemm()->batch > 1 || guess.is_over) return;
    if (!IsForward(attribution_, call, op)) {
      guess.is_over = guess.products > 0;
      return;
    }
    // A convolution computed as a product, image by image: its sides are channels and positions.
    if (IsConvolution(attribution_, call)) return;
    const std::set<int64_t> sides = {op.gemm()->m, op.gemm()->n};
    const ScopeIndex scope = model_.calls.ScopeOf(call);
    // PyTorch stores matrices by rows, and the library reads them by columns: a row of the result is a column of the
    // product.
    if (!op.gemm()->row_major && scope != kNone && model_.scopes.kind[scope] == ScopeKind::kFrameworkOp) {
      guess.rows.insert(op.gemm()->n);
    } else {
      guess.all_have_rows = false;
    }
    if (guess.products++ == 0) {
      guess.common = sides;
    } else {
      std::erase_if(guess.common, [&](int64_t side) { return !sides.contains(side); });
    }
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  StepTrack& track_;
  std::vector<Guess> guesses_;
  std::vector<int64_t> batches_;  // by op; 0: the op does not show it
};

}  // namespace

void SetBatchSizes(const TraceModel& model, const Attribution& attribution, StepTrack& track) {
  BatchFinder(model, attribution, track).Run();
}

}  // namespace dlhook::analyzer::steps
