// The functions of CPython's C API needed to read names, found by symbol: the shim is not linked with Python. All but
// the first four need the GIL.
#pragma once

#include <cstddef>

namespace dlhook::inline python {

struct PyObject;  // CPython's

struct PyMethodDef {
  const char* name;
  PyObject* (*function)(PyObject* self, PyObject* argument);
  int flags;  // 8: METH_O
  const char* documentation;
};

struct PythonApi {
  int (*AddPendingCall)(int (*function)(void*), void* argument);  // for the main thread
  // From 3.12 on, for the first available thread (flags 0); null before.
  int (*AddCallForAnyThread)(void* interpreter, int (*function)(void*), void* argument, int flags);
  int (*HasGil)();
  int (*EnsureGil)();
  void (*ReleaseGil)(int state);
  void (*ErrFetch)(PyObject** type, PyObject** value, PyObject** traceback);
  void (*ErrRestore)(PyObject* type, PyObject* value, PyObject* traceback);
  void (*ErrClear)();
  int (*GcDisable)();  // null before 3.10
  int (*GcEnable)();
  void (*IncRef)(PyObject*);
  void (*DecRef)(PyObject*);
  PyObject* (*GenericGetAttr)(PyObject* object, PyObject* name);
  PyObject* (*GetAttrString)(PyObject* object, const char* name);
  PyObject* (*InternString)(const char* text);
  int (*TypeIsSubtype)(const void* type, const void* base);
  int (*DictNext)(PyObject* dict, size_t* position, PyObject** key, PyObject** value);
  PyObject* (*ListGetItem)(PyObject* list, ptrdiff_t index);  // borrowed
  ptrdiff_t (*ListSize)(PyObject* list);
  PyObject* (*NewWeakRef)(PyObject* object, PyObject* callback);
  PyObject* (*NewFunction)(PyMethodDef* method, PyObject* self, PyObject* module);
  PyObject* (*LongFromUnsigned)(unsigned long long);
  unsigned long long (*LongAsUnsigned)(PyObject*);
  void* (*FirstThread)(void* interpreter);
  void* (*NextThread)(void* thread);
  PyObject* none;
  const void* dict_type;
  const void* list_type;
  const void* text_type;
};

// False if one of them is missing.
bool LoadPythonApi(PythonApi* api);

}  // namespace dlhook::inline python
