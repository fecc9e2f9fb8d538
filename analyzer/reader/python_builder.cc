// Module numbers are valid for the whole process and are often used before their definition: the model has an entry for
// each number from its first use.
#include "analyzer/reader/python_builder.h"

#include "analyzer/model/limits.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline reader {
namespace {

constexpr int kMaxModuleDepth = 1000;  // Python's own limit for nested calls
constexpr absl::string_view kUnknownName = "[unknown name]";

void AppendWord(uint32_t word, std::string* key) { key->append(reinterpret_cast<const char*>(&word), sizeof(word)); }

template <typename T>
void Set(uint32_t iid, T value, std::vector<T>* by_iid) {
  if (iid >= by_iid->size()) by_iid->resize(iid + 1, kNone);
  (*by_iid)[iid] = value;
}

}  // namespace

NameIndex NameTable::Name(absl::string_view name) {
  name = name.substr(0, kMaxNameBytes);
  const auto known = names_.find(name);
  if (known != names_.end()) return known->second;
  const NameIndex index = model_->AddName(name);
  names_.emplace(name, index);
  return index;
}

StackIndex NameTable::Stack(PythonStack stack) {
  std::string key(1, stack.is_cut ? '1' : '0');
  for (const PythonFrame& frame : stack.frames) {
    for (const uint32_t word : {frame.file, frame.function, frame.line, frame.module}) AppendWord(word, &key);
    key.push_back(frame.is_entry ? '1' : '0');
  }
  const auto [place, is_new] = stacks_.emplace(std::move(key), static_cast<StackIndex>(model_->python_stacks.size()));
  if (is_new) model_->python_stacks.push_back(std::move(stack));
  return place->second;
}

void PythonBuilder::AddDefinitions(const trace::Interned& interned) {
  for (const trace::InternedString& string : interned.string()) {
    if (!IsPossible(string.iid())) continue;
    const NameIndex name = table_->Name(string.value());
    if (string.value().size() > kMaxNameBytes) oddities_->Count("a name of more than 16 KiB (it was cut)");
    if (string.value() == kScopeWindowName) scope_window_ = name;
    if (string.value() == kSlowStepName) slow_step_ = name;
    Set(string.iid(), name, &name_by_iid_);
  }
  for (const trace::InternedPythonStack& stack : interned.python_stack()) {
    if (IsPossible(stack.iid())) AddStack(stack);
  }
}

void PythonBuilder::AddStack(const trace::InternedPythonStack& stack) {
  PythonStack frames;
  frames.is_cut = stack.is_cut();
  frames.frames.reserve(stack.frame_size());
  for (const trace::PythonFrame& frame : stack.frame()) {
    frames.frames.push_back({FindName(frame.file_iid()), FindName(frame.function_iid()), frame.line(),
                             FindModule(frame.object()), frame.is_entry()});
  }
  Set(stack.iid(), table_->Stack(std::move(frames)), &stack_by_iid_);
}

// Records of one module may come from several threads, in any order: the most complete one wins.
void PythonBuilder::AddModule(const trace::PythonModule& module) {
  const ModuleIndex index = FindModule(module.object());
  if (index == kNone) {
    oddities_->Count("a Python module with an impossible number");
    return;
  }
  const ModuleIndex root = FindModule(module.root());  // these may add to model_->modules
  const ModuleIndex parent = FindModule(module.parent());
  Module& known = model_->modules[index];
  known.root = root;
  known.parent = parent;
  if (known.type.empty() || absl::StrContains(module.type(), '.')) known.type = module.type();
  if (module.name_size() != 0) known.names.clear();
  for (const std::string& name : module.name()) known.names.push_back(name.substr(0, kMaxNameBytes));
}

void PythonBuilder::AddCompiled(const trace::CompiledCode& compiled) {
  CompiledCode& code = model_->compiled.emplace_back();
  code.process = process_;
  Read(compiled, &code);
}

void PythonBuilder::Reset() {
  name_by_iid_.clear();
  stack_by_iid_.clear();
}

ModuleIndex PythonBuilder::FindModule(uint32_t object) {
  if (object == 0) return kNone;
  const auto [place, is_new] = module_by_object_.emplace(object, static_cast<ModuleIndex>(model_->modules.size()));
  if (is_new) {
    model_->modules.emplace_back();
    model_->modules.back().process = process_;
    model_->modules.back().object = object;
  }
  return place->second;
}

bool PythonBuilder::IsPossible(uint32_t iid) {
  if (iid != 0 && iid <= kMaxIid) return true;
  oddities_->Count("a definition of a name or a Python stack with an impossible id");
  return false;
}

NameIndex PythonBuilder::UnknownName() {
  oddities_->Count("a name that the trace does not define (its definition was lost)");
  return table_->Name(kUnknownName);
}

StackIndex PythonBuilder::UnknownStack() {
  oddities_->Count("a Python stack that the trace does not define (its definition was lost)");
  return kNone;
}

void PythonBuilder::Finish() {
  for (size_t i = first_module_; i < model_->modules.size(); ++i) {
    Module& module = model_->modules[i];
    int depth = 0;
    for (ModuleIndex at = module.parent; at != kNone; at = model_->modules[at].parent) {
      if (++depth <= kMaxModuleDepth) continue;
      oddities_->Count("a Python module inside itself");
      module.parent = kNone;
      break;
    }
  }
}

}  // namespace dlhook::analyzer::reader
