// Layers of PyTorch's forward passes: by module where there is one, else by line and op.
#ifndef DLHOOK_ANALYZER_LAYERS_FRAMEWORK_TORCH_LAYERS_H_
#define DLHOOK_ANALYZER_LAYERS_FRAMEWORK_TORCH_LAYERS_H_

#include <vector>

#include "analyzer/layers/attribution.h"
#include "analyzer/layers/framework/torch_units.h"

namespace dlhook::analyzer::inline framework {

// The layer of each unit (kNone: of none), and the layers in the order in which they were first met. The rules:
// - a module of the framework that calls no further module (Conv2d, LSTM, MultiheadAttention) is one layer, whatever ops it runs;
// - so is a module of the user's that calls none, if it holds at most one weighted op (a norm written by hand);
// - other modules' own ops are layers "MODULE:op", told apart by line and, on one line, by their order in the pass;
// - outside modules a layer is a line's op ("block.py:17 conv2d #3"), if a backward node or weights belong to it, or if the
//   process neither trains nor has modules;
// - views and copies between layers belong to the next layer, which needs them so; but copies that a module makes in its own lines
//   before it calls another one, and the views beside them, are its layer "MODULE:contiguous";
// - what the optimizer runs is the layer "optimizer (SGD)".
struct UnitLayers {
  std::vector<Layer> layers;
  std::vector<LayerIndex> of_unit;
};
UnitLayers LayersOfUnits(const TraceModel& model, const std::vector<ScopeName>& names,
                         const std::vector<PythonPlace>& places, const TorchUnits& units);

}  // namespace dlhook::analyzer::framework

#endif  // DLHOOK_ANALYZER_LAYERS_FRAMEWORK_TORCH_LAYERS_H_
