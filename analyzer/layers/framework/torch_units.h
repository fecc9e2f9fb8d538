// Parses PyTorch's scopes: which ops the program called, and which backward node belongs to which op.
#pragma once

#include "analyzer/calls/python_places.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/layers/attribution.h"

namespace dlhook::analyzer::inline framework {

using UnitIndex = uint32_t;

// An op called by Python (or the program), with everything that it runs: aten::linear contains aten::t and aten::addmm.
// Ops that backward nodes run are not units, unless they repeat a forward pass (checkpointing).
struct Unit {
  ScopeIndex scope = 0;
  LayerDirection kind = LayerDirection::kForward;  // or kRecompute, kUpdate
  bool is_linked = false;                          // it has a backward node
};

struct TorchUnits {
  std::vector<Unit> units;                // in the order of their scopes
  NearColumn<UnitIndex, int8_t> unit_of;  // by scope; kNone: in none
  using Scopes = CompactColumn<ScopeIndex, int8_t, AsDistance>;
  // By scope: of a backward node the forward op's scope; of others the innermost backward node around them, of the
  // engine's scope the node inside it.
  Scopes linked;
  absl::flat_hash_map<ScopeIndex, int64_t> closures;  // optimizers with gradients inside: the end of the last of these
  std::map<std::string, int64_t> oddities;

  // The node around or inside a scope, or itself; kNone: none.
  ScopeIndex NodeOf(const ScopeColumns& scopes, ScopeIndex scope) const {
    return scopes.look[scope].kind == ScopeKind::kBackwardNode ? scope : linked[scope];
  }
  // Of a backward node; kNone: not known.
  ScopeIndex ForwardOf(ScopeIndex node) const { return linked[node]; }
};

// The rule of pairing: sequence numbers are the number of the next node to be created, counted per thread. The forward
// op of node n is the last op that began with n, before n + 1 appears, on the forward thread. On the CPU, the backward
// pass runs on the thread of the forward pass; otherwise the thread is the one that had n last, checked by names.
TorchUnits FindTorchUnits(const TraceModel& model, const std::vector<PythonPlace>& places);

// Layers of PyTorch's forward passes: by module if there is one, else by line and op.

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
