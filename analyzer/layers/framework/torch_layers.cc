// Layers of PyTorch's forward passes: see torch_units.h.

#include "analyzer/calls/python_places.h"
#include "analyzer/layers/framework/torch_units.h"
#include "analyzer/model/scope_looks.h"

namespace dlhook::analyzer::inline framework {
namespace {

constexpr uint32_t kMaxOccurrences = 64;

// An op at a line, in a module or in none: module, path, name. Without Python there is no path; ops of one name are
// then distinguished by order alone.
using LineOp = std::tuple<ModuleIndex, uint32_t, NameIndex>;

// Units of all threads, ordered by time.
std::vector<UnitIndex> UnitsByTime(const TraceModel& model, const TorchUnits& units) {
  std::vector<UnitIndex> order(units.units.size());
  absl::c_iota(order, 0);
  const auto start_of = [&](UnitIndex unit) { return model.scopes.start_ns[units.units[unit].scope]; };
  if (!std::ranges::is_sorted(order, {}, start_of)) std::ranges::stable_sort(order, {}, start_of);
  return order;
}

class OccurrenceCounter {
 public:
  OccurrenceCounter(const TraceModel& model, const std::vector<PythonPlace>& places, const TorchUnits& units)
      : model_(model), scopes_(model.scopes), places_(places), units_(units), occurrence_(units.units.size()) {
    CountNodes();
  }

  std::vector<uint32_t> Count() {
    const std::vector<UnitIndex> by_time = UnitsByTime(model_, units_);
    for (UnitIndex unit : by_time) {
      if (units_.units[unit].is_linked) CountInPass(unit);
    }
    for (auto& [line_op, length] : length_) {
      if (length > kMaxOccurrences && std::get<1>(line_op) != kNone) length = 1;
    }
    for (UnitIndex unit : by_time) {
      const auto length = length_.find(LineOpOf(unit));
      if (length == length_.end()) continue;
      if (!units_.units[unit].is_linked)
        occurrence_[unit] = turns_[{ThreadOf(unit), units_.units[unit].kind, length->first}]++;
      occurrence_[unit] %= length->second;
    }
    return std::move(occurrence_);
  }

 private:
  struct Turn {
    int64_t pass = -1;
    uint32_t stack = kNone;  // PythonPlace::all_lines
    uint32_t count = 0;
  };
  // Backward nodes, ascending.
  struct Nodes {
    std::vector<int64_t> starts;
    size_t begun = 0;  // before the unit that was counted last
  };
  struct FirstInside {
    LineOp unit;
    int64_t calls = 0;
  };

  ThreadIndex ThreadOf(UnitIndex unit) const { return scopes_.thread[units_.units[unit].scope]; }
  const PythonPlace* PlaceOf(UnitIndex unit) const {
    const StackIndex stack = scopes_.look[units_.units[unit].scope].stack;
    return stack == kNone ? nullptr : &places_[stack];
  }

  LineOp LineOpOf(UnitIndex unit) const {
    const NameIndex name = scopes_.look[units_.units[unit].scope].name;
    const PythonPlace* const place = PlaceOf(unit);
    return place == nullptr ? LineOp{kNone, kNone, name} : LineOp{place->module(), place->path, name};
  }

  // Start times of the backward nodes that end passes of a thread: those on it and on autograd's own threads, which run
  // no forward ops (a compiler's trial run may be all that is on it); without any, those of all threads of the process.
  void CountNodes() {
    std::vector<bool> runs_forward(model_.threads.size());
    for (const Unit& unit : units_.units) {
      if (unit.is_linked) runs_forward[scopes_.thread[unit.scope]] = true;
    }
    std::vector<Nodes> of_engine(model_.processes.size());
    nodes_.resize(model_.threads.size());
    nodes_of_process_.resize(model_.processes.size());
    const auto is_node = [](const ScopeLook& look) { return look.kind == ScopeKind::kBackwardNode; };
    ForEachScopeThat(scopes_, is_node, [&](ScopeIndex scope) {
      const ThreadIndex thread = scopes_.thread[scope];
      const ProcessIndex process = model_.threads[thread].process;
      (runs_forward[thread] ? nodes_[thread] : of_engine[process]).starts.push_back(scopes_.start_ns[scope]);
    });
    for (ThreadIndex thread = 0; thread < nodes_.size(); ++thread) {
      if (runs_forward[thread] && nodes_[thread].starts.empty())
        CountAllNodes(model_.threads[thread].process, of_engine);
    }
    for (ThreadIndex thread = 0; thread < nodes_.size(); ++thread) {
      std::vector<int64_t>& starts = nodes_[thread].starts;
      if (starts.empty()) continue;
      const std::vector<int64_t>& others = of_engine[model_.threads[thread].process].starts;
      starts.insert(starts.end(), others.begin(), others.end());
      Sort(starts);
    }
  }

  void CountAllNodes(ProcessIndex process, const std::vector<Nodes>& of_engine) {
    std::vector<int64_t>& starts = nodes_of_process_[process].starts;
    if (!starts.empty()) return;
    starts = of_engine[process].starts;
    for (ThreadIndex thread = 0; thread < nodes_.size(); ++thread) {
      if (model_.threads[thread].process != process) continue;
      starts.insert(starts.end(), nodes_[thread].starts.begin(), nodes_[thread].starts.end());
    }
    Sort(starts);
  }

