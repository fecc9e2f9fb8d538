// The batch size of a step, inferred from the shapes of its calls: see step_items.h.
#include "analyzer/layers/op_facts.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/steps/step_items.h"

namespace dlhook::analyzer::inline steps {
namespace {

constexpr int64_t kMostSamples = int64_t{1} << 31;

// "mb8_ic3oc16_ih32…"
int64_t OneDnnBatch(const std::string& problem) {
  int64_t batch = 0;
  const auto [begin, end] = BatchDigits(problem);
  return begin > 0 && absl::SimpleAtoi(problem.substr(begin, end - begin), &batch) ? batch : 0;
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
  const int64_t batch = op.onednn_problem() ? OneDnnBatch(*op.onednn_problem()) : op.cudnn() ? CudnnBatch(op) : 0;
  return batch > 0 && batch <= kMostSamples ? batch : 0;  // of a damaged trace
}

bool IsForward(const Attribution& attribution, CallIndex call, const Op& op) {
  const LayerDirection direction = attribution.PlaceOfCall(call).direction;
  if (direction != LayerDirection::kUnknown) return direction == LayerDirection::kForward;
  return op.direction == Direction::kForward;
}

constexpr int64_t kLeastRepeats = 8;

// What is known of one step while its calls are examined.
struct Guess {
  BatchSpan* span = nullptr;
  bool is_over = false;     // the backward pass has begun
  bool tells_rows = true;   // all products are inside framework ops, …
  bool has_one_row = true;  // … and have equally many rows
  uint8_t in_common = 0;    // how many sides
  int products = 0;
  std::array<int64_t, 2> common = {};  // the sides that all products have
  int64_t rows = 0;
  // The first call that shows the batch or rows, and how often its layer makes it in the first forward pass.
  OpIndex first_op = kNone;
  LayerIndex first_layer = kNone;
  int64_t first_calls = 0;
};

class BatchFinder {
 public:
  BatchFinder(const TraceModel& model, const Attribution& attribution, const std::vector<BatchSpan*>& spans)
      : model_(model), attribution_(attribution) {
    for (const Op& op : model_.ops) batches_.push_back(BatchOf(op));
    has_modules_ = absl::c_any_of(attribution_.layers,
                                  [](const Layer& layer) { return !layer.module.empty() && layer.type != "loss"; });
    for (BatchSpan* const span : spans) guesses_.push_back({.span = span});
  }

  void Run(ProcessIndex process, ThreadIndex thread) {
    const auto [begin, end] = model_.calls.RangeOf(thread);
    for (CallIndex call = begin; call < end; ++call) {
      const bool is_own = model_.threads[model_.calls.thread[call]].process == process;
      if (is_own && model_.calls.parent[call] == kNone) Take(call);
    }
    for (const Guess& guess : guesses_) {
      BatchSpan& span = *guess.span;
      if (span.batch == 0 && guess.products > 0) {
        if (guess.tells_rows) {
          span.batch = guess.has_one_row ? guess.rows : 0;  // tokens first, then samples
        } else if (guess.products > 1 && guess.in_common == 1) {
          span.batch = guess.common[0];
        }
        span.is_rows = span.batch > 0;
      }
      // So many samples, or passes over one.
      if (span.batch != 1 || guess.first_calls < kLeastRepeats) continue;
      span.batch = 0;
      span.is_rows = false;
    }
  }

 private:
  void Take(CallIndex call) {
    const int64_t start_ns = model_.calls.start_ns[call];
    if (begun_ > 0 && StartOf(guesses_[begun_ - 1]) > start_ns) begun_ = 0;  // another thread's calls
    if (begun_ == 0) {
      begun_ = static_cast<size_t>(std::ranges::upper_bound(guesses_, start_ns, {}, StartOf) - guesses_.begin());
    }
    while (begun_ < guesses_.size() && StartOf(guesses_[begun_]) <= start_ns) ++begun_;
    if (begun_ == 0 || start_ns >= guesses_[begun_ - 1].span->end_ns) return;
    Guess& guess = guesses_[begun_ - 1];
    const OpIndex op = model_.calls.op[call];
    CountRepeats(call, op, guess);
    if (guess.span->batch > 0) return;
    if (batches_[op] == 0) return TakeProduct(call, model_.ops[op], guess);
    guess.span->batch = batches_[op];
    guess.span->is_rows = IsKind(model_.ops[op], OpKind::kInnerProduct);
  }

