// Passes through a network: see network_pass.h. Reads the calls of a track in order of time.
//
// Backward work is known by its direction if the library reports it. A matrix product is backward work if its sizes are
// those of a gradient of an earlier product and it reads one of that product's operands; without addresses, once the
// backward pass has begun, by the sizes alone, starting at the last layer. Forward work after backward work begins a
// new pass, unless it repeats layers whose gradients are still missing and these follow immediately: recomputed
// activations.
#include "analyzer/layers/structure/network_pass.h"

#include "analyzer/model/limits.h"

namespace dlhook::analyzer::inline structure {
namespace {

// Consecutive products on parts of wider matrices: this many are the heads of an attention.
constexpr size_t kMinHeadProducts = 4;
// How far to look ahead for the weight gradient that proves that the backward pass has begun.
constexpr size_t kLookAhead = 3;

// One unit of work: a call, or the products of all heads of an attention.
struct Unit {
  absl::Span<const CallIndex> calls;
  const OpFacts* facts = nullptr;
  OpIndex op = 0;
  Operands operands;
  bool is_attention = false;
};

// Of a product: which operand's gradient another one is.
enum class GradientOf : uint8_t { kNone, kA, kB };

bool Reads(const Operands& operands, const Addresses& addresses) {
  return addresses.contains(operands.a) || addresses.contains(operands.b);
}

// Whether it comes right after one of the blocks seen so far.
bool FollowsOn(const Addresses& addresses, int64_t bytes, uint64_t address) {
  return bytes > 0 && address > static_cast<uint64_t>(bytes) &&
         addresses.contains(address - static_cast<uint64_t>(bytes));
}

// By sizes and addresses: the gradient reads the other operand of the forward product. kNone: no proof.
GradientOf GradientByOperands(const OpenForward& forward, const ProductShape& gradient, const Operands& operands) {
  const ProductShape& shape = forward.facts->product;
  if (MayBeGradientOfA(shape, gradient) && Reads(operands, forward.b)) return GradientOf::kA;
  if (MayBeGradientOfB(shape, gradient) && Reads(operands, forward.a)) return GradientOf::kB;
  return GradientOf::kNone;
}

// By sizes alone, for a layer that lacks it. For an op that reports its direction, only that one.
GradientOf GradientByShapes(const OpenForward& forward, const OpFacts& gradient) {
  const ProductShape& shape = gradient.product;
  const bool of_a = MayBeGradientOfA(forward.facts->product, shape) && forward.gradients_of_a == 0 &&
                    gradient.direction != Direction::kBackwardWeights;
  const bool of_b = MayBeGradientOfB(forward.facts->product, shape) && forward.gradients_of_b == 0 &&
                    gradient.direction != Direction::kBackwardData;
  // If both fit: the weight gradient sums over the samples, so its left operand is transposed.
  if (of_b && (!of_a || shape.a_is_transposed)) return GradientOf::kB;
  return of_a ? GradientOf::kA : GradientOf::kNone;
}

// The operand of the gradient that the forward product does not have: the gradient of its result.
uint64_t OutputGradient(const OpenForward& forward, GradientOf of, const Operands& operands) {
  const Addresses& shared = of == GradientOf::kA ? forward.b : forward.a;
  return shared.contains(operands.a) ? operands.b : operands.a;
}

// Whether the product continues the forward work `last`, which came right before: the next image or group of an im2col
// convolution, the next step of a recurrence. Notes on which side the weights are.
bool ContinuesForward(const ProductShape& product, const Operands& operands, OpenForward& last) {
  if (operands.a == 0 || operands.b == 0 || product.batch > 1) return false;
  const bool a_same = last.a.contains(operands.a), b_same = last.b.contains(operands.b);
  const bool b_next = FollowsOn(last.b, product.b_bytes, operands.b) && !product.b_is_transposed;
  const bool is_next_result = FollowsOn(last.c, product.c_bytes, operands.c);
  const bool is_next_image = a_same && (b_same || b_next) && is_next_result;
  const bool is_next_group = FollowsOn(last.a, product.a_bytes, operands.a) && b_next && is_next_result;
  if (is_next_image || is_next_group) last.weights_are_a = true;
  return is_next_image || is_next_group || (b_same && !a_same && !last.weights_are_a);
}

void AddAddress(uint64_t address, Addresses& addresses) {
  if (address != 0) addresses.insert(address);
}

void AddOperands(const Operands& operands, OpenForward& forward) {
  if (forward.b.empty()) forward.first_b = operands.b;
  AddAddress(operands.a, forward.a);
  AddAddress(operands.b, forward.b);
  AddAddress(operands.c, forward.c);
}

// How well a layer explains a gradient, best first.
enum class Fit : uint8_t { kKnownOutput, kBegun, kOpen, kRepeated, kNone };

class PassReader {
 public:
  PassReader(const TraceModel& model, const std::vector<OpFacts>& facts, absl::Span<const CallIndex> calls)
      : model_(model), facts_(facts), calls_(calls) {}

