#include "analyzer/calls/python_places.h"

#include "analyzer/calls/scope_names.h"

namespace dlhook::analyzer::inline calls {
namespace {

// kHelper: PyTorch's and Python's own code, which works for what calls it. kOptimizerBase: calls hooks and the step.
enum class Owner : uint8_t { kUser, kFramework, kHelper, kOptimizer, kOptimizerBase, kAutograd };

// Installed packages are not the user's program, except for libraries of models, where a line is useful to the user.
constexpr absl::string_view kModels[] = {
    "torchvision", "torchaudio", "timm", "transformers", "diffusers", "sentence_transformers",
    "ultralytics", "monai",      "peft", "keras_cv",     "keras_hub", "segmentation_models_pytorch"};

// The path after "site-packages/" or "dist-packages/"; empty if there is neither.
absl::string_view InPackages(absl::string_view file) {
  const size_t packages = file.rfind("-packages/");
  return packages == absl::string_view::npos ? "" : file.substr(packages + 10);
}

absl::string_view PackageOf(absl::string_view file) {
  const absl::string_view inside = InPackages(file);
  return inside.substr(0, inside.find('/'));
}

// NumPy before 1.25 generates its dispatch functions at run time.
bool IsOfPython(absl::string_view file) {
  return absl::StartsWith(file, "<frozen ") || absl::StartsWith(file, "<__array_function__ ") ||
         (InPackages(file).empty() && absl::StrContains(file, "/lib/python3."));
}

Owner OwnerOf(absl::string_view file) {
  const absl::string_view inside = InPackages(file);
  if (inside == "torch/optim/optimizer.py") return Owner::kOptimizerBase;
  if (inside == "torch/optim/lr_scheduler.py" || inside == "torch/optim/swa_utils.py") return Owner::kFramework;
  if (absl::StartsWith(inside, "torch/optim/")) return Owner::kOptimizer;
  if (absl::StartsWith(inside, "torch/autograd/")) return Owner::kAutograd;
  const bool is_compiled =
      absl::StartsWith(inside, "triton/") || absl::StrContains(file, "/torchinductor_") ||
      absl::StrContains(file, "/torch_geometric.nn.");  // made by its template, in a temporary folder
  if (absl::StartsWith(inside, "torch/") || is_compiled) return Owner::kHelper;
  if (inside.empty()) return IsOfPython(file) ? Owner::kHelper : Owner::kUser;
  const absl::string_view package = PackageOf(file);
  const bool holds_models = absl::c_linear_search(kModels, package);
  return holds_models ? Owner::kUser : Owner::kFramework;
}

// The installed package that was started as the program (python -m PACKAGE); empty: none.
absl::string_view StartedPackage(const TraceModel& model, const PythonStack& stack) {
  for (auto frame = stack.frames.rbegin(); frame != stack.frames.rend(); ++frame) {
    const absl::string_view file = model.names[frame->file];
    if (!IsOfPython(file)) return model.names[frame->function] == "<module>" ? PackageOf(file) : "";
  }
  return "";
}

bool IsBackwardCall(absl::string_view function) {
  return function == "_engine_run_backward" || function == "backward" || function == "grad";
}

using Lines = std::vector<std::pair<NameIndex, uint32_t>>;

// Lines inside the innermost module's call; without a module, only the user's innermost line.
Lines LinesInside(const PythonStack& stack, const PythonPlace& place) {
  Lines lines;
  if (place.modules.empty()) {
    if (place.file != kNone) lines.emplace_back(place.file, place.line);
    return lines;
  }
  for (const PythonFrame& frame : stack.frames) {
    if (frame.module != kNone) break;
    lines.emplace_back(frame.file, frame.line);
  }
  return lines;
}

class StackReader {
 public:
  StackReader(const TraceModel& model, absl::Span<const PythonStack> stacks)
      : model_(model), owners_(model.names.size(), Owner::kUser) {
    std::vector<bool> is_known(model.names.size());
    const auto own = [&](const PythonStack& stack) {
      for (const PythonFrame& frame : stack.frames) {
        if (!is_known[frame.file]) owners_[frame.file] = OwnerOf(model.names[frame.file]);
        is_known[frame.file] = true;
      }
    };
    absl::c_for_each(stacks, own);
    absl::c_for_each(model.python_stacks, own);
    if (!absl::c_linear_search(owners_, Owner::kOptimizerBase)) return;
    for (const PythonStack& stack : model.python_stacks) Read(stack, "");  // for the closures
  }

