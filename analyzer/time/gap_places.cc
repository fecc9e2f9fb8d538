#include "analyzer/time/gap_places.h"

#include "absl/container/flat_hash_set.h"
#include "analyzer/time/thread_activity.h"
#include "preload/format/compiler_files.h"

namespace dlhook::analyzer::inline time {
namespace {

using Stacks = std::pair<StackIndex, StackIndex>;  // before and after the gap
using Node = uint32_t;

// A set. A step has some dozens of pairs, which recur in each.
class StackPairs {
 public:
  // False: it was there already.
  bool Insert(const Stacks& pair) {
    std::optional<Stacks>& recent = recent_[(pair.first * 31 + pair.second) % recent_.size()];
    if (recent == pair) return false;
    recent = pair;
    return all_.insert(pair).second;
  }

 private:
  absl::flat_hash_set<Stacks> all_;
  std::array<std::optional<Stacks>, 256> recent_;
};

// Calls of Python functions, distinguished by function and by the calling lines of the whole stack.
class PythonCalls {
 public:
  explicit PythonCalls(const TraceModel& model) : model_(model), paths_(model.python_stacks.size()) {}

  // The calls in a stack, outermost first.
  const std::vector<Node>& PathOf(StackIndex stack) {
    std::vector<Node>& path = paths_[stack];
    if (!path.empty()) return path;
    const std::vector<PythonFrame>& frames = model_.python_stacks[stack].frames;
    Node around = kNone;
    uint32_t line = 0;
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      const auto key = std::make_tuple(around, line, frame->file, frame->function, frame->module);
      around = nodes_.try_emplace(key, static_cast<Node>(nodes_.size())).first->second;
      line = frame->line;
      path.push_back(around);
    }
    return path;
  }

  size_t Common(StackIndex a, StackIndex b) {
    const std::vector<Node>&of_a = PathOf(a), &of_b = PathOf(b);
    const auto end = of_a.begin() + static_cast<std::ptrdiff_t>(std::min(of_a.size(), of_b.size()));
    return static_cast<size_t>(std::mismatch(of_a.begin(), end, of_b.begin()).first - of_a.begin());
  }

 private:
  const TraceModel& model_;
  std::vector<std::vector<Node>> paths_;  // by stack
  std::map<std::tuple<Node, uint32_t, NameIndex, NameIndex, ModuleIndex>, Node> nodes_;
};

}  // namespace

class FoundGaps {
 public:
  explicit FoundGaps(const TraceModel& model) : model_(model), rules_(model), calls_(model) {
    for (ThreadIndex thread = 0; thread < model_.threads.size(); ++thread) Follow(thread);
  }

  const std::set<Stacks>& gaps() const { return gaps_; }

  // The frames that are active throughout the gap, innermost first.
  PythonStack InCommon(const Stacks& gap) {
    const auto& [before, after] = gap;
    const std::vector<PythonFrame>& frames = model_.python_stacks[before].frames;
    const std::vector<PythonFrame>& frames_after = model_.python_stacks[after].frames;
    const std::vector<Node>& path = calls_.PathOf(after);
    const size_t common = calls_.Common(before, after);
    size_t count = 0;
    while (count < common && (IsOnce(frames[frames.size() - 1 - count]) || !entries_.contains({path[count], after})))
      ++count;
    const auto is_module = [](const PythonFrame& frame) { return frame.module != kNone; };
    if (count == common && count > 0 &&
        frames_after[frames_after.size() - count].line < frames[frames.size() - count].line) {
      const auto module =
          std::find_if(frames.rbegin(), frames.rbegin() + static_cast<std::ptrdiff_t>(count), is_module);
      count = static_cast<size_t>(module - frames.rbegin());
    }
    return {{frames.end() - static_cast<std::ptrdiff_t>(count), frames.end()}, false};
  }