  // A convolution computed as a product, image by image, has channels and positions as its sides; a parametrization's
  // product computes a weight; beside modules, a line of the program in none prepares their input (a spectrogram).
  bool HasNoBatch(CallIndex call) const {
    const LayerIndex index = attribution_.PlaceOfCall(call).layer;
    if (index == kNone) return false;
    const Layer& layer = attribution_.layers[index];
    const bool is_line = layer.module.empty() && !layer.line.empty() && absl::StartsWith(layer.name, layer.line);
    return absl::StrContains(layer.type, "convolution") || ComputesWeight(layer) || (has_modules_ && is_line);
  }

  static int64_t StartOf(const Guess& guess) { return guess.span->start_ns; }

  // A loop over samples, or over time, calls the first layer again and again.
  void CountRepeats(CallIndex call, OpIndex op, Guess& guess) const {
    const bool is_product = model_.ops[op].gemm() && !HasNoBatch(call);
    if (guess.is_over || (batches_[op] == 0 && !is_product)) return;
    if (!IsForward(attribution_, call, model_.ops[op])) {
      guess.is_over = guess.first_calls > 0;
      return;
    }
    const LayerIndex layer = attribution_.PlaceOfCall(call).layer;
    if (guess.first_calls == 0) {
      guess.first_op = op;
      guess.first_layer = layer;
    }
    guess.first_calls += op == guess.first_op && layer == guess.first_layer ? 1 : 0;
  }

  // y[m,n] = x[m,k] w[k,n]: the batch is m or n, depending on how the library stores matrices.
  void TakeProduct(CallIndex call, const Op& op, Guess& guess) const {
    if (!op.gemm() || op.gemm()->batch > 1 || guess.is_over) return;
    if (!IsForward(attribution_, call, op) || HasNoBatch(call)) return;
    const ScopeIndex scope = model_.calls.ScopeOf(call);
    // PyTorch stores matrices by rows, and the library reads them by columns: a row of the result is a column of the
    // product.
    if (!op.gemm()->row_major && scope != kNone && model_.scopes.look[scope].kind == ScopeKind::kFrameworkOp) {
      if (guess.products == 0) guess.rows = op.gemm()->n;
      guess.has_one_row &= guess.rows == op.gemm()->n;
    } else {
      guess.tells_rows = false;
    }
    KeepCommon(op.gemm()->m, op.gemm()->n, guess);
    ++guess.products;
  }

  static void KeepCommon(int64_t m, int64_t n, Guess& guess) {
    if (guess.products == 0) {
      guess.common = {m, n};
      guess.in_common = m == n ? 1 : 2;
      return;
    }
    const auto end = guess.common.begin() + guess.in_common;
    const auto kept = std::remove_if(guess.common.begin(), end, [&](int64_t side) { return side != m && side != n; });
    guess.in_common = static_cast<uint8_t>(kept - guess.common.begin());
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  std::vector<Guess> guesses_;
  std::vector<int64_t> batches_;  // by op; 0: the op does not show it
  bool has_modules_ = false;
  size_t begun_ = 0;  // spans before the call that was taken last
};

}  // namespace

void SetBatchSizes(const TraceModel& model, const Attribution& attribution, ProcessIndex process, ThreadIndex thread,
                   const std::vector<BatchSpan*>& spans) {
  BatchFinder(model, attribution, spans).Run(process, thread);
}

}  // namespace dlhook::analyzer::steps
