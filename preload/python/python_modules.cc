#include "preload/python/python_modules.h"

#include <stdio.h>

#include <string_view>

#include "preload/runtime/registry.h"

namespace dlhook::inline python {
namespace {

constexpr uint32_t kMaxModuleCodes = 8;
constexpr uint32_t kMaxNestedModules = 64;
constexpr uint32_t kPatience = 1;  // stacks captured before a pending call counts as not coming

// kTorch calls kTorchBefore21 for the same module, which then is not a call of its own.
enum class ModuleCall { kTorch, kTorchBefore21, kKeras };

// The function through which each framework calls a module, by the end of its file's name and its qualified name
// (before 3.11 the name alone). Its first argument is the module.
struct KnownCall {
  const char* file;
  const char* function;
  ModuleCall call;
};
constexpr KnownCall kKnownCalls[] = {
    {"torch/nn/modules/module.py", "Module._wrapped_call_impl", ModuleCall::kTorch},
    {"torch/nn/modules/module.py", "_wrapped_call_impl", ModuleCall::kTorch},
    {"torch/nn/modules/module.py", "Module._call_impl", ModuleCall::kTorchBefore21},
    {"torch/nn/modules/module.py", "_call_impl", ModuleCall::kTorchBefore21},
    {"keras/src/layers/layer.py", "Layer.__call__", ModuleCall::kKeras},
};

struct ModuleCode {
  std::atomic<const void*> code;
  const void* name;
  bool keras;
};
ModuleCode g_module_codes[kMaxModuleCodes];
std::atomic<uint32_t> g_module_code_count{0};
std::atomic<bool> g_torch_wraps_calls{false};  // torch 2.1 and later
SpinLock g_module_codes_lock;

const ModuleCode* FindModuleCode(const PythonRuntime& python, const void* code) {
  uint32_t count = g_module_code_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    const ModuleCode& known = g_module_codes[i];
    if (known.code.load(std::memory_order_relaxed) != code) continue;
    return ReadAt<const void*>(code, python.layout.code_name) == known.name ? &known : nullptr;
  }
  return nullptr;
}

const KnownCall* Recognise(const PythonRuntime& python, const void* code) {
  char name[48];
  char file[1024];
  size_t name_size = PythonText(python, ReadAt<const void*>(code, python.layout.code_name), name, sizeof name);
  for (const KnownCall& known : kKnownCalls) {
    if (std::string_view(name, name_size) != known.function) continue;
    size_t file_size = PythonText(python, ReadAt<const void*>(code, python.layout.code_file), file, sizeof file);
    if (std::string_view(file, file_size).ends_with(known.file)) return &known;
  }
  return nullptr;
}

// If this code is one through which modules are called, notes it.
void NoteModuleCode(const PythonRuntime& python, const void* code, bool before_torch_2_1) {
  if (FindModuleCode(python, code) != nullptr) return;
  const KnownCall* known = Recognise(python, code);
  if (known == nullptr || (known->call == ModuleCall::kTorchBefore21) != before_torch_2_1) return;
  if (known->call == ModuleCall::kTorch) g_torch_wraps_calls.store(true, std::memory_order_relaxed);
  SpinLockHolder holder(&g_module_codes_lock);
  uint32_t count = g_module_code_count.load();
  if (count == kMaxModuleCodes || FindModuleCode(python, code) != nullptr) return;
  g_module_codes[count].name = ReadAt<const void*>(code, python.layout.code_name);
  g_module_codes[count].keras = known->call == ModuleCall::kKeras;
  g_module_codes[count].code.store(code, std::memory_order_relaxed);
  g_module_code_count.store(count + 1, std::memory_order_release);
}

void NoteModuleCodes(const PythonRuntime& python, const void* first, bool before_torch_2_1) {
  uint32_t count = 0;
  VisitFrames(python, first, [&](const void*, const void* code, int64_t) {
    NoteModuleCode(python, code, before_torch_2_1);
    return ++count < kMaxVisitedFrames;
  });
}

struct CalledModule {
  const void* object;
  bool keras;
};

struct NestedModules {
  CalledModule modules[kMaxNestedModules];  // innermost first
  uint32_t count;
  CalledModule outermost;
};

NestedModules CollectModules(const PythonRuntime& python, const void* first) {
  NestedModules found;
  found.count = 0;
  found.outermost = {nullptr, false};
  uint32_t frames = 0;
  VisitFrames(python, first, [&](const void* frame, const void* code, int64_t) {
    const ModuleCode* known = FindModuleCode(python, code);
    const void* object = known == nullptr ? nullptr : FirstArgument(python, frame);
    if (object != nullptr && object != found.outermost.object) {
      found.outermost = {object, known->keras};
      if (found.count < kMaxNestedModules) found.modules[found.count++] = found.outermost;
    } else if (object != nullptr && known->keras) {  // on PyTorch, where Keras calls its layers as torch's modules
      found.outermost.keras = true;
      CalledModule* last = &found.modules[found.count - 1];
      if (last->object == object) last->keras = true;
    }
    return ++frames < kMaxVisitedFrames;
  });
  return found;
}

// For an object without a weak reference, whose death goes unnoticed: under another root it counts as another object at
// the same address.
bool IsAnother(const PythonObject& known, uint32_t root) {
  uint32_t flags = known.flags.load(std::memory_order_acquire);
  return (flags & (kObjectHeld | kObjectSeen)) == kObjectSeen && root != 0 && known.root != root;
}

// The number of a module in a stack. *is_new: its name is still unknown.
uint32_t NumberModule(PythonProcess* process, const CalledModule& called, uint32_t root, uint32_t parent,
                      bool* is_new) {
  uint32_t number = FindObject(*process, called.object);
  if (number != 0 && IsAnother(process->objects[number], root)) {
    RetireObject(process, number);
    number = 0;
  }
  if (number == 0) {
    number = AddObject(process, called.object);
    if (number == 0) return 0;
    auto type_name = ReadAt<const char*>(process->objects[number].type, kPyTypeName);
    SetObjectText(process, number, type_name, strnlen(type_name, 256));
    process->objects[number].flags.fetch_or(called.keras ? uint32_t{kObjectKeras} : 0u);
    *is_new = true;
  }
  MarkSeen(process, number, root == 0 ? number : root, parent);
  return number;
}

bool WriteObject(PythonProcess* process, ThreadState* thread, uint32_t number) {
  PythonObject* object = &process->objects[number];
  PythonModuleRecord record = {};
  record.header = {sizeof record / 8, RecordType::kPythonModule, 0, 0, 0, 0};
  record.object = number;
  record.root = object->root;
  record.parent = object->parent;
  record.text_bytes = object->text_bytes;
  const char* text = process->arena + object->text;
  if (!WriteDescription(thread, &record.header, text, record.text_bytes, nullptr)) return false;
  object->flags.fetch_or(kObjectWritten, std::memory_order_acq_rel);
  return true;
}

void WantNames(PythonProcess* process) {
  NamesState state = process->names_state.load();
  while (state != NamesState::kWanted && state != NamesState::kRequested) {
    if (!process->names_state.compare_exchange_weak(state, NamesState::kWanted)) continue;
    process->names_wait.store(0);
    return;
  }
}

bool IsMainThread(const ThreadState* thread) { return thread->tid == ProcessId(); }

// Counts `names_wait` down; true at 0.
bool IsTime(PythonProcess* process) {
  uint32_t wait = process->names_wait.load(std::memory_order_relaxed);
  if (wait > 0) process->names_wait.store(wait - 1, std::memory_order_relaxed);
  return wait == 0;
}

}  // namespace