  // Lines of the package `started` count as the user's, too.
  PythonPlace Read(const PythonStack& stack, absl::string_view started) {
    PythonPlace place;
    Outer outer;
    for (const PythonFrame& frame : stack.frames) {
      if (IsWorkerLoop(frame)) break;  // what is around it was the parent's when it forked
      const bool is_started = !started.empty() && PackageOf(model_.names[frame.file]) == started;
      const Owner owner = is_started ? Owner::kUser : owners_[frame.file];
      if (owner == Owner::kAutograd && IsBackwardCall(model_.names[frame.function])) {
        place.is_in_backward = true;
      } else if (!outer.is_decided) {
        NoteOptimizer(frame, owner, outer, place);
      }
      if (!place.is_in_backward && frame.module != kNone &&
          (place.modules.empty() || place.modules.back() != frame.module)) {
        place.modules.push_back(frame.module);
      }
      const bool is_around = !place.modules.empty() && frame.module == kNone;
      const bool is_forward = (owner == Owner::kUser || owner == Owner::kFramework) && IsCalled(frame, "forward");
      place.is_in_forward = is_around && (place.is_in_forward || is_forward);
      if (owner != Owner::kUser || place.file != kNone) continue;
      place.file = frame.file;
      place.function = frame.function;
      place.line = frame.line;
      if (!place.is_in_backward) place.runs_user_code = true;
    }
    place.runs_user_code = place.runs_user_code || !place.modules.empty();
    return place;
  }

 private:
  // The outermost frames so far that are neither PyTorch's nor Python's.
  struct Outer {
    const PythonFrame* last = nullptr;
    const PythonFrame* before = nullptr;  // called by the last one
    bool is_decided = false;              // whether an optimizer was met
  };

  bool IsWorkerLoop(const PythonFrame& frame) const {
    return model_.names[frame.function] == "_worker_loop" &&
           absl::EndsWith(model_.names[frame.file], "torch/utils/data/_utils/worker.py");
  }

  // A step that is not PyTorch's own is an optimizer, too. What it calls is a closure if gradients or modules' passes
  // are computed there.
  void NoteOptimizer(const PythonFrame& frame, Owner owner, Outer& outer, PythonPlace& place) {
    if (owner == Owner::kUser || owner == Owner::kFramework) {
      outer.before = outer.last;
      outer.last = &frame;
    }
    if (owner != Owner::kOptimizer && owner != Owner::kOptimizerBase) return;
    outer.is_decided = true;
    bool is_other = outer.last != nullptr;
    if (is_other && owner == Owner::kOptimizerBase && IsCalled(*outer.last, "step")) {
      const bool computes = place.is_in_backward || !place.modules.empty();
      if (outer.before != nullptr && computes) closures_.insert(KeyOf(*outer.before));
      is_other = outer.before != nullptr && closures_.contains(KeyOf(*outer.before));
    }
    place.is_called_by_optimizer = is_other;
    place.is_in_optimizer = !is_other && !place.is_in_backward && place.modules.empty();
  }

  bool IsCalled(const PythonFrame& frame, absl::string_view name) const {
    absl::string_view function = model_.names[frame.function];
    return absl::ConsumeSuffix(&function, name) && (function.empty() || function.back() == '.');
  }
  static std::pair<NameIndex, NameIndex> KeyOf(const PythonFrame& frame) { return {frame.file, frame.function}; }

