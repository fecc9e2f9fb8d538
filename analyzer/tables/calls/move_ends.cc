#include "analyzer/tables/calls/move_ends.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/layers/op_facts.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/steps/step_index.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr int kMaxDistance = 8;  // library calls to look at after the writer

struct Written {
  CallIndex writer = 0;
  uint64_t address = 0;
  bool is_read = false;
  int distance = 0;
};

bool Reads(absl::Span<const uint64_t> operands, uint64_t address) {
  return std::find(operands.begin(), operands.end() - 1, address) != operands.end() - 1;
}

enum class Use { kReads, kWrites };

// By oneDNN's names. Backward convolutions, and most primitives of old releases, name gradients like what they are
// gradients of: "src" is then a result. "data" and "diff" (old releases) are operand and result in one.
bool Does(Use use, const Op& op, const std::string& role) {
  if (role == "diff" || (role == "data" && !IsBackward(op.direction))) return true;
  bool is_result = absl::StartsWith(role, "dst");
  if (absl::StartsWith(role, "diff_")) {
    is_result = !absl::StartsWith(role, "diff_dst");
  } else if (op.direction == Direction::kBackwardWeights || op.direction == Direction::kBackwardBias) {
    is_result = absl::StartsWith(role, "wei") || absl::StartsWith(role, "bia");
  } else if (IsBackward(op.direction)) {
    is_result = absl::StartsWith(role, "src");
  }
  return is_result == (use == Use::kWrites);
}

bool IsSame(const Tensor& tensor, const Tensor& moved) {
  return tensor.defined && tensor.dims == moved.dims && tensor.format == moved.format && tensor.type == moved.type;
}

class Finder {
 public:
  Finder(const TraceModel& model, const std::vector<StepTrack>& tracks, const std::vector<bool>& is_move)
      : model_(model), steps_(model, tracks), is_move_(is_move) {}

  absl::flat_hash_map<CallIndex, MoveEnds> Find(absl::Span<const RoundTrip> trips) {
    FindNeighbours();
    for (const RoundTrip& trip : trips) {
      const MoveEnds ends = {trip.producer, trip.consumer};
      ends_[trip.away] = ends;
      ends_[trip.back] = ends;
    }
    FindByAddresses();
    FindAroundKernels();
    return std::move(ends_);
  }

 private:
  const Op& OpOf(CallIndex call) const { return model_.ops[model_.calls.op[call]]; }
  bool IsMove(CallIndex call) const { return is_move_[model_.calls.op[call]]; }

