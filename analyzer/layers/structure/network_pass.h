// The stages of AttributeByStructure: see structure.cc.
#pragma once

#include "absl/container/btree_set.h"
#include "absl/container/inlined_vector.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/layers/op_facts.h"

namespace dlhook::analyzer::inline structure {

// Passes through a network: the forward work, and the backward work paired with it.

// What forward work shows of its layer.
struct LayerWork {
  const OpFacts* facts = nullptr;
  uint32_t parts = 1;  // different weights multiplied from the left: images share them, groups of a convolution do not
  bool weights_are_a = false;  // for products: im2col convolutions multiply the weights from the left
  bool is_attention = false;   // products of slices, head by head
};

// The forward work of one layer in one pass, with the backward work paired with it. A run may have millions.
struct Forward : LayerWork {
  absl::InlinedVector<std::pair<CallIndex, LayerDirection>, 1> calls;
  uint64_t first_b = 0;                 // address of its first operand B; 0: not known
  OpIndex first_op = 0;                 // of its forward calls
  bool is_disputed = false;             // another possible order would change its backward work
  Evidence evidence = Evidence::kNone;  // the weakest evidence for its backward work
};

using Addresses = absl::btree_set<uint64_t>;  // without 0, which is not known

// While its pass is read.
struct OpenForward : Forward {
  size_t same_key_before = 0;    // earlier forward work with this key in the pass
  absl::btree_set<OpIndex> ops;  // of forward calls
  Addresses a, b, c;             // of its operands
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

// Which networks the passes go through, and which of their layers each forward work belongs to.

// One position in a network, as its forward work shows it.
struct NetworkLayer : LayerWork {
  size_t same_as = 0;  // index of the layer at this position, if a layer is used twice; else its own
  // Over all passes.
  int64_t passes = 0;
  int64_t disputed_passes = 0;
  Evidence evidence = Evidence::kNone;
};

using Network = std::vector<NetworkLayer>;

struct NetworkPlace {
  size_t network = 0;
  size_t layer = 0;
};

// The repeating sequences of layers; a sequence that consists of shorter ones is replaced by these. Sequences of matrix
// products alone that have no gradients and do not fit onto each other are not networks: any program multiplies
// matrices.
std::vector<Network> LearnNetworks(const std::vector<const Pass*>& passes);

// By forward work of the pass; nullopt if it matches no network.
std::vector<std::optional<NetworkPlace>> PlacesOf(const Pass& pass, const std::vector<Network>& networks);

// The weakest evidence for its backward work. Without backward work: shape, if no other layer of the network has it,
// else order.
Evidence EvidenceOf(const Network& network, size_t layer);

// For each layer: a sentence if only order distinguished its backward work from others' and might have been wrong.
std::vector<std::string> AmbiguitiesOf(const Network& network);

// Assigns conversions of tensors between memory formats to the layer that needs them. Last stage of
// AttributeByStructure.

// For each reorder in `calls` (of a track, in order of time) without a layer, looks at the ops before and after it on
// its thread: the next op, if it takes a tensor of these dimensions in the new format (the reorder prepares it), else
// the previous op, if it has one in the old format (the reorder converts its result back). If both match, the previous
// op, provided that the tensor goes from the library's own format back to a plain one or is a gradient of weights or
// biases. If neither matches, whichever has a tensor of these dimensions, the next op first. The reorder gets that op's
// layer and direction. Returns how many reorders remain without a layer.
int64_t ChargeReorders(const TraceModel& model, const std::vector<OpFacts>& facts, absl::Span<const CallIndex> calls,
                       std::vector<Place>& places);

// Layers of programs whose work is matrix products, inferred from the matrices that they read.

// What is known of one layer from its products.
struct ProductLayer {
  std::string type;       // "linear", "convolution"; "matrix product" if not known
  std::string prefix;     // of its name
  std::string sizes;      // "784x128": inputs and outputs
  std::string ambiguity;  // as in Layer
  Evidence evidence = Evidence::kPointers;
  std::vector<std::pair<CallIndex, LayerDirection>> calls;
};

struct ProductLayers {
  std::vector<ProductLayer> layers;  // in the order of the first forward pass
  std::vector<CallIndex> open;       // calls that could not be assigned
  bool has_gaps = false;             // some of these precede known layers: their numbers are not the program's
};

// `calls`: calls of a track that show something about layers, in order of time: only products, the first ones with
// addresses. `step_starts_ns`: ascending.
ProductLayers ReadProductLayers(const TraceModel& model, const std::vector<OpFacts>& facts,
                                absl::Span<const CallIndex> calls, const std::vector<int64_t>& step_starts_ns);

}  // namespace dlhook::analyzer::structure