void NoteModuleCodes(const PythonRuntime& python, const void* first) {
  NoteModuleCodes(python, first, /*before_torch_2_1=*/false);
  if (!g_torch_wraps_calls.load(std::memory_order_relaxed)) NoteModuleCodes(python, first, /*before_torch_2_1=*/true);
}

const void* ModuleOfFrame(const PythonRuntime& python, const void* frame, const void* code) {
  return FindModuleCode(python, code) == nullptr ? nullptr : FirstArgument(python, frame);
}

void RegisterModules(const PythonRuntime& python, PythonProcess* process, ThreadState* thread, const void* frame) {
  NestedModules found = CollectModules(python, frame);
  if (found.count == 0) return;
  bool is_new = false;
  bool is_full = false;
  bool is_unwritten = false;
  {
    SpinLockHolder holder(&process->lock);
    uint32_t root = NumberModule(process, found.outermost, 0, 0, &is_new);
    uint32_t parent = found.modules[found.count - 1].object == found.outermost.object ? 0 : root;
    if (root != 0 && process->objects[root].root != 0) root = process->objects[root].root;  // its owner: AdoptRoots
    for (uint32_t i = found.count; i > 0; --i) {
      const CalledModule& called = found.modules[i - 1];
      uint32_t number = NumberModule(process, called, root, parent, &is_new);
      if (number == 0) continue;
      parent = number;
      // If it ran alone before, its parts are of its own tree.
      uint32_t own = called.keras ? 0 : process->objects[number].root;
      if (own != 0 && (process->objects[own].flags.load() & kObjectRetired) == 0) root = own;
    }
    is_unwritten = !WriteObjects(process, thread);
    is_full = process->object_count == kMaxPythonObjects;
  }
  if (is_full) {
    ReportCapability("module-names", "", CapabilityState::kLost, "more than 65536 modules: later ones have no number");
  }
  if (is_new || is_unwritten) WantNames(process);
}

bool WriteObjects(PythonProcess* process, ThreadState* thread) {
  uint32_t number = process->first_unwritten == 0 ? 1 : process->first_unwritten;
  for (; number <= process->object_count; ++number) {
    uint32_t flags = process->objects[number].flags.load(std::memory_order_acquire);
    if ((flags & (kObjectSeen | kObjectWritten)) == kObjectSeen && !WriteObject(process, thread, number)) break;
  }
  process->first_unwritten = number;
  return number > process->object_count;
}

void AdvanceNames(PythonProcess* process, ThreadState* thread) {
  NamesState state = process->names_state.load();
  if (!IsTime(process)) return;
  if (state == NamesState::kUnwritten) {
    SpinLockHolder holder(&process->lock);
    if (WriteObjects(process, thread)) process->names_state.compare_exchange_strong(state, NamesState::kNone);
    return;
  }
  if (state == NamesState::kRequested) {
    process->names_wait.store(kPatience, std::memory_order_relaxed);
    if (IsMainThread(thread)) return;  // it makes the call when this function has returned
    process->main_is_idle.store(1);
    CallFromOwnThread();
    return;
  }
  if (state != NamesState::kWanted) return;
  if (ClockNanoseconds(CLOCK_MONOTONIC) < process->next_search_ns.load(std::memory_order_relaxed)) return;
  if (!process->names_state.compare_exchange_strong(state, NamesState::kRequested)) return;
  bool is_idle = process->main_is_idle.load(std::memory_order_relaxed) != 0 && !IsMainThread(thread);
  process->names_wait.store(is_idle ? 0 : kPatience, std::memory_order_relaxed);
  if (!RequestPendingCall()) {
    process->names_wait.store(1000, std::memory_order_relaxed);
    process->names_state.store(NamesState::kWanted);
  }
}

}  // namespace dlhook::inline python
