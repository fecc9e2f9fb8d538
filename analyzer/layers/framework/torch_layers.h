// Layers of PyTorch's forward passes: by module if there is one, else by line and op.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/calls/scope_names.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/layers/framework/torch_units.h"

namespace dlhook::analyzer::inline framework {

// The layer of each unit (kNone: none), and the layers in the order of their first appearance. The rules:
// - a framework module that calls no further module (Conv2d, LSTM, MultiheadAttention) is one layer, whatever ops it
//   runs;
// - so is a user's module that calls none, if it contains at most one weighted op (a hand-written norm);
// - ops directly in other modules are layers "MODULE:op", distinguished by line and, on one line, by their order in the
//   pass;
// - outside modules a layer is an op at a line ("block.py:17 conv2d #3"), if it has a backward node or weights, or if
//   the process neither trains nor has modules;
// - views and copies between layers belong to the next layer, which needs them; but copies that a module makes in its
//   own lines before it calls another module, and the views beside them, are its layer "MODULE:contiguous";
// - the optimizer's work is the layer "optimizer (SGD)".
struct UnitLayers {
  std::vector<Layer> layers;
  CompactColumn<LayerIndex, int8_t> of_unit;
  std::vector<uint32_t> occurrence;  // by unit: CountOccurrences
};
UnitLayers LayersOfUnits(const TraceModel& model, const std::vector<ScopeName>& names,
                         const std::vector<PythonPlace>& places, const TorchUnits& units);

}  // namespace dlhook::analyzer::framework
