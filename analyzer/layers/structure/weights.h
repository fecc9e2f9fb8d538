// Layers of programs whose work is matrix products, inferred from the matrices that they read.
#pragma once

#include "analyzer/layers/attribution.h"
#include "analyzer/layers/op_facts.h"

namespace dlhook::analyzer::inline structure {

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
