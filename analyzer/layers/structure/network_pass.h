// Passes through a network: the forward work, and the backward work paired with it. Second stage of
// AttributeByStructure.
#pragma once

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/layers/op_facts.h"

namespace dlhook::analyzer::inline structure {

// The forward work of one layer in one pass, with the backward work paired with it. A run may have millions.
struct Forward {
  const OpFacts* facts = nullptr;
  absl::InlinedVector<std::pair<CallIndex, LayerDirection>, 1> calls;
  uint64_t first_b = 0;                 // address of its first operand B
  OpIndex first_op = 0;                 // of its forward calls
  uint32_t parts = 1;                   // different weights multiplied from the left: images share them, groups do not
  bool weights_are_a = false;           // for products: im2col convolutions multiply the weights from the left
  bool is_attention = false;            // products of slices, head by head
  bool is_disputed = false;             // another possible order would change its backward work
  Evidence evidence = Evidence::kNone;  // the weakest evidence for its backward work
};

// Elements in the order in which they came, each once: mostly one or two.
template <typename T>
class FewOrMany {
 public:
  bool empty() const { return list_.empty(); }
  size_t size() const { return list_.size(); }
  T first() const { return list_.front(); }
  bool Contains(T value) const { return set_.empty() ? absl::c_linear_search(list_, value) : set_.contains(value); }
  void Add(T value) {
    if (Contains(value)) return;
    list_.push_back(value);
    if (list_.size() == kMany) set_.insert(list_.begin(), list_.end());
    if (list_.size() > kMany) set_.insert(value);
  }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

 private:
  static constexpr size_t kMany = 64;
  std::vector<T> list_;
  absl::flat_hash_set<T> set_;  // the same, if there are many
};

// Without 0, which is not known.
class Addresses : public FewOrMany<uint64_t> {
 public:
  bool Contains(uint64_t address) const { return address != 0 && FewOrMany::Contains(address); }
  void Add(uint64_t address) {
    if (address != 0) FewOrMany::Add(address);
  }
};

// While its pass is read.
struct OpenForward : Forward {
  size_t same_key_before = 0;  // earlier forward work with this key in the pass
  FewOrMany<OpIndex> ops;      // of forward calls
  Addresses a, b, c;           // of its operands
  Addresses output_gradients;
  // For products: calls of each kind. An im2col convolution multiplies image by image, forward and backward.
  int forward_calls = 0;
  int gradients_of_a = 0;
  int gradients_of_b = 0;
  // For ops that report their direction.
  bool has_backward_data = false;
  bool has_backward_weights = false;
};

struct Pass {
  std::vector<Forward> forwards;
  std::vector<CallIndex> unpaired;  // backward work without forward work in this pass
  bool has_backward = false;
};

// `calls`: calls of a track that show something about layers, in order of time. `cuts`: indices in `calls` at which a
// new pass begins, if the previous one has no backward work; ascending.
std::vector<Pass> ReadPasses(const TraceModel& model, const std::vector<OpFacts>& facts,
                             absl::Span<const CallIndex> calls, const std::vector<size_t>& cuts);

// Pairs the backward work of ops that report their direction; called by ReadPasses at the end of each pass.
struct BackwardCall {
  CallIndex call = 0;
  const OpFacts* facts = nullptr;
  Direction direction = Direction::kUnknown;
  Operands operands;
};
// Those without a partner become `unpaired`.
void PairBackward(const std::vector<BackwardCall>& backward, std::vector<OpenForward>& forwards,
                  std::vector<CallIndex>& unpaired);

// Matrix products of one layer: which belong together, and which is a gradient of which.
enum class GradientOf : uint8_t { kNone, kA, kB };

// By sizes alone; both if the sizes are equal.
bool MayBeGradientOfA(const ProductShape& forward, const ProductShape& gradient);
bool MayBeGradientOfB(const ProductShape& forward, const ProductShape& gradient);

bool HasSameSizes(const ProductShape& first, const ProductShape& second);

// By sizes and addresses: the gradient reads the other operand of the forward product. kNone: no proof.
GradientOf GradientByOperands(const OpenForward& forward, const ProductShape& gradient, const Operands& operands);

// By sizes alone, for a layer that lacks it. For an op that reports its direction, only that one.
GradientOf GradientByShapes(const OpenForward& forward, const OpFacts& gradient);

// The operand of the gradient that the forward product does not have: the gradient of its result.
uint64_t OutputGradient(const OpenForward& forward, GradientOf of, const Operands& operands);

// Whether the product continues the forward work `last`, which came right before: the next image or group of an im2col
// convolution, the next step of a recurrence. Notes on which side the weights are.
bool ContinuesForward(const ProductShape& product, const Operands& operands, OpenForward& last);

// Whether two pieces of forward work use the same weights, on the right, as in y = x wT: a layer used twice. For
// untransposed operands this can't be decided: the columns of im2col convolutions are on the right, in a buffer that
// layers may share.
bool ShareWeights(const Forward& first, const Forward& second);

void AddOperands(const Operands& operands, OpenForward& forward);
// What is kept of it after its pass.
Forward Finished(OpenForward&& forward);

}  // namespace dlhook::analyzer::structure
