// Parses PyTorch's scopes: which ops the program called, and which backward node belongs to which op.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline framework {

using UnitIndex = uint32_t;

enum class UnitKind : uint8_t { kForward, kRecompute, kUpdate };

// An op called by Python (or the program), with everything that it runs: aten::linear contains aten::t and aten::addmm.
// Ops that backward nodes run are not units, unless they repeat a forward pass (checkpointing).
struct Unit {
  ScopeIndex scope = 0;
  UnitKind kind = UnitKind::kForward;
  bool is_linked = false;  // it has a backward node
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

}  // namespace dlhook::analyzer::framework
