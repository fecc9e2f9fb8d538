// The module objects (torch.nn.Module, keras.Layer) whose calls are in Python stacks: their numbers, and their names,
// which a pending call of the interpreter reads from the model (README.md: its cost and why it is safe).
// Thread: functions that say so run on Python's main thread with the GIL; the others on any application thread.
#pragma once

#include "preload/python/python_api.h"
#include "preload/python/python_process.h"
#include "preload/python/python_runtime.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline python {

// Notes which code of this stack is one through which modules are called: needed to recognise their calls. Slow path:
// for new stacks.
void NoteModuleCodes(const PythonRuntime& python, const void* first);

// The module whose call this frame is, or null.
const void* ModuleOfFrame(const PythonRuntime& python, const void* frame, const void* code);

// Numbers the modules of a stack, outermost first, and requests names if there are new ones.
void RegisterModules(const PythonRuntime& python, PythonProcess* process, ThreadState* thread, const void* frame);

// Writes the records of objects with new information. False: the ring is full, the rest follows. Needs the lock.
bool WriteObjects(PythonProcess* process, ThreadState* thread);

// The next step towards the wanted names: requests a pending call, or handles one that does not come. Needs no GIL.
void AdvanceNames(PythonProcess* process, ThreadState* thread);

// In python_names.cc, which reads the qualified names of modules from the running models, by a pending call of the interpreter
// on one of its threads (before 3.12 the main thread).

// False if the interpreter accepts no pending call now, or lacks something needed for names (a capability says so).
bool RequestPendingCall();

// Before 3.12 the main thread may wait for others that run the models, and never make the call. Then a short-lived
// thread of dlhook's own makes it. Does nothing if that can't be the reason.
void CallFromOwnThread();

// The modules below a root, with their names: from torch's `_modules` dictionaries or Keras's `_layers` lists, inside the
// pending call, without running any Python code. In the order of named_modules(remove_duplicate=False): a module at several
// places has several entries.
struct ModuleTree {
  static constexpr uint32_t kMaxEntries = 16384;
  static constexpr uint32_t kTextBytes = 2 << 20;
  static constexpr uint32_t kMaxDepth = 64;
  struct Entry {
    PyObject* object;  // with a reference
    uint32_t name;     // offset in `text`
    uint32_t name_bytes;
    uint32_t type_name;
    uint32_t type_name_bytes;
    uint32_t number;
    uint32_t next;  // entry of the same object, plus 1
  };
  Entry entries[kMaxEntries];
  uint32_t count;
  uint32_t text_used;
  uint32_t first_of[kMaxPythonObjects + 1];  // by number: entry plus 1
  char text[kTextBytes];
};

// "torch.nn.modules.conv.Conv2d". Returns its size in bytes.
size_t ModuleTypeName(PyObject* object, char* text, size_t capacity);

// Modules beyond the limits are left out. Errors are cleared. `name`: the root's own, with which those below it begin.
void ReadModuleTree(PyObject* root, bool keras, ModuleTree* tree, const char* name = "");

// Numbers the objects, including those not called yet. Needs the lock.
void NumberModuleTree(PythonProcess* process, ModuleTree* tree);

// Whether it has a name, besides its type's. Needs the lock.
bool IsNamed(const PythonProcess& process, const PythonObject& object);

// Sets the texts of the modules that belong to this root; `of_stray`: of those below the tree's own root only where they have no
// name. Needs the lock.
void SetTexts(PythonProcess* process, const ModuleTree& tree, uint32_t root, bool of_stray = false);

// Drops the references.
void ReleaseModuleTree(ModuleTree* tree);

}  // namespace dlhook::inline python