  const TraceModel& model_;
  std::vector<Owner> owners_;                           // by name
  std::set<std::pair<NameIndex, NameIndex>> closures_;  // functions that other optimizers than PyTorch's call
};

// A program that creates a model for each trial would fill the report: further models share one name.
constexpr int kMaxModelsOfType = 8;

// torch.compile(module) is an OptimizedModule with the module as _orig_mod.
constexpr absl::string_view kCompiledModule = ".OptimizedModule";
constexpr absl::string_view kInside = "_orig_mod";

// "block.fc" for "_orig_mod.block._orig_mod.fc".
std::string WithoutWrappers(absl::string_view name) {
  std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  std::erase(parts, kInside);
  return absl::StrJoin(parts, ".");
}

bool IsOfFramework(const std::string& type) {
  for (const char* package : {"torch.", "keras.", "tensorflow.", "flax.", "torchvision.ops."}) {
    if (absl::StartsWith(type, package)) return true;
  }
  return false;
}

class ModuleNamer {
 public:
  ModuleNamer(const TraceModel& model, const std::vector<PythonPlace>& places)
      : model_(model),
        is_container_(model.modules.size()),
        is_in_forward_(model.modules.size()),
        labels_(model.modules.size()) {
    for (const PythonPlace& place : places) {
      for (size_t i = 1; i < place.modules.size(); ++i) is_container_[place.modules[i]] = true;
      if (place.is_in_forward) is_in_forward_[place.modules.back()] = true;
    }
  }

  std::vector<ModuleName> Name() {
    std::vector<ModuleName> named;
    named.reserve(model_.modules.size());
    for (ModuleIndex module = 0; module < model_.modules.size(); ++module) named.push_back(NameOf(module));
    return named;
  }

 private:
  ModuleIndex RootOf(ModuleIndex module) const {
    const ModuleIndex root = model_.modules[module].root;
    return root == kNone ? module : root;
  }

  // "AlexNet #2" for a root module. Losses and other single layers are not models.
  const std::string& LabelOf(ModuleIndex root) {
    const Module& module = model_.modules[root];
    std::string& label = labels_[root];
    if (!label.empty()) return label;
    const std::string type = ShortType(TypeInside(root));
    const int number = ++models_[{module.process, type}];
    label = number == 1 || number > kMaxModelsOfType ? type : absl::StrCat(type, " #", number);
    return label;
  }

  // ".encoder", where a module's method calls parts of it one by one, as networks of their own; empty: it is called itself,
  // or its forward method is.
  std::string CalledAlone(ModuleIndex index, ModuleIndex root) const {
    while (index != root && model_.modules[index].parent != kNone) index = model_.modules[index].parent;
    const std::vector<std::string>& names = model_.modules[index].names;
    return index == root || names.empty() || is_in_forward_[index] ? ""
                                                                   : absl::StrCat(".", WithoutWrappers(names.front()));
  }

  // torch.compile(net) is a module around the network.
  const std::string& TypeInside(ModuleIndex root) const {
    if (!absl::EndsWith(model_.modules[root].type, kCompiledModule)) return model_.modules[root].type;
    for (const Module& module : model_.modules) {
      if (module.root == root && !module.names.empty() && module.names.front() == kInside) return module.type;
    }
    return model_.modules[root].type;
  }

  // A loss created again in each step is one layer.
  bool StandsAlone(ModuleIndex root) const { return IsOfFramework(model_.modules[root].type) && !is_container_[root]; }

  ModuleName NameOf(ModuleIndex index) {
    const Module& module = model_.modules[index];
    const ModuleIndex root = RootOf(index);
    ModuleName named;
    named.type = ShortType(module.type);
    named.is_root = root == index;
    named.is_whole = IsOfFramework(module.type) && !is_container_[index];
    if (StandsAlone(root)) {
      named.name = named.is_root && WorkOfModule(named.type) != "loss" ? LabelOf(root) : named.type;
      return named;
    }
    named.model = absl::StrCat(LabelOf(root), CalledAlone(index, root));
    if (!module.names.empty()) named.name = WithoutWrappers(module.names.front());
    if (named.name.empty() && !module.names.empty()) named.is_root = true;
    if (named.is_root) named.name = named.type;
    return named;
  }

