// Names of modules: see module_names.h.
#include "analyzer/calls/module_names.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "analyzer/calls/scope_names.h"

namespace dlhook::analyzer::inline calls {
namespace {

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

// Modules that call other modules, as far as stacks show.
std::vector<bool> FindContainers(const TraceModel& model, const std::vector<PythonPlace>& places) {
  std::vector<bool> is_container(model.modules.size());
  for (const PythonPlace& place : places) {
    for (size_t i = 1; i < place.modules.size(); ++i) is_container[place.modules[i]] = true;
  }
  return is_container;
}

class ModuleNamer {
 public:
  ModuleNamer(const TraceModel& model, const std::vector<PythonPlace>& places)
      : model_(model), is_container_(FindContainers(model, places)), labels_(model.modules.size()) {}

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

  // ".encoder", where a module's method calls parts of it one by one, as networks of their own; empty: it is called itself.
  std::string CalledAlone(ModuleIndex index, ModuleIndex root) const {
    while (index != root && model_.modules[index].parent != kNone) index = model_.modules[index].parent;
    const std::vector<std::string>& names = model_.modules[index].names;
    return index == root || names.empty() ? "" : absl::StrCat(".", WithoutWrappers(names.front()));
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
  std::vector<bool> is_container_;
  std::vector<std::string> labels_;
  std::map<std::pair<ProcessIndex, std::string>, int> models_;
};

}  // namespace

std::vector<ModuleName> NameModules(const TraceModel& model, const std::vector<PythonPlace>& places) {
  return ModuleNamer(model, places).Name();
}

}  // namespace dlhook::analyzer::calls