  std::vector<Pass> Read(const std::vector<size_t>& cuts) {
    size_t cut = 0;
    for (size_t i = 0; i < calls_.size();) {
      while (cut < cuts.size() && cuts[cut] < i) ++cut;
      if (cut < cuts.size() && cuts[cut] == i && !in_backward_) FinishPass();
      const Unit unit = UnitAt(i);
      i += unit.calls.size();
      Take(unit, i);
    }
    if (!tentative_.empty()) BeginPass();
    FinishPass();
    return std::move(passes_);
  }

 private:
  Unit UnitAt(size_t begin) {
    Unit unit;
    unit.op = model_.calls.op[calls_[begin]];
    unit.facts = &facts_[unit.op];
    unit.operands = OperandsOfCall(model_, facts_, calls_[begin]);
    std::set<OpIndex> ops;
    size_t end = begin;
    for (; end < calls_.size() && begin >= no_heads_until_; ++end) {
      const OpIndex op = model_.calls.op[calls_[end]];
      if (facts_[op].work != Work::kProduct || !facts_[op].product.is_slice) break;
      ops.insert(op);
    }
    unit.is_attention = end - begin >= kMinHeadProducts && ops.size() > 1;
    if (!unit.is_attention) no_heads_until_ = std::max(no_heads_until_, end);
    unit.calls = calls_.subspan(begin, unit.is_attention ? end - begin : 1);
    return unit;
  }

  void Take(const Unit& unit, size_t next) {
    const OpFacts& facts = *unit.facts;
    if (unit.is_attention) return TakeAttention(unit);
    if (facts.work == Work::kBias) return TakeBias(unit);
    if (facts.work == Work::kProduct) return TakeProduct(unit, next);
    if (IsBackward(facts.direction)) return TakeBackward(unit);
    if (facts.direction == Direction::kUnknown && in_backward_) {
      pass_.unpaired.push_back(unit.calls[0]);
      return;
    }
    TakeForward(unit);
  }

  void TakeBackward(const Unit& unit) {
    const OpFacts& facts = *unit.facts;
    ConfirmRecompute();
    in_backward_ = pass_.has_backward = true;
    if (facts.is_product) {
      if (!AddGradient(unit, Evidence::kShapes)) pass_.unpaired.push_back(unit.calls[0]);
      return;
    }
    backward_.push_back({unit.calls[0], &facts, facts.direction, unit.operands});
    auto& [data, weights] = backward_counts_[facts.key];
    ++(facts.direction == Direction::kBackwardWeights ? weights : data);
  }

  void TakeAttention(const Unit& unit) {
    const auto open = std::find_if(forwards_.rbegin(), forwards_.rend(), [&](const OpenForward& forward) {
      return forward.is_attention && !forward.has_backward_data;
    });
    const bool is_backward = in_backward_ && open != forwards_.rend() && !Repeats(unit, *open);
    if (!is_backward) return TakeForward(unit);
    ConfirmRecompute();
    open->has_backward_data = true;
    open->evidence = std::max(open->evidence, Evidence::kOrder);
    AddTo(*open, unit, LayerDirection::kBackward);
  }

