// Layers of programs whose work is matrix products, told by the matrices that they read.
#ifndef DLHOOK_ANALYZER_LAYERS_STRUCTURE_WEIGHTS_H_
#define DLHOOK_ANALYZER_LAYERS_STRUCTURE_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/layers/op_facts.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline structure {

// What is known of one layer's products.
struct ProductLayer {
  std::string type;    // "linear", "convolution"; "matrix product" where it can't be told
  std::string prefix;  // of its name
  Evidence evidence = Evidence::kPointers;
  std::vector<std::pair<CallIndex, LayerDirection>> calls;
};

struct ProductLayers {
  std::vector<ProductLayer> layers;  // in the order of the first forward pass
  std::vector<CallIndex> open;       // calls that could not be told apart
};

// `calls`: those of a track that say something about layers, in order of time: products alone, the first with addresses.
// `step_starts_ns`: ascending.
ProductLayers ReadProductLayers(const TraceModel& model, const std::vector<OpFacts>& facts,
                                absl::Span<const CallIndex> calls, const std::vector<int64_t>& step_starts_ns);

}  // namespace dlhook::analyzer::structure

#endif  // DLHOOK_ANALYZER_LAYERS_STRUCTURE_WEIGHTS_H_
