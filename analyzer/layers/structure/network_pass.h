// Passes through a network: the forward work, and the backward work paired with it. Second stage of
// AttributeByStructure.
#ifndef DLHOOK_ANALYZER_LAYERS_STRUCTURE_NETWORK_PASS_H_
#define DLHOOK_ANALYZER_LAYERS_STRUCTURE_NETWORK_PASS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/layers/op_facts.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline structure {

// The forward work of one layer in one pass, with the backward work paired with it.
struct Forward {
  const OpFacts* facts = nullptr;
  size_t same_key_before = 0;  // earlier forward work with this key in the pass
  std::vector<OpIndex> ops;    // of forward calls
  std::vector<std::pair<CallIndex, LayerDirection>> calls;
  // Addresses of its operands, each once; after the pass only the first of b.
  std::vector<uint64_t> a, b, c;
  std::vector<uint64_t> output_gradients;
  size_t parts = 1;            // different weights multiplied from the left: images share them, groups do not
  bool weights_are_a = false;  // for products: im2col convolutions multiply the weights from the left
  bool is_attention = false;   // products of slices, head by head
  // For products: calls of each kind. An im2col convolution multiplies image by image, forward and backward.
  int forward_calls = 0;
  int gradients_of_a = 0;
  int gradients_of_b = 0;
  // For ops that report their direction.
  bool has_backward_data = false;
  bool has_backward_weights = false;
  Evidence evidence = Evidence::kNone;  // the weakest evidence for its backward work
  bool is_disputed = false;             // another possible order would change its backward work
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
void PairBackward(const std::vector<BackwardCall>& backward, Pass& pass);

}  // namespace dlhook::analyzer::structure

#endif  // DLHOOK_ANALYZER_LAYERS_STRUCTURE_NETWORK_PASS_H_
