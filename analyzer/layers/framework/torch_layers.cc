// Layers of PyTorch's forward passes: see torch_units.h.
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/layers/framework/torch_units.h"
#include "analyzer/model/scope_looks.h"

namespace dlhook::analyzer::inline framework {
namespace {

// Identifies a layer in all steps and processes of a run.
struct LayerKey {
  std::string model, module, op;  // for layers that are whole modules only the first two
  uint32_t path = 0;              // PythonPlace::path
  uint32_t occurrence = 0;
  auto operator<=>(const LayerKey&) const = default;
};

struct Candidate {
  Layer layer;
  bool is_certain = false;  // a module's or an optimizer's; otherwise only a layer if linked or weighted
  bool is_linked = false;
  bool is_weighted = false;
};

class LayerMaker {
 public:
  LayerMaker(const TraceModel& model, const std::vector<ScopeName>& names, const std::vector<PythonPlace>& places,
             const TorchUnits& units)
      : model_(model),
        scopes_(model.scopes),
        names_(names),
        places_(places),
        units_(units),
        modules_(NameModules(model, places)),
        candidate_of_(units.units.size(), kNone) {
    for (const Unit& unit : units_.units) trains_ = trains_ || unit.is_linked;
    CountWeightedOps();
    FindCopies();
  }

  UnitLayers Make() {
    occurrence_ = CountOccurrences(model_, places_, units_);
    waiting_.resize(model_.threads.size());
    for (UnitIndex unit : UnitsByTime(model_, units_)) Place(unit);
    return Accept();
  }

 private:
  const ScopeName& NameOf(const Unit& unit) const { return names_[scopes_.look[unit.scope].name]; }
  const PythonPlace* PlaceOf(const Unit& unit) const {
    const StackIndex stack = scopes_.look[unit.scope].stack;
    return stack == kNone ? nullptr : &places_[stack];
  }
  ModuleIndex ModuleOf(const Unit& unit) const {
    const PythonPlace* const place = PlaceOf(unit);
    return place == nullptr ? kNone : place->module();
  }

  // Counts different weighted ops in a module's own lines: two or more make it a network, not a layer.
  void CountWeightedOps() {
    std::set<std::tuple<ModuleIndex, uint32_t, NameIndex>> seen;
    weighted_ops_.resize(model_.modules.size());
    for (const PythonPlace& place : places_) {
      for (size_t i = 1; i < place.modules.size(); ++i)
        weighted_ops_[place.modules[i]] = 2;  // calls modules: a network
    }
    for (const Unit& unit : units_.units) {
      const ModuleIndex module = ModuleOf(unit);
      if (module == kNone || !NameOf(unit).is_weighted) continue;
      if (seen.insert({module, PlaceOf(unit)->path, scopes_.look[unit.scope].name}).second) ++weighted_ops_[module];
    }
  }

  // Finds units that copy a tensor's data, as contiguous does if necessary.
  void FindCopies() {
    copies_.resize(units_.units.size());
    const auto is_copy = [&](const ScopeLook& look) { return names_[look.name].op == "copy_"; };
    ForEachScopeThat(scopes_, is_copy, [&](ScopeIndex scope) {
      if (units_.unit_of[scope] != kNone) copies_[units_.unit_of[scope]] = true;
    });
  }

  bool IsWholeLayer(ModuleIndex module) const {
    if (module == kNone) return false;
    return modules_[module].is_whole || (weighted_ops_[module] < 2 && !modules_[module].is_root);
  }

  // Views and units that only create or move tensors belong to the next unit's layer.
  bool IsCarriedAlong(const Unit& unit) const {
    const ScopeName& name = NameOf(unit);
    return (name.is_view || name.is_bookkeeping) && !IsWholeLayer(ModuleOf(unit));
  }

