// Reorders that undo each other: see round_trips.h.
#include "analyzer/tables/calls/round_trips.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "analyzer/model/op_kind.h"
#include "analyzer/steps/step_clock.h"

namespace dlhook::analyzer::inline tables {
namespace {

// dims, format and type before, format and type after.
using Move = std::tuple<std::vector<int64_t>, std::string, std::string, std::string, std::string>;

bool IsReorder(const Op& op) { return IsKind(op, OpKind::kReorder) && !op.is_creation; }

const Tensor* TensorOf(const Op& op, const char* role) {
  for (const Tensor& tensor : op.tensors) {
    if (tensor.role == role && tensor.defined && !tensor.dims.empty()) return &tensor;
  }
  return nullptr;
}

bool HasTensor(const Op& op, const std::vector<int64_t>& dims, const std::string& format) {
  return std::any_of(op.tensors.begin(), op.tensors.end(), [&](const Tensor& tensor) {
    return tensor.defined && tensor.dims == dims && tensor.format == format;
  });
}

enum class Pass { kUnknown, kForward, kBackward };

Pass PassOf(Direction direction) {
  if (direction == Direction::kUnknown || direction == Direction::kUpdate) return Pass::kUnknown;
  return direction == Direction::kForward ? Pass::kForward : Pass::kBackward;
}

bool DifferentPass(const Op& a, const Op& b) {
  const Pass pass_a = PassOf(a.direction);
  const Pass pass_b = PassOf(b.direction);
  return pass_a != pass_b && pass_a != Pass::kUnknown && pass_b != Pass::kUnknown;
}

// The moves of the model's ops, numbered, with the number of the move that undoes each.
struct MoveNumbers {
  static constexpr int kNoMove = -1;
  std::vector<int> of_op;    // kNoMove: not a reorder, or nothing changes
  std::vector<int> undoing;  // per op: the number of the opposite move, kNoMove if there is none
};

MoveNumbers NumberMoves(const std::vector<Op>& ops) {
  std::map<Move, int> numbers;
  std::vector<Move> opposite(ops.size());
  MoveNumbers moves = {std::vector<int>(ops.size(), MoveNumbers::kNoMove),
                       std::vector<int>(ops.size(), MoveNumbers::kNoMove)};
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!IsReorder(ops[i])) continue;
    const Tensor* from = TensorOf(ops[i], "src");
    const Tensor* to = TensorOf(ops[i], "dst");
    if (!from || !to || from->format == to->format) continue;
    const Move move = {from->dims, from->format, from->type, to->format, to->type};
    opposite[i] = {from->dims, to->format, to->type, from->format, from->type};
    moves.of_op[i] = numbers.emplace(move, static_cast<int>(numbers.size())).first->second;
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    const auto it = numbers.find(opposite[i]);
    if (moves.of_op[i] != MoveNumbers::kNoMove && it != numbers.end()) moves.undoing[i] = it->second;
  }
  return moves;
}

// Goes through the calls once; its state belongs to one thread and one step.
class Matcher {
 public:
  Matcher(const TraceModel& model, MoveNumbers moves)
      : model_(model), calls_(model.calls), moves_(std::move(moves)), clock_(model) {
    FindNextOps();
  }

  std::vector<RoundTrip> Run() {
    for (CallIndex call = 0; call < calls_.size(); ++call) {
      ForgetAtBounds(call);
      const Op& op = OpOf(call);
      if (op.is_creation) continue;
      if (!IsReorder(op)) {
        last_op_ = call;
        if (op.direction == Direction::kBackwardWeights) last_weights_gradient_[op.problem] = call;
      } else if (moves_.undoing[calls_.op[call]] != MoveNumbers::kNoMove) {
        if (!Close(call)) Open(call);
      }
    }
    return std::move(found_);
  }

 private:
  struct Pending {
    CallIndex away = 0;
    CallIndex producer = 0;
  };

  const Op& OpOf(CallIndex call) const { return model_.ops[calls_.op[call]]; }

  // next_op_[i]: the first call after i on its thread that is not a reorder.
  void FindNextOps() {
    next_op_.resize(calls_.size(), kNone);
    for (size_t i = calls_.size(); i-- > 1;) {
      if (calls_.thread[i - 1] != calls_.thread[i]) continue;
      const Op& op = OpOf(static_cast<CallIndex>(i));
      const bool is_op = !IsReorder(op) && !op.is_creation;
      next_op_[i - 1] = is_op ? static_cast<CallIndex>(i) : next_op_[i];
    }
  }

  void ForgetAtBounds(CallIndex call) {
    const ThreadIndex thread = calls_.thread[call];
    const size_t step = clock_.At(thread, calls_.start_ns[call]);
    if (thread == thread_ && step == step_) return;
    if (thread != thread_) {
      last_op_ = kNone;
      last_weights_gradient_.clear();
    }
    thread_ = thread;
    step_ = step;
    pending_.clear();
  }

  // The call may be a first half if the op before it has the tensor.
  void Open(CallIndex call) {
    const Tensor* from = TensorOf(OpOf(call), "src");
    if (last_op_ == kNone || !HasTensor(OpOf(last_op_), from->dims, from->format)) return;
    pending_[moves_.of_op[calls_.op[call]]].push_back({call, last_op_});
  }

  // The call may be a second half if the op after it has the tensor and a first half is pending.
  bool Close(CallIndex call) {
    const auto it = pending_.find(moves_.undoing[calls_.op[call]]);
    const CallIndex consumer = next_op_[call];
    if (it == pending_.end() || it->second.empty() || consumer == kNone) return false;
    const Tensor* to = TensorOf(OpOf(call), "dst");
    if (!HasTensor(OpOf(consumer), to->dims, to->format)) return false;
    const Pending pending = it->second.back();
    if (DifferentPass(OpOf(pending.producer), OpOf(consumer))) {
      it->second.clear();
      return false;
    }
    if (IsOwnWeightsGradient(pending.producer, consumer)) return false;
    it->second.pop_back();
    found_.push_back({pending.away, call, pending.producer, consumer});
    return true;
  }

  bool IsOwnWeightsGradient(CallIndex producer, CallIndex consumer) const {
    const Op& op = OpOf(consumer);
    if (op.direction != Direction::kBackwardWeights) return false;
    if (OpOf(producer).direction != Direction::kBackwardData || OpOf(producer).problem != op.problem) return false;
    // A second such op since the producer belongs to another layer with the same shape.
    const auto it = last_weights_gradient_.find(op.problem);
    return it == last_weights_gradient_.end() || it->second < producer;
  }

  const TraceModel& model_;
  const CallColumns& calls_;
  const MoveNumbers moves_;
  const StepClock clock_;
  std::vector<CallIndex> next_op_;
  ThreadIndex thread_ = kNone;
  size_t step_ = 0;
  CallIndex last_op_ = kNone;
  std::map<std::string, CallIndex> last_weights_gradient_;
  std::map<int, std::vector<Pending>> pending_;
  std::vector<RoundTrip> found_;
};

}  // namespace

std::vector<RoundTrip> FindRoundTrips(const TraceModel& model) {
  MoveNumbers moves = NumberMoves(model.ops);
  const bool any = std::any_of(moves.undoing.begin(), moves.undoing.end(),
                               [](int number) { return number != MoveNumbers::kNoMove; });
  if (!any) return {};
  return Matcher(model, std::move(moves)).Run();
}

}  // namespace dlhook::analyzer::tables