  void TakeProduct(const Unit& unit, size_t next) {
    const ProductShape& shape = unit.facts->product;
    if (!in_backward_ && !forwards_.empty()) {
      OpenForward& last = forwards_.back();
      const bool is_same_op = last.facts->is_product && last.first_op == unit.op;
      if (is_same_op && ContinuesForward(shape, unit.operands, last))
        return AddTo(last, unit, LayerDirection::kForward);
    }
    if (IsGradientOfTentative(unit)) ConfirmRecompute();
    if (AddGradient(unit, Evidence::kPointers)) return;
    if (shape.m == 1 || shape.n == 1 || shape.k == 1) {
      const size_t before = open_biases_.size();
      TakeBias(unit);
      if (open_biases_.size() == before || in_backward_) return;
      open_biases_.pop_back();  // it was a layer's product for a single sample
    }
    if (in_backward_ && MayBeRecomputed(unit)) return TakeForward(unit);
    if ((in_backward_ || BeginsBackward(unit, next)) && AddGradient(unit, Evidence::kShapes)) return;
    TakeForward(unit);
  }

  void TakeForward(const Unit& unit) {
    if (in_backward_ && tentative_.size() < kMaxPassLayers && MayBeRecomputed(unit)) {
      tentative_.push_back(unit);
      return;
    }
    if (in_backward_) BeginPass();
    AddForward(unit);
  }

  // Adds a bias to the result of a layer, or sums the gradient of one.
  void TakeBias(const Unit& unit) {
    const CallIndex call = unit.calls[0];
    for (auto it = forwards_.rbegin(); it != forwards_.rend(); ++it) {
      const bool reads_gradient =
          it->output_gradients.contains(unit.operands.a) || it->output_gradients.contains(unit.operands.b);
      if (reads_gradient) return AddTo(*it, unit, LayerDirection::kBackwardBias);
      const bool adds = !in_backward_ && unit.facts->direction != Direction::kBackwardBias;
      if (adds && it->c.contains(unit.operands.c)) {
        it->calls.emplace_back(call, LayerDirection::kForward);
        return;
      }
    }
    // For gradients, the operand that is not the vector of ones: the larger one.
    const ProductShape& shape = unit.facts->product;
    const bool reads_b = unit.facts->is_product && shape.b_bytes > shape.a_bytes;
    open_biases_.emplace_back(call, reads_b ? unit.operands.b : unit.operands.a);
    if (open_biases_.size() < 2 * kMaxPassLayers) return;
    for (size_t i = 0; i < kMaxPassLayers; ++i) pass_.unpaired.push_back(open_biases_[i].first);
    open_biases_.erase(open_biases_.begin(), open_biases_.begin() + kMaxPassLayers);
  }

  // Sizes show whose gradient it may be, `evidence` says what must prove it. For ops that report their direction, only
  // that direction.
  bool AddGradient(const Unit& unit, Evidence evidence) {
    const bool says_direction = unit.facts->direction != Direction::kUnknown;
    if (!says_direction && forward_ops_.count(unit.op) > 0) return false;
    GradientOf of = GradientOf::kNone;
    OpenForward* owner = GradientOwner(unit, evidence, &of);
    if (owner == nullptr) return false;
    if (evidence == Evidence::kShapes) {
      const auto fits = [&](const OpenForward& forward) {
        return forward.facts->is_product && HasSameSizes(forward.facts->product, owner->facts->product);
      };
      if (absl::c_count_if(forwards_, fits) > 1) evidence = Evidence::kOrder;
    }
    SetGradient(unit, of, evidence, *owner);
    return true;
  }

  // Among layers that fit equally well, the last one.
  OpenForward* GradientOwner(const Unit& unit, Evidence evidence, GradientOf* of) {
    OpenForward* found = nullptr;
    Fit best = Fit::kNone;
    for (auto it = forwards_.rbegin(); it != forwards_.rend(); ++it) {
      if (!it->facts->is_product || it->is_attention) continue;
      const GradientOf fits = evidence == Evidence::kShapes
                                  ? GradientByShapes(*it, *unit.facts)
                                  : GradientByOperands(*it, unit.facts->product, unit.operands);
      if (fits == GradientOf::kNone) continue;
      const int calls = fits == GradientOf::kA ? it->gradients_of_a : it->gradients_of_b;
      const bool is_known = it->output_gradients.contains(OutputGradient(*it, fits, unit.operands));
      const bool is_open = calls < it->forward_calls;
      const Fit fit = !is_open ? Fit::kRepeated : is_known ? Fit::kKnownOutput : calls > 0 ? Fit::kBegun : Fit::kOpen;
      if (fit >= best || (fit == Fit::kRepeated && evidence == Evidence::kShapes)) continue;
      best = fit;
      found = &*it;
      *of = fits;
    }
    return found;
  }