 private:
  // Records the gaps of a thread, and which stacks are the first in a call of a Python function.
  void Follow(ThreadIndex thread) {
    StackIndex before = kNone;
    int64_t before_ns = 0;
    for (ThreadActivity activity(model_, rules_, thread, /*for_gaps=*/true); activity.next_time_ns() != INT64_MAX;) {
      const int64_t now_ns = activity.next_time_ns();
      activity.Step();
      const Stacks gap = {activity.now().gap.before, activity.now().gap.after};
      if (activity.now().kind == ActivityKind::kNotSeen && known_gaps_.Insert(gap)) gaps_.insert(gap);
      const StackIndex after = activity.StackOf(activity.last());
      if (after == kNone) continue;
      if (before != kNone && !rules_.AreScopesWhole(model_.threads[thread].process, before_ns, now_ns)) before = kNone;
      if (before != after && seen_.Insert({before, after})) NoteEntries(before, after);
      before = after;
      before_ns = now_ns;
    }
  }

  void NoteEntries(StackIndex before, StackIndex after) {
    const std::vector<Node>& path = calls_.PathOf(after);
    for (size_t i = before == kNone ? 0 : calls_.Common(before, after); i < path.size(); ++i)
      entries_.insert({path[i], after});
  }

  // The program's main code, or a thread's main function, is called only once.
  bool IsOnce(const PythonFrame& frame) const {
    return model_.names[frame.function] == "<module>" || model_.names[frame.function] == "_bootstrap";
  }

  const TraceModel& model_;
  const ActivityRules rules_;
  PythonCalls calls_;
  std::set<Stacks> gaps_;
  StackPairs known_gaps_;                          // the same, without an order
  StackPairs seen_;                                // successive on a thread
  std::set<std::pair<Node, StackIndex>> entries_;  // what a call of a function did first when called from outside
};

namespace {

class GapPlacer {
 public:
  GapPlacer(const TraceModel& model, FoundGaps& gaps, bool with_modules, Attribution* attribution)
      : model_(model),
        found_(gaps),
        with_modules_(with_modules),
        in_compiler_(CompilerStacks(model)),
        attribution_(*attribution) {}

  void Place() {
    std::vector<PythonStack> stacks;
    for (const Stacks& gap : found_.gaps()) stacks.push_back(found_.InCommon(gap));
    const std::vector<PythonPlace> places = ReadPythonPlaces(model_, stacks);
    const std::vector<PythonPlace> ends = ReadPythonPlaces(model_);
    if (with_modules_) modules_ = NameModules(model_, ends);
    auto place = places.begin();
    for (const Stacks& gap : found_.gaps()) {
      const PythonStack& stack = stacks[static_cast<size_t>(place - places.begin())];
      const bool compiles = with_modules_ && (in_compiler_[gap.first] || in_compiler_[gap.second]);
      const dlhook::analyzer::Place of_compilation = {compiles ? CompilationLayer(&attribution_) : kNone};
      attribution_.of_gap[gap] = {compiles ? of_compilation : PlaceOf(*place), LineOf(gap, stack, *place), place->file,
                                  place->function,
                                  ends[gap.first].is_called_by_optimizer || ends[gap.second].is_called_by_optimizer};
      ++place;
    }
    OrderLayers();
  }

 private:
  // "block.py:7 to 10" if the innermost of these frames is the program's and the gap begins in its line 7.
  std::string LineOf(const Stacks& gap, const PythonStack& stack, const PythonPlace& place) const {
    const std::string line = LineLabel(model_, place);
    if (line.empty() || place.file != stack.frames.front().file || place.line != stack.frames.front().line) return line;
    const std::vector<PythonFrame>& after = model_.python_stacks[gap.second].frames;
    const uint32_t line_after = after[after.size() - stack.frames.size()].line;
    return line_after == place.line ? line : absl::StrCat(line, " to ", line_after);
  }

