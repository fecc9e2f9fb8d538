// Assigns XLA's operations to layers, by what the compiled program says of them (reader/xla_builder.h): see links.h.
#include <map>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/layers/framework/framework_links.h"
#include "analyzer/model/scope_looks.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline framework {
namespace {

constexpr char kXlasCompilation[] = "compilation (XLA)";
constexpr char kNoProgram[] = "the program is not in the trace: only its name is known";

LayerDirection DirectionOf(CompiledPass pass) {
  switch (pass) {
    case CompiledPass::kForward:
      return LayerDirection::kForward;
    case CompiledPass::kBackward:
      return LayerDirection::kBackward;
    case CompiledPass::kRecompute:
      return LayerDirection::kRecompute;
    case CompiledPass::kUpdate:
      return LayerDirection::kUpdate;
    case CompiledPass::kOther:
      break;
  }
  return LayerDirection::kUnknown;
}

std::string TypeOfPrimitive(const CompiledOp& op) {
  if (absl::StartsWith(op.primitive, "conv_general")) return "convolution";
  if (absl::StartsWith(op.primitive, "dot_general")) return "linear";
  return "";
}

class XlaLinker {
 public:
  XlaLinker(const TraceModel& model, Attribution* attribution) : model_(model), attribution_(*attribution) {}

  void Link() {
    std::vector<bool> is_of_compiler;  // by name
    for (const std::string& name : model_.names) {
      is_of_compiler.push_back(absl::StartsWith(name, kXlaCompiles) || absl::StartsWith(name, kXlaTries));
    }
    std::vector<Place> places;
    for (const CompiledOp& op : model_.compiled_ops) places.push_back({kNone, DirectionOf(op.pass)});
    const auto is_compilers = [&](const ScopeLook& look) {
      return look.kind == ScopeKind::kNvtxRange && is_of_compiler[look.name];
    };
    const auto is_xlas = [&](const ScopeLook& look) {
      return look.kind == ScopeKind::kXlaCompilation || look.kind == ScopeKind::kXlaOp || is_compilers(look);
    };
    ForEachScopeThat(model_.scopes, is_xlas, [&](ScopeIndex scope) {
      if (is_compilers(model_.scopes.look[scope])) compiles_.insert(model_.scopes.thread[scope]);
      if (model_.scopes.look[scope].kind != ScopeKind::kXlaOp) {
        attribution_.of_scope.Set(scope, {CompilationLayer(), LayerDirection::kUnknown});
        return;
      }
      const uint32_t op = CompiledLink::Of(model_.scopes.link[scope]).op;
      if (op >= places.size()) return;
      if (places[op].layer == kNone) places[op].layer = LayerOf(model_.compiled_ops[op]);
      attribution_.of_scope.Set(scope, places[op]);
    });
    if (compiles_.empty()) return;
    const auto is_other = [&](const ScopeLook& look) { return !is_compilers(look); };
    ForEachScopeThat(model_.scopes, is_other, [&](ScopeIndex s) { does_other_.insert(model_.scopes.thread[s]); });
    PlaceTrials();
  }

 private:
  // What XLA does between its ranges on threads that only compile: it fills and compares the memory of a trial.
  void PlaceTrials() {
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      const ThreadIndex thread = model_.calls.thread[call];
      if (model_.calls.ScopeOf(call) != kNone || !compiles_.contains(thread) || does_other_.contains(thread)) continue;
      attribution_.of_call[call] = {CompilationLayer(), LayerDirection::kUnknown};
    }
  }

  LayerIndex CompilationLayer() {
    const auto [at, is_new] =
        layers_.try_emplace(kXlasCompilation, static_cast<LayerIndex>(attribution_.layers.size()));
    if (is_new) {
      Layer layer;
      layer.name = kXlasCompilation;
      layer.type = "compilation";
      layer.evidence = Evidence::kFramework;
      attribution_.layers.push_back(layer);
    }
    return at->second;
  }

  LayerIndex LayerOf(const CompiledOp& op) {
    const bool is_known = !op.layer.empty();
    const std::string name = is_known ? op.layer : absl::StrCat("compiled by XLA: ", op.program);
    const auto [at, is_new] = layers_.try_emplace(name, static_cast<LayerIndex>(attribution_.layers.size()));
    if (is_new) {
      Layer layer;
      layer.name = name;
      layer.evidence = Evidence::kFramework;
      layer.is_compiled_region = !is_known;
      if (op.has_scopes) layer.module = name;
      attribution_.layers.push_back(layer);
    }
    Layer& layer = attribution_.layers[at->second];
    if (!is_known && op.opcode.empty()) layer.ambiguity = kNoProgram;
    if (layer.line.empty()) layer.line = op.line;
    if (!is_known) layer.type = "compiled region";
    if (layer.type.empty()) layer.type = op.pass == CompiledPass::kUpdate ? "optimizer" : TypeOfPrimitive(op);
    return at->second;
  }

  const TraceModel& model_;
  Attribution& attribution_;
  std::map<std::string, LayerIndex> layers_;
  absl::flat_hash_set<ThreadIndex> compiles_, does_other_;
};

}  // namespace

void LinkXlaOps(const TraceModel& model, Attribution* attribution) { XlaLinker(model, attribution).Link(); }

}  // namespace dlhook::analyzer::framework