  void SetGradient(const Unit& unit, GradientOf of, Evidence evidence, OpenForward& forward) {
    const bool of_weights = (of == GradientOf::kA) == forward.weights_are_a;
    ++(of == GradientOf::kA ? forward.gradients_of_a : forward.gradients_of_b);
    forward.evidence = std::max(forward.evidence, evidence);
    in_backward_ = pass_.has_backward = true;
    AddTo(forward, unit, of_weights ? LayerDirection::kBackwardWeights : LayerDirection::kBackwardData);
    NoteOutputGradient(OutputGradient(forward, of, unit.operands), forward);
  }

  // Without addresses: whether the weight gradient of the last layer, recognized by its transposed left operand, is here
  // or near.
  bool BeginsBackward(const Unit& unit, size_t next) const {
    if (forwards_.empty() || unit.operands.a != 0 || forward_ops_.count(unit.op) > 0) return false;
    const OpenForward& last = forwards_.back();
    if (!last.facts->is_product) return false;
    const ProductShape& forward = last.facts->product;
    const auto is_weights_gradient = [&](const OpFacts& facts) {
      return facts.work == Work::kProduct && facts.product.a_is_transposed && MayBeGradientOfB(forward, facts.product);
    };
    if (is_weights_gradient(*unit.facts)) return true;
    if (!MayBeGradientOfA(forward, unit.facts->product)) return false;
    for (size_t i = next; i < std::min(next + kLookAhead, calls_.size()); ++i) {
      if (is_weights_gradient(facts_[model_.calls.op[calls_[i]]])) return true;
    }
    return false;
  }

  bool IsGradientOfTentative(const Unit& unit) const {
    return absl::c_any_of(tentative_, [&](const Unit& again) {
      if (!again.facts->is_product || again.op == unit.op) return false;
      OpenForward forward;
      forward.facts = again.facts;
      AddOperands(again.operands, forward);
      return GradientByOperands(forward, unit.facts->product, unit.operands) != GradientOf::kNone;
    });
  }

  // Whether the layer's backward work is still missing.
  bool IsOpen(const OpenForward& forward) const {
    if (forward.facts->is_product) {
      return forward.gradients_of_a == 0 && forward.gradients_of_b == 0 && !forward.has_backward_data;
    }
    const auto counts = backward_counts_.find(forward.facts->key);
    const int closed = counts == backward_counts_.end() ? 0 : std::max(counts->second.first, counts->second.second);
    const size_t later = forward_counts_.at(forward.facts->key) - forward.same_key_before - 1;
    return later >= static_cast<size_t>(closed);
  }

  bool Repeats(const Unit& unit, const OpenForward& forward) const {
    if (unit.is_attention != forward.is_attention) return false;
    if (!unit.facts->is_product) return !forward.facts->is_product && forward.facts->key == unit.facts->key;
    if (unit.is_attention) {
      return absl::c_all_of(unit.calls, [&](CallIndex call) { return forward.ops.contains(model_.calls.op[call]); });
    }
    const bool same_weights = unit.operands.b == 0 || forward.b.empty() || forward.b.contains(unit.operands.b) ||
                              forward.a.contains(unit.operands.a);
    return forward.first_op == unit.op && same_weights;
  }

  bool MayBeRecomputed(const Unit& unit) const {
    return absl::c_any_of(forwards_,
                          [&](const OpenForward& forward) { return Repeats(unit, forward) && IsOpen(forward); });
  }

  // Whether the units repeat the layers from `begin` on, whose backward work is still missing.
  bool RepeatFrom(size_t begin, const std::vector<Unit>& units) const {
    if (begin + units.size() > forwards_.size()) return false;
    for (size_t i = 0; i < units.size(); ++i) {
      const OpenForward& forward = forwards_[begin + i];
      if (!IsOpen(forward) || !Repeats(units[i], forward)) return false;
    }
    return true;
  }

  // Recomputed layers follow each other as in the forward pass; if there are several such sequences, the last one.
  void ConfirmRecompute() {
    if (tentative_.empty()) return;
    std::vector<Unit> units = std::move(tentative_);
    tentative_.clear();
    std::vector<size_t> places;
    for (size_t begin = 0; begin < forwards_.size(); ++begin) {
      if (RepeatFrom(begin, units)) places.push_back(begin);
    }
    for (size_t i = 0; i < units.size(); ++i) {
      if (places.empty()) {
        pass_.unpaired.insert(pass_.unpaired.end(), units[i].calls.begin(), units[i].calls.end());
        continue;
      }
      AddTo(forwards_[places.back() + i], units[i], LayerDirection::kRecompute);
      for (size_t place : places) {
        OpenForward& forward = forwards_[place + i];
        forward.is_disputed = forward.is_disputed || places.size() > 1;
      }
    }
  }