  dlhook::analyzer::Place PlaceOf(const PythonPlace& place) {
    if (!with_modules_ || place.module() == kNone) return {};
    const bool is_again = place.is_in_backward;
    return {LayerOf(modules_[place.module()]), is_again ? LayerDirection::kRecompute : LayerDirection::kForward};
  }

  LayerIndex LayerOf(const ModuleName& module) {
    if (module.name.empty()) return kNone;
    const auto [at, is_new] = layers_.try_emplace({module.model, module.name}, kNone);
    if (!is_new) return at->second;
    const std::vector<Layer>& layers = attribution_.layers;
    const std::string name = LayerBetweenCalls(layers, module);
    for (LayerIndex i = 0; i < layers.size(); ++i) {
      if (layers[i].model == module.model && layers[i].module == module.name && layers[i].name == name)
        return at->second = i;
    }
    return at->second = attribution_.Add({.model = module.model,
                                          .name = name,
                                          .module = module.name,
                                          .module_type = module.type,
                                          .type = "native code or Python",
                                          .evidence = Evidence::kModule});
  }

  // New layers come after the last layer of their module, or of its submodules.
  void OrderLayers() {
    const std::vector<Layer>& layers = attribution_.layers;
    std::vector<LayerIndex> order;
    for (LayerIndex i = 0; i < layers.size(); ++i) {
      auto at = order.end();
      if (absl::EndsWith(layers[i].name, ":[not seen]")) {
        const auto last = std::find_if(order.rbegin(), order.rend(),
                                       [&](LayerIndex other) { return IsIn(layers[other], layers[i]); });
        if (last != order.rend()) at = last.base();
      }
      order.insert(at, i);
    }
    KeepLayers(order, &attribution_);
  }

  static bool IsIn(const Layer& inner, const Layer& outer) {
    if (inner.model != outer.model || inner.module.empty()) return false;
    return inner.module == outer.module || absl::StartsWith(inner.module, absl::StrCat(outer.module, ".")) ||
           outer.module == outer.module_type;
  }

  const TraceModel& model_;
  FoundGaps& found_;
  const bool with_modules_;
  const std::vector<bool> in_compiler_;  // by stack
  std::vector<ModuleName> modules_;
  std::map<std::pair<std::string, std::string>, LayerIndex> layers_;  // by model and module name
  Attribution& attribution_;
};

}  // namespace

std::string LayerBetweenCalls(const std::vector<Layer>& layers, const ModuleName& module) {
  const bool is_layer = absl::c_any_of(layers, [&](const Layer& layer) {
    return layer.model == module.model && layer.module == module.name && layer.name == module.name;
  });
  return is_layer ? module.name : absl::StrCat(module.name, ":[not seen]");
}

std::vector<bool> CompilerStacks(const TraceModel& model) {
  std::vector<bool> in_compiler;
  for (const PythonStack& stack : model.python_stacks) {
    in_compiler.push_back(absl::c_any_of(
        stack.frames, [&](const PythonFrame& frame) { return IsCompilersFile(model.names[frame.file].c_str()); }));
  }
  return in_compiler;
}

LayerIndex CompilationLayer(Attribution* attribution) {
  const std::vector<Layer>& layers = attribution->layers;
  const auto at = absl::c_find_if(layers, [](const Layer& layer) { return layer.type == kCompilation; });
  if (at != layers.end()) return static_cast<LayerIndex>(at - layers.begin());
  return attribution->Add({.name = "compilation (torch.compile)", .type = kCompilation, .evidence = Evidence::kModule});
}

std::shared_ptr<FoundGaps> FindGaps(const TraceModel& model) { return std::make_shared<FoundGaps>(model); }

void PlaceGaps(const TraceModel& model, FoundGaps& gaps, bool with_modules, Attribution* attribution) {
  if (!model.python_stacks.empty()) GapPlacer(model, gaps, with_modules, attribution).Place();
}

}  // namespace dlhook::analyzer::time
