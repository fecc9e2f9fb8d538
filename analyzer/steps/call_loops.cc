#include <cstdlib>

#include "analyzer/steps/measured_steps.h"

namespace dlhook::analyzer::inline steps {
namespace {

// Products of one iteration of the loop: groups of a convolution, both gradients, the bias.
constexpr size_t kMaxBody = 12;
// Fewer tensors may be equally spaced by chance, such as queries, keys and values.
constexpr size_t kMinTurns = 4;
// The largest stride of an operand in multiples of its size: the next image, after other groups.
constexpr int64_t kMaxStride = 64;

using Moves = std::array<int64_t, 3>;  // of A, B and C, in bytes

class LoopFinder {
 public:
  LoopFinder(const TraceModel& model, const std::vector<OpFacts>& facts, absl::Span<const CallIndex> calls)
      : model_(model), facts_(facts), calls_(calls) {
    operands_.reserve(calls.size());
    for (CallIndex call : calls) operands_.push_back(OperandsOfCall(model, facts, call));
  }

  std::vector<uint32_t> Leaders() const {
    std::vector<uint32_t> leaders(calls_.size());
    absl::c_iota(leaders, 0);
    size_t left = calls_.size();
    for (size_t i = 0; i < calls_.size();) {
      const auto [body, turns] = LoopAt(i);
      for (size_t j = body; j < body * turns; ++j) leaders[i + j] = static_cast<uint32_t>(i + j % body);
      if (turns > 1) left -= body * (turns - 1);
      i += std::max<size_t>(body * turns, 1);
    }
    // A network of one layer that reads its batches from one array is not a loop inside a layer.
    if (left < kMinWorks) absl::c_iota(leaders, 0);
    return leaders;
  }

 private:
  static constexpr size_t kMinWorks = 4;

  std::pair<size_t, size_t> LoopAt(size_t begin) const {
    for (size_t body = 1; body <= kMaxBody && begin + 2 * body <= calls_.size(); ++body) {
      if (!IsTurn(begin, body)) continue;
      size_t turns = 2;
      while (begin + (turns + 1) * body <= calls_.size() && GoesOn(begin, body, turns)) ++turns;
      if (turns >= kMinTurns) return {body, turns};
    }
    return {0, 0};
  }

  OpIndex OpOf(size_t i) const { return model_.calls.op[calls_[i]]; }

  Moves MovesBetween(size_t one, size_t next) const {
    const Operands &a = operands_[one], &b = operands_[next];
    return {static_cast<int64_t>(b.a - a.a), static_cast<int64_t>(b.b - a.b), static_cast<int64_t>(b.c - a.c)};
  }

  bool IsTurn(size_t begin, size_t body) const {
    for (size_t i = begin; i < begin + body; ++i) {
      if (OpOf(i) != OpOf(i + body) || operands_[i].a == 0 || operands_[i].b == 0) return false;
    }
    for (size_t i = begin; i < begin + body; ++i) {
      if (!IsNextTurn(facts_[OpOf(i)].product, MovesBetween(i, i + body))) return false;
    }
    return true;
  }

  static bool IsNextTurn(const ProductShape& shape, const Moves& moves) {
    const Moves sizes = {shape.a_bytes, shape.b_bytes, shape.c_bytes};
    bool moves_on = false;
    for (size_t i = 0; i < moves.size(); ++i) {
      if (moves[i] == 0) continue;
      if (sizes[i] <= 0 || moves[i] % sizes[i] != 0 || std::abs(moves[i] / sizes[i]) > kMaxStride) return false;
      moves_on = true;
    }
    // The images of a batch are adjacent in memory; other tensors may be equally spaced by chance.
    const bool reads_the_same = moves[0] == 0 || moves[1] == 0;
    return moves_on && (reads_the_same || (moves[0] == sizes[0] && moves[1] == sizes[1] && moves[2] == 0));
  }

  bool GoesOn(size_t begin, size_t body, size_t turns) const {
    for (size_t i = begin; i < begin + body; ++i) {
      const size_t last = i + (turns - 1) * body;
      if (OpOf(i) != OpOf(last + body) || MovesBetween(last, last + body) != MovesBetween(i, i + body)) return false;
    }
    return true;
  }

  const TraceModel& model_;
  const std::vector<OpFacts>& facts_;
  const absl::Span<const CallIndex> calls_;
  std::vector<Operands> operands_;
};

}  // namespace

std::vector<uint32_t> LoopLeaders(const TraceModel& model, const std::vector<OpFacts>& facts,
                                  absl::Span<const CallIndex> calls) {
  return LoopFinder(model, facts, calls).Leaders();
}

std::vector<bool> LoopRepeats(const TraceModel& model) {
  const std::vector<OpFacts> facts = FactsOfOps(model);
  std::vector<bool> repeats(model.calls.size());
  for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread) {
    std::vector<CallIndex> products;
    const auto [begin, end] = model.calls.RangeOf(thread);
    for (CallIndex call = begin; call < end; ++call) {
      const bool is_product = facts[model.calls.op[call]].work == Work::kProduct;
      if (is_product && model.calls.parent[call] == kNone) products.push_back(call);
    }
    std::ranges::stable_sort(products, {}, [&](CallIndex call) { return model.calls.start_ns[call]; });
    const std::vector<uint32_t> leaders = LoopLeaders(model, facts, products);
    for (size_t i = 0; i < products.size(); ++i) repeats[products[i]] = leaders[i] != i;
  }
  return repeats;
}

}  // namespace dlhook::analyzer::steps