  void AddForward(const Unit& unit) {
    if (forwards_.size() >= kMaxPassLayers) FinishPass();  // each unit of work examines all units before it
    OpenForward forward;
    forward.facts = unit.facts;
    forward.is_attention = unit.is_attention;
    forward.same_key_before = forward_counts_[unit.facts->key]++;
    forward.weights_are_a = unit.facts->product.weights_are_a;
    forwards_.push_back(std::move(forward));
    AddTo(forwards_.back(), unit, LayerDirection::kForward);
  }

  void AddTo(OpenForward& forward, const Unit& unit, LayerDirection direction) {
    for (CallIndex call : unit.calls) {
      forward.calls.emplace_back(call, direction);
      const OpIndex op = model_.calls.op[call];
      if (direction != LayerDirection::kForward) continue;
      if (forward.forward_calls++ == 0) forward.first_op = op;
      forward.ops.insert(op);
      forward_ops_.insert(op);
    }
    const bool is_forward = direction == LayerDirection::kForward || direction == LayerDirection::kRecompute;
    if (is_forward) AddOperands(unit.operands, forward);
  }

  void NoteOutputGradient(uint64_t address, OpenForward& forward) {
    if (address == 0) return;
    forward.output_gradients.insert(address);
    std::erase_if(open_biases_, [&](const std::pair<CallIndex, uint64_t>& bias) {
      if (bias.second != address) return false;
      forward.calls.emplace_back(bias.first, LayerDirection::kBackwardBias);
      return true;
    });
  }

  // What looked like recomputation was the beginning of a new pass.
  void BeginPass() {
    std::vector<Unit> units = std::move(tentative_);
    tentative_.clear();
    FinishPass();
    for (const Unit& unit : units) AddForward(unit);
  }

  void FinishPass() {
    PairBackward(backward_, forwards_, pass_.unpaired);
    for (OpenForward& forward : forwards_) {
      for (const uint64_t address : Addresses(forward.output_gradients)) NoteOutputGradient(address, forward);
    }
    for (const auto& [call, address] : open_biases_) pass_.unpaired.push_back(call);
    pass_.forwards.reserve(forwards_.size());
    for (OpenForward& forward : forwards_) {
      if (forward.weights_are_a) forward.parts = std::max<uint32_t>(static_cast<uint32_t>(forward.a.size()), 1);
      pass_.forwards.push_back(std::move(forward));
    }
    forwards_.clear();
    if (!pass_.forwards.empty() || !pass_.unpaired.empty()) passes_.push_back(std::move(pass_));
    pass_ = Pass();
    backward_.clear();
    backward_counts_.clear();
    forward_counts_.clear();
    forward_ops_.clear();
    open_biases_.clear();
    in_backward_ = false;
  }

  const TraceModel& model_;
  const std::vector<OpFacts>& facts_;
  absl::Span<const CallIndex> calls_;
  std::vector<Pass> passes_;
  Pass pass_;  // with all but:
  std::vector<OpenForward> forwards_;
  std::vector<BackwardCall> backward_;                          // for ops that report their direction
  std::map<std::string, std::pair<int, int>> backward_counts_;  // by key: backward-data and backward-weights
  std::map<std::string, size_t> forward_counts_;                // by key
  std::set<OpIndex> forward_ops_;
  std::vector<Unit> tentative_;  // forward work in the backward pass: recomputation, or a new pass
  std::vector<std::pair<CallIndex, uint64_t>> open_biases_;  // that read this address
  size_t no_heads_until_ = 0;                                // calls before this index are not attention heads
  bool in_backward_ = false;
};

}  // namespace

std::vector<Pass> ReadPasses(const TraceModel& model, const std::vector<OpFacts>& facts,
                             absl::Span<const CallIndex> calls, const std::vector<size_t>& cuts) {
  return PassReader(model, facts, calls).Read(cuts);
}

}  // namespace dlhook::analyzer::structure
