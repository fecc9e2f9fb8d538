// The modules below a root, with their names: from torch's `_modules` dictionaries or Keras's `_layers` lists.
// Thread: Python's main thread with the GIL, inside the pending call (python_names.cc). Runs no Python code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/python/python_api.h"
#include "preload/python/python_process.h"

namespace dlhook::inline python {

// In the order of named_modules(remove_duplicate=False): a module at several places has several entries.
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
size_t ModuleTypeName(const PythonApi& api, PyObject* object, char* text, size_t capacity);

// Modules beyond the limits are left out. Errors are cleared.
void ReadModuleTree(const PythonApi& api, PyObject* root, bool keras, ModuleTree* tree);

// Numbers the objects, including those not called yet. Needs the lock.
void NumberModuleTree(PythonProcess* process, ModuleTree* tree);

// Sets the texts of the modules that belong to this root. Needs the lock.
void SetTexts(PythonProcess* process, const ModuleTree& tree, uint32_t root);

// Drops the references.
void ReleaseModuleTree(const PythonApi& api, ModuleTree* tree);

}  // namespace dlhook::inline python