  void FindNeighbours() {
    ThreadIndex thread = kNone;
    uint32_t step = kNone;
    CallIndex before = kNone;
    std::vector<CallIndex> open;  // moves since `before`
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      const Op& op = OpOf(call);
      if (op.on_gpu || op.is_creation || op.is_trial) continue;
      const ThreadIndex now = model_.calls.thread[call];
      const uint32_t step_now = steps_.OfCall(call);
      if (now != thread || step_now != step) {
        before = kNone;
        open.clear();
      }
      thread = now;
      step = step_now;
      if (IsMove(call)) {
        if (before != kNone && Uses(before, Use::kWrites, call, "src")) ends_[call].written_by = before;
        open.push_back(call);
        continue;
      }
      for (CallIndex move : open) {
        if (Uses(call, Use::kReads, move, "dst")) ends_[move].read_by = call;
      }
      open.clear();
      before = call;
    }
  }

  // The call that wrote an address (the last operand) which a move reads, and the first one that reads what a move wrote.
  // Both are library calls of the same thread, with only few library calls between them and none that wrote the address
  // again: memory is soon reused for other tensors by kernels with unknown operands.
  void FindByAddresses() {
    std::vector<Written> recent;
    ThreadIndex thread = kNone;
    for (CallIndex call : model_.operands.call) {
      const absl::Span<const uint64_t> operands = model_.OperandsOf(call);
      if (!IsLibraryOp(OpOf(call)) || operands.empty()) continue;
      if (model_.calls.thread[call] != thread) recent.clear();
      thread = model_.calls.thread[call];
      std::erase_if(recent, [&](Written& written) {
        if (Reads(operands, written.address)) {
          if (IsMove(written.writer) && !written.is_read) ends_[written.writer].read_by = call;
          if (IsMove(call)) ends_[call].written_by = written.writer;
          written.is_read = true;
        }
        return operands.back() == written.address || ++written.distance >= kMaxDistance;
      });
      if (operands.back() != 0) recent.push_back({.writer = call, .address = operands.back()});
    }
  }

  void FindAroundKernels() {
    std::vector<std::pair<CallIndex, CallIndex>> inside;  // move, call around it
    absl::flat_hash_map<CallIndex, CallIndex> last;       // by call around moves: its last kernel that is none
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      if (!IsMove(call) || !OpOf(call).on_gpu) continue;
      const CallIndex around = EnclosingLibraryOp(model_, call);
      if (around == kNone || IsMove(around)) continue;
      inside.emplace_back(call, around);
      last[around] = 0;
    }
    if (inside.empty()) return;
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      if (IsMove(call) || !OpOf(call).launch()) continue;
      for (CallIndex at = EnclosingLibraryOp(model_, call); at != kNone; at = EnclosingLibraryOp(model_, at)) {
        if (const auto it = last.find(at); it != last.end()) it->second = call;
      }
    }
    for (const auto& [call, around] : inside) {
      (last[around] > call ? ends_[call].read_by : ends_[call].written_by) = around;
    }
  }

  // The call has a tensor like that in the role `moved_role` of the move, and uses it so.
  bool Uses(CallIndex call, Use use, CallIndex move, const char* moved_role) const {
    const Op& op = OpOf(call);
    for (const Tensor& moved : OpOf(move).tensors) {
      if (moved.role != moved_role || moved.dims.empty()) continue;
      return absl::c_any_of(op.tensors,
                            [&](const Tensor& tensor) { return IsSame(tensor, moved) && Does(use, op, tensor.role); });
    }
    return false;
  }

  const TraceModel& model_;
  StepIndex steps_;
  const std::vector<bool>& is_move_;
  absl::flat_hash_map<CallIndex, MoveEnds> ends_;
};

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
  return absl::c_any_of(op.tensors, [&](const Tensor& tensor) {
    return tensor.defined && tensor.dims == dims && tensor.format == format;
  });
}

// One is of the forward pass, the other of the backward pass.
bool DifferentPass(const Op& a, const Op& b) {
  return a.direction != Direction::kUnknown && b.direction != Direction::kUnknown &&
         (a.direction == Direction::kForward) != (b.direction == Direction::kForward);
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
  Matcher(const TraceModel& model, const std::vector<StepTrack>& tracks, MoveNumbers moves)
      : model_(model), calls_(model.calls), moves_(std::move(moves)), steps_(model, tracks) {
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
    const uint32_t step = steps_.OfCall(call);
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
  StepIndex steps_;
  std::vector<CallIndex> next_op_;
  ThreadIndex thread_ = kNone;
  uint32_t step_ = kNone;
  CallIndex last_op_ = kNone;
  std::map<std::string, CallIndex> last_weights_gradient_;
  std::map<int, std::vector<Pending>> pending_;
  std::vector<RoundTrip> found_;
};

}  // namespace

absl::flat_hash_map<CallIndex, MoveEnds> FindMoveEnds(const TraceModel& model, const std::vector<StepTrack>& tracks,
                                                      const std::vector<bool>& is_move,
                                                      absl::Span<const RoundTrip> trips) {
  return Finder(model, tracks, is_move).Find(trips);
}

std::vector<RoundTrip> FindRoundTrips(const TraceModel& model, const std::vector<StepTrack>& tracks) {
  MoveNumbers moves = NumberMoves(model.ops);
  const bool any = absl::c_any_of(moves.undoing, [](int number) { return number != MoveNumbers::kNoMove; });
  if (!any) return {};
  return Matcher(model, tracks, std::move(moves)).Run();
}

}  // namespace dlhook::analyzer::tables