  static void Sort(std::vector<int64_t>& starts) {  // mostly in order
    if (!absl::c_is_sorted(starts)) absl::c_sort(starts);
  }

  // A number that is equal for two forward ops of a thread if and only if no backward node began between them. Units must
  // come in order of time.
  int64_t PassOf(UnitIndex unit) {
    const ThreadIndex thread = ThreadOf(unit);
    Nodes& nodes = nodes_[thread].starts.empty() ? nodes_of_process_[model_.threads[thread].process] : nodes_[thread];
    const int64_t start_ns = scopes_.start_ns[units_.units[unit].scope];
    while (nodes.begun < nodes.starts.size() && nodes.starts[nodes.begun] <= start_ns) ++nodes.begun;
    return static_cast<int64_t>(nodes.begun);
  }

  // How often the module has been called, judging by calls of the first submodule that it calls itself.
  int64_t CallsOfModule(UnitIndex unit) {
    const PythonPlace* const place = PlaceOf(unit);
    if (place == nullptr || place->modules.empty()) return 0;
    const LineOp own = LineOpOf(unit);
    for (size_t i = 1; i < place->modules.size(); ++i) {
      const auto [at, is_new] = first_inside_.try_emplace({ThreadOf(unit), place->modules[i]}, FirstInside{own, 0});
      if (!is_new && at->second.unit == own) ++at->second.calls;
    }
    const auto at = first_inside_.try_emplace({ThreadOf(unit), place->module()}, FirstInside{own, 0}).first;
    return at->second.calls;
  }

  void CountInPass(UnitIndex unit) {
    const int64_t calls = CallsOfModule(unit);
    const LineOp line_op = LineOpOf(unit);
    Turn& turn = turn_[{ThreadOf(unit), units_.units[unit].kind, line_op}];
    const PythonPlace* const place = PlaceOf(unit);
    const uint32_t stack = place == nullptr ? kNone : place->all_lines;
    // A call from another line of the program is a second use of the module: the same layer.
    const int64_t pass = PassOf(unit) + (calls << 32);
    if (turn.pass != pass || turn.stack != stack) turn = {pass, stack, 0};
    occurrence_[unit] = turn.count++;
    uint32_t& length = length_[line_op];
    length = std::max(length, turn.count);
  }

  const TraceModel& model_;
  const ScopeColumns& scopes_;
  const std::vector<PythonPlace>& places_;
  const TorchUnits& units_;
  std::vector<uint32_t> occurrence_;
  std::vector<Nodes> nodes_, nodes_of_process_;
  absl::flat_hash_map<std::pair<ThreadIndex, ModuleIndex>, FirstInside> first_inside_;
  absl::flat_hash_map<std::tuple<ThreadIndex, LayerDirection, LineOp>, Turn> turn_;
  absl::flat_hash_map<std::tuple<ThreadIndex, LayerDirection, LineOp>, uint32_t> turns_;
  absl::flat_hash_map<LineOp, uint32_t> length_;  // repetitions in one pass
};

// Counts which repetition of a line's op within a forward pass a unit is: "block.py:17 conv2d #3".
// By unit, from 0. A pass ends where backward nodes ran. So repetitions are known for ops with backward nodes; other
// passes over the same line and op (evaluation, recomputation) are counted modulo that number. A line that only runs
// without gradients, or that repeats too often for rows of its own, counts as one: 0. A module's own ops are counted
// separately for each of its calls in a pass, as far as its first submodule shows these.
std::vector<uint32_t> CountOccurrences(const TraceModel& model, const std::vector<PythonPlace>& places,
                                       const TorchUnits& units) {
  return OccurrenceCounter(model, places, units).Count();
}

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
      for (size_t i = 1; i < place.modules.size(); ++i) weighted_ops_[place.modules[i]] = 2;  // a network
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
    if (unit.kind != LayerDirection::kUpdate && IsCarriedAlong(unit)) {
      const bool is_networks = ModuleOf(unit) != kNone || unit.is_linked;
      if (unit.kind == LayerDirection::kForward && is_networks) waiting.push_back(index);
      return;
    }
    candidate_of_.Set(index, CandidateOf(index));
    if (unit.kind != LayerDirection::kForward) return;
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
    if (unit.kind != LayerDirection::kUpdate) return kNone;
    for (ScopeIndex scope = unit.scope; scope != kNone; scope = scopes_.parent[scope]) {
      if (IsOptimizer(model_.RoleOf(scope))) return scopes_.look[scope].name;
    }
    return kNone;
  }

  uint32_t NewOrKnown(const Unit& unit, uint32_t occurrence) {
    Candidate made = unit.kind == LayerDirection::kUpdate ? OptimizerLayer(unit) : NetworkLayer(unit);
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
  absl::flat_hash_map<std::tuple<StackIndex, NameIndex, LayerDirection, uint32_t, NameIndex>, uint32_t> memo_;
};

}  // namespace

UnitLayers LayersOfUnits(const TraceModel& model, const std::vector<ScopeName>& names,
                         const std::vector<PythonPlace>& places, const TorchUnits& units) {
  return LayerMaker(model, names, places, units).Make();
}

}  // namespace dlhook::analyzer::framework
