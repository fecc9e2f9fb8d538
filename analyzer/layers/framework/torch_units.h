// PyTorch's scopes, read: which op the program asked for, which backward node belongs to which op.
#ifndef DLHOOK_ANALYZER_LAYERS_FRAMEWORK_TORCH_UNITS_H_
#define DLHOOK_ANALYZER_LAYERS_FRAMEWORK_TORCH_UNITS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/calls/python_places.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline framework {

using UnitIndex = uint32_t;

enum class UnitKind : uint8_t { kForward, kRecompute, kUpdate };

// An op that Python (or the program) asked for, with all that it runs inside: aten::linear around aten::t and aten::addmm.
// Ops that backward nodes run are no units, unless they do a forward pass again (checkpointing).
struct Unit {
  ScopeIndex scope = 0;
  UnitKind kind = UnitKind::kForward;
  bool is_linked = false;  // a backward node belongs to it
};

struct TorchUnits {
  std::vector<Unit> units;         // in the order of their scopes
  std::vector<UnitIndex> unit_of;  // by scope; kNone: in none
  std::vector<ScopeIndex>
      node_of;  // by scope: the innermost backward node around it; of the engine's bracket, the node in it
  std::vector<ScopeIndex> forward_of;  // by scope: of a backward node the forward op's scope; kNone: not known
  std::map<std::string, int64_t> oddities;
};

// The rule of pairing (sequence numbers are a peek at the number of the next node, counted per thread): the forward op of
// node n is the last op that began with n, before n + 1 appears, on the forward thread. The backward of a CPU network runs on
// the thread of its forward pass; for others the thread is told by who had n last, and by the names.
TorchUnits FindTorchUnits(const TraceModel& model, const std::vector<ScopeName>& names,
                          const std::vector<PythonPlace>& places);

}  // namespace dlhook::analyzer::framework

#endif  // DLHOOK_ANALYZER_LAYERS_FRAMEWORK_TORCH_UNITS_H_
