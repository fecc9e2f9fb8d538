// Counts repetitions of ops: see torch_units.h.
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analyzer/layers/framework/torch_units.h"
#include "analyzer/model/scope_looks.h"

namespace dlhook::analyzer::inline framework {
namespace {

constexpr uint32_t kMaxOccurrences = 64;

// An op at a line, in a module or in none: module, path, name. Without Python there is no path; ops of one name are
// then distinguished by order alone.
using LineOp = std::tuple<ModuleIndex, uint32_t, NameIndex>;

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
    if (!std::is_sorted(starts.begin(), starts.end())) std::sort(starts.begin(), starts.end());
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
  absl::flat_hash_map<std::tuple<ThreadIndex, UnitKind, LineOp>, Turn> turn_;
  absl::flat_hash_map<std::tuple<ThreadIndex, UnitKind, LineOp>, uint32_t> turns_;
  absl::flat_hash_map<LineOp, uint32_t> length_;  // repetitions in one pass
};

}  // namespace

std::vector<UnitIndex> UnitsByTime(const TraceModel& model, const TorchUnits& units) {
  std::vector<UnitIndex> order(units.units.size());
  for (UnitIndex unit = 0; unit < order.size(); ++unit) order[unit] = unit;
  const auto& start_ns = model.scopes.start_ns;
  const auto earlier = [&](UnitIndex a, UnitIndex b) {
    return start_ns[units.units[a].scope] < start_ns[units.units[b].scope];
  };
  if (!std::is_sorted(order.begin(), order.end(), earlier)) std::stable_sort(order.begin(), order.end(), earlier);
  return order;
}

std::vector<uint32_t> CountOccurrences(const TraceModel& model, const std::vector<PythonPlace>& places,
                                       const TorchUnits& units) {
  return OccurrenceCounter(model, places, units).Count();
}

}  // namespace dlhook::analyzer::framework
