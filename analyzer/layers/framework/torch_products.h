// Which gradient each matrix product of a backward node of PyTorch's computes.
#pragma once

#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/layers/framework/torch_units.h"

namespace dlhook::analyzer::inline framework {

// Values by scope, of which hardly any are out of order, and which are asked for nearly in order: a hash table of a long
// run's scopes takes more memory, and each look-up waits for it.
template <typename Value>
class NearbyMap {
 public:
  using Entry = std::pair<ScopeIndex, Value>;

  void Add(ScopeIndex scope, Value value) { entries_.emplace_back(scope, value); }
  // To be called once, when all have been added.
  void Seal() {
    const auto is_before = [](const Entry& a, const Entry& b) { return a.first < b.first; };
    if (!absl::c_is_sorted(entries_, is_before)) absl::c_stable_sort(entries_, is_before);
  }
  // Those of a scope, in the order in which they were added.
  absl::Span<const Entry> Of(ScopeIndex scope) const {
    size_t first = last_ - std::min(last_, kNearby), end = std::min(last_ + kNearby, entries_.size());
    if (first < end && entries_[first].first >= scope) first = 0;
    if (first < end && entries_[end - 1].first < scope) end = entries_.size();
    const auto begin = entries_.begin();
    const auto is_before = [](const Entry& entry, ScopeIndex wanted) { return entry.first < wanted; };
    const auto at = std::lower_bound(begin + static_cast<std::ptrdiff_t>(first),
                                     begin + static_cast<std::ptrdiff_t>(end), scope, is_before);
    last_ = static_cast<size_t>(at - begin);
    size_t count = 0;
    while (last_ + count < entries_.size() && entries_[last_ + count].first == scope) ++count;
    return absl::MakeConstSpan(entries_).subspan(last_, count);
  }

 private:
  static constexpr size_t kNearby = 32;

  std::vector<Entry> entries_;
  mutable size_t last_ = 0;  // the one found last
};

// For y = a b (mm, addmm, bmm …): the gradient of a is dy bT and sums over y's columns, that of b is aT dy and sums over
// its rows. So their sizes tell them apart, else what they read again, else autograd's order, which depends on the node.
// Which operand holds weights is known for linear, else from the parameters whose gradients follow the node. Where that
// does not tell either, the direction is kBackward.
class TorchProducts {
 public:
  TorchProducts(const TraceModel& model, const std::vector<ScopeName>& names, const TorchUnits& units);

  // Which repetition of its line each unit is (CountOccurrences). Before DirectionOf.
  void NoteOperands(const std::vector<uint32_t>& occurrence);

  // Of a product that the node runs itself.
  LayerDirection DirectionOf(ScopeIndex node, ScopeIndex product) const;

 private:
  enum class Side : uint8_t { kUnknown, kFirst, kSecond, kNeither };
  // A forward or backward product as its row-major program sees it.
  struct Sizes {
    int64_t m = 0, n = 0, k = 0;
    bool is_exchanged = false;  // the call's operands are b and a
  };
  struct Addresses {
    uint64_t a = 0, b = 0;  // 0: not known
  };
  // Gradients that the engine adds to parameters right after a node, except for views.
  struct Leaves {
    int count = 0;
    bool are_viewed = false;
  };
  // An op in the program: thread, stack, op, repetition, product.
  using Position = std::tuple<ThreadIndex, StackIndex, NameIndex, uint32_t, NameIndex>;
  using Line = std::pair<StackIndex, NameIndex>;
  struct Seen {
    Addresses first;
    int count = 0;
    bool moves_a = false, moves_b = false;
  };

  const ScopeName& NameOf(ScopeIndex scope) const { return names_[scopes_.look[scope].name]; }
  void FindProducts();
  void FindLeaves();
  void NoteCalls();
  CallIndex CallIn(ScopeIndex scope) const;
  const std::optional<Sizes>& SizesOf(CallIndex call) const { return sizes_[model_.calls.op[call]]; }
  Addresses AddressesOf(CallIndex call) const;
  ScopeIndex LinearAround(ScopeIndex forward) const;
  bool IsFolded(ScopeIndex forward) const;
  Line LineOf(ScopeIndex forward) const;
  Position PositionOf(ScopeIndex forward) const;
  Leaves LeavesOf(ScopeIndex node) const;
  Side GradientOf(ScopeIndex node, ScopeIndex product) const;
  Side GradientByOrder(ScopeIndex node, ScopeIndex product) const;
  Side WeightsOf(ScopeIndex node, ScopeIndex forward) const;
  Side WeightsThatStay(ScopeIndex forward) const;
  LayerDirection DirectionOfOnly(ScopeIndex node, ScopeIndex forward) const;

  const TraceModel& model_;
  const ScopeColumns& scopes_;
  const std::vector<ScopeName>& names_;
  const TorchUnits& units_;
  const std::vector<uint32_t>* occurrence_ = nullptr;
  std::vector<std::optional<Sizes>> sizes_;          // by op; nullopt: no product
  bool has_optimizer_ = false;                       // of torch.optim: parameters stay in place
  NearbyMap<ScopeIndex> products_;                   // of a backward node
  NearbyMap<CallIndex> calls_;                       // directly in products
  NearbyMap<Leaves> leaves_;                         // of a backward node
  absl::flat_hash_set<ScopeIndex> trained_linears_;  // with a gradient of their weights
  absl::flat_hash_set<Line> lines_with_leaves_;
  absl::flat_hash_map<Position, Seen> seen_;
};

}  // namespace dlhook::analyzer::framework