  void Place(UnitIndex index) {
    const Unit& unit = units_.units[index];
    std::vector<UnitIndex>& waiting = waiting_[scopes_.thread[unit.scope]];
    if (unit.kind != UnitKind::kUpdate && IsCarriedAlong(unit)) {
      const bool is_networks = ModuleOf(unit) != kNone || unit.is_linked;
      if (unit.kind == UnitKind::kForward && is_networks) waiting.push_back(index);
      return;
    }
    candidate_of_.Set(index, CandidateOf(index));
    if (unit.kind != UnitKind::kForward) return;
    for (UnitIndex view : waiting) {
      const uint32_t copy = CandidateOfCopyBeside(view, waiting, ModuleOf(unit));
      candidate_of_.Set(view, copy == kNone ? candidate_of_[index] : copy);
    }
    waiting.clear();
  }

  // The layer of a copy among what a module does in its own lines before `next`; kNone: no copy.
  uint32_t CandidateOfCopyBeside(UnitIndex unit, const std::vector<UnitIndex>& waiting, ModuleIndex next) {
    const ModuleIndex module = ModuleOf(units_.units[unit]);
    if (module == kNone || module == next) return kNone;
    if (copies_[unit]) return CandidateOf(unit);
    for (const UnitIndex other : waiting) {
      if (copies_[other] && ModuleOf(units_.units[other]) == module) return CandidateOf(other);
    }
    return kNone;
  }

  uint32_t CandidateOf(UnitIndex index) {
    const Unit& unit = units_.units[index];
    const StackIndex stack = scopes_.look[unit.scope].stack;
    const auto memo =
        std::make_tuple(stack, scopes_.look[unit.scope].name, unit.kind, occurrence_[index], OptimizerOf(unit));
    const auto [at, is_new] = memo_.try_emplace(memo, kNone);
    if (is_new) at->second = NewOrKnown(unit, occurrence_[index]);
    Candidate& candidate = candidates_[at->second];
    candidate.is_linked = candidate.is_linked || unit.is_linked;
    return at->second;
  }

  // The name of the scope that identifies the optimizer; kNone for other units.
  NameIndex OptimizerOf(const Unit& unit) const {
    if (unit.kind != UnitKind::kUpdate) return kNone;
    for (ScopeIndex scope = unit.scope; scope != kNone; scope = scopes_.parent[scope]) {
      if (IsOptimizer(model_.RoleOf(scope))) return scopes_.look[scope].name;
    }
    return kNone;
  }

  uint32_t NewOrKnown(const Unit& unit, uint32_t occurrence) {
    Candidate made = unit.kind == UnitKind::kUpdate ? OptimizerLayer(unit) : NetworkLayer(unit);
    LayerKey key{made.layer.model, made.layer.module, "", 0, 0};
    if (made.layer.name.empty()) {
      const PythonPlace* const place = PlaceOf(unit);
      key = {made.layer.model, made.layer.module, NameOf(unit).op, place == nullptr ? kNone : place->path, occurrence};
    } else if (made.layer.module.empty()) {
      key.op = made.layer.name;
    }
    const auto [at, is_new] = by_key_.try_emplace(key, static_cast<uint32_t>(candidates_.size()));
    if (is_new) {
      if (made.layer.name.empty()) made.layer.name = NameByOrder(key, made.layer);
      candidates_.push_back(std::move(made));
    }
    candidates_[at->second].is_weighted = candidates_[at->second].is_weighted || NameOf(unit).is_weighted;
    return at->second;
  }

  Candidate OptimizerLayer(const Unit& unit) const {
    const NameIndex name = OptimizerOf(unit);
    Candidate made;
    made.is_certain = true;
    made.layer.name = name == kNone ? "optimizer" : absl::StrCat("optimizer (", names_[name].op, ")");
    made.layer.type = "optimizer";
    return made;
  }

