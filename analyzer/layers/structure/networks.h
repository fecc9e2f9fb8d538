// Which networks a run's passes go through, and which of their layers each forward work belongs to. Third stage of
// AttributeByStructure.
#pragma once

#include "analyzer/layers/attribution.h"
#include "analyzer/layers/op_facts.h"
#include "analyzer/layers/structure/network_pass.h"

namespace dlhook::analyzer::inline structure {

// One position in a network, as its forward work shows it.
struct NetworkLayer {
  const OpFacts* facts = nullptr;
  bool weights_are_a = false;
  bool is_attention = false;
  size_t parts = 1;    // parallel products: groups of a convolution
  size_t same_as = 0;  // index of the layer at this position, if a layer is used twice; else its own
  // Over all passes.
  int64_t passes = 0;
  int64_t disputed_passes = 0;
  Evidence evidence = Evidence::kNone;
};

struct Network {
  std::vector<NetworkLayer> layers;
};

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

bool IsSameLayer(const NetworkLayer& layer, const Forward& forward);

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

}  // namespace dlhook::analyzer::structure