  const TraceModel& model_;
  std::vector<bool> is_container_;   // calls other modules, as far as stacks show
  std::vector<bool> is_in_forward_;  // called by a `forward` that was called itself
  std::vector<std::string> labels_;
  std::map<std::pair<ProcessIndex, std::string>, int> models_;
};

}  // namespace

bool IsFrameworkFile(absl::string_view file) { return OwnerOf(file) != Owner::kUser; }

std::string PackageBetween(const TraceModel& model, const PythonStack& before, const PythonStack& after) {
  const auto is_same_function = [](const PythonFrame& a, const PythonFrame& b) {
    return a.file == b.file && a.function == b.function;
  };
  auto frame = before.frames.rbegin(), other = after.frames.rbegin();
  NameIndex file = kNone;
  for (; frame != before.frames.rend() && other != after.frames.rend() && is_same_function(*frame, *other);
       ++frame, ++other) {
    if (!IsOfPython(model.names[frame->file])) file = frame->file;
    if (frame->line != other->line) break;  // what it calls there are two calls
  }
  // Code of the program, which the package calls, ran last or runs next.
  const auto is_users = [&](const PythonFrame& inner) { return OwnerOf(model.names[inner.file]) == Owner::kUser; };
  if (std::any_of(frame, before.frames.rend(), is_users) || std::any_of(other, after.frames.rend(), is_users))
    return "";
  return file != kNone && OwnerOf(model.names[file]) == Owner::kFramework ? std::string(PackageOf(model.names[file]))
                                                                          : "";
}

std::string PackageAround(const TraceModel& model, const PythonStack& stack, std::pair<NameIndex, NameIndex> function) {
  const auto is_it = [&](const PythonFrame& frame) { return std::pair(frame.file, frame.function) == function; };
  const auto caller =
      std::find_if(absl::c_find_if(stack.frames, is_it), stack.frames.end(),
                   [&](const PythonFrame& frame) { return OwnerOf(model.names[frame.file]) == Owner::kFramework; });
  return caller == stack.frames.end() ? "" : std::string(PackageOf(model.names[caller->file]));
}

std::vector<PythonPlace> ReadPythonPlaces(const TraceModel& model) {
  return ReadPythonPlaces(model, model.python_stacks);
}

std::vector<PythonPlace> ReadPythonPlaces(const TraceModel& model, absl::Span<const PythonStack> stacks) {
  StackReader reader(model, stacks);
  std::vector<PythonPlace> places;
  places.reserve(stacks.size());
  std::map<Lines, uint32_t> paths, whole_stacks;
  for (const PythonStack& stack : stacks) {
    PythonPlace place = reader.Read(stack, "");
    const absl::string_view started = place.file == kNone ? StartedPackage(model, stack) : "";
    if (!started.empty()) place = reader.Read(stack, started);
    const Lines lines = LinesInside(stack, place);
    if (!lines.empty()) place.path = paths.try_emplace(lines, static_cast<uint32_t>(paths.size())).first->second;
    Lines all;
    for (const PythonFrame& frame : stack.frames) all.emplace_back(frame.file, frame.line);
    place.all_lines =
        whole_stacks.try_emplace(std::move(all), static_cast<uint32_t>(whole_stacks.size())).first->second;
    places.push_back(std::move(place));
  }
  return places;
}

std::string FunctionName(const TraceModel& model, NameIndex function) {
  if (function == kNone || model.names[function] == "<module>") return "";
  const std::string& name = model.names[function];
  const size_t local = name.rfind("<locals>.");
  return local == std::string::npos ? name : name.substr(local + 9);
}

std::string LineLabel(const TraceModel& model, const PythonPlace& place) {
  if (place.file == kNone) return "";
  const std::string& file = model.names[place.file];
  const size_t slash = file.rfind('/');
  return absl::StrCat(slash == std::string::npos ? file : file.substr(slash + 1), ":", place.line);
}

std::vector<ModuleName> NameModules(const TraceModel& model, const std::vector<PythonPlace>& places) {
  return ModuleNamer(model, places).Name();
}

}  // namespace dlhook::analyzer::calls