  // The name stays empty if it is one of several of its kind.
  Candidate NetworkLayer(const Unit& unit) const {
    const PythonPlace* const place = PlaceOf(unit);
    const ModuleIndex index = ModuleOf(unit);
    Candidate made;
    made.is_certain = index != kNone;
    Layer& layer = made.layer;
    layer.type = WorkOfOp(NameOf(unit).op);
    if (place != nullptr) layer.line = LineLabel(model_, *place);
    layer.is_compiled_region = IsCompiled(model_.RoleOf(unit.scope));
    if (index == kNone) return made;
    const ModuleName& module = modules_[index];
    layer.model = module.model;
    layer.module_type = module.type;
    layer.module = module.name.empty() ? absl::StrCat(module.type, " (", layer.line, ")") : module.name;
    if (!IsWholeLayer(index)) return made;
    layer.name = layer.module;
    const std::string work = WorkOfModule(module.type);
    if (module.is_whole && !work.empty()) layer.type = work;
    if (!module.is_whole && !NameOf(unit).is_weighted) layer.type = module.type;
    return made;
  }

  // "layer1.0:relu", "layer1.0:relu#2"; "block.py:17 conv2d", "block.py:17 conv2d #3"; "conv1", "conv2" without Python.
  std::string NameByOrder(const LayerKey& key, const Layer& layer) {
    if (layer.line.empty() && key.module.empty()) {
      const std::string word = LiteratureName(layer.type);
      return absl::StrCat(word, ++numbers_[{"", "", word}]);
    }
    const int number = ++numbers_[{key.model, key.module.empty() ? layer.line : key.module, key.op}];
    if (key.module.empty()) return absl::StrCat(layer.line, " ", key.op, number == 1 ? "" : absl::StrCat(" #", number));
    return absl::StrCat(key.module, ":", key.op, number == 1 ? "" : absl::StrCat("#", number));
  }

  bool IsLayer(const Candidate& candidate) const {
    if (candidate.is_certain || candidate.is_linked) return true;
    // Without Python and without a backward pass, only the op's name is known: not enough to distinguish layers.
    if (candidate.layer.line.empty()) return false;
    return candidate.is_weighted || (!trains_ && model_.modules.empty());
  }

  UnitLayers Accept() {
    UnitLayers made;
    std::vector<LayerIndex> layer_of(candidates_.size(), kNone);
    for (size_t i = 0; i < candidates_.size(); ++i) {
      Candidate& candidate = candidates_[i];
      if (!IsLayer(candidate)) continue;
      candidate.layer.evidence = candidate.is_linked ? Evidence::kFramework : Evidence::kModule;
      if (candidate.layer.type == "optimizer") candidate.layer.evidence = Evidence::kFramework;
      layer_of[i] = static_cast<LayerIndex>(made.layers.size());
      made.layers.push_back(std::move(candidate.layer));
    }
    for (uint32_t candidate : candidate_of_) made.of_unit.push_back(candidate == kNone ? kNone : layer_of[candidate]);
    made.occurrence = std::move(occurrence_);
    return made;
  }

  const TraceModel& model_;
  const ScopeColumns& scopes_;
  const std::vector<ScopeName>& names_;
  const std::vector<PythonPlace>& places_;
  const TorchUnits& units_;
  const std::vector<ModuleName> modules_;
  std::vector<int> weighted_ops_;  // by module
  std::vector<bool> copies_;       // by unit
  bool trains_ = false;
  std::vector<uint32_t> occurrence_;
  std::vector<std::vector<UnitIndex>> waiting_;   // by thread: units that belong to the layer of the next unit
  CompactColumn<uint32_t, int8_t> candidate_of_;  // by unit
  std::vector<Candidate> candidates_;
  std::map<LayerKey, uint32_t> by_key_;
  std::map<std::tuple<std::string, std::string, std::string>, int> numbers_;
  absl::flat_hash_map<std::tuple<StackIndex, NameIndex, UnitKind, uint32_t, NameIndex>, uint32_t> memo_;
};

}  // namespace

UnitLayers LayersOfUnits(const TraceModel& model, const std::vector<ScopeName>& names,
                         const std::vector<PythonPlace>& places, const TorchUnits& units) {
  return LayerMaker(model, names, places, units).Make();
}

}  // namespace dlhook::analyzer::framework
