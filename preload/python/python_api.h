// The functions of CPython's C API that dlhook calls, found by symbol: the shim is not linked with Python. All but
// the first four need the GIL.
#pragma once

#include "preload/base/function_table.h"
#include "preload/python/python_layout.h"

namespace dlhook::inline python {

struct PyObject;  // CPython's

struct PyMethodDef {
  enum Flags : int { kNoArguments = 4, kOneArgument = 8, kWithKeywords = 3 };
  const char* name;
  union {
    PyObject* (*function)(PyObject* self, PyObject* argument);
    PyObject* (*with_keywords)(PyObject* self, PyObject* arguments, PyObject* keywords);
  };
  Flags flags;
  const char* documentation;
};

struct PythonApi : FunctionTable {
  using FunctionTable::FunctionTable;

  int (*AddPendingCall)(int (*function)(void*), void* argument) = Need("Py_AddPendingCall");  // for the main thread
  // From 3.12 on, for the first available thread (flags 0); null before.
  int (*AddCallForAnyThread)(void* interpreter, int (*function)(void*), void* argument,
                             int flags) = Find("_PyEval_AddPendingCall");
  int (*HasGil)() = Need("PyGILState_Check");
  int (*EnsureGil)() = Need("PyGILState_Ensure");
  void (*ReleaseGil)(int state) = Need("PyGILState_Release");
  void (*ErrFetch)(PyObject** type, PyObject** value, PyObject** traceback) = Need("PyErr_Fetch");
  void (*ErrRestore)(PyObject* type, PyObject* value, PyObject* traceback) = Need("PyErr_Restore");
  void (*ErrClear)() = Need("PyErr_Clear");
  int (*GcDisable)() = Find("PyGC_Disable");  // null before 3.10
  int (*GcEnable)() = Find("PyGC_Enable");
  void (*IncRef)(PyObject*) = Need("Py_IncRef");
  void (*DecRef)(PyObject*) = Need("Py_DecRef");
  PyObject* (*GenericGetAttr)(PyObject* object, PyObject* name) = Need("PyObject_GenericGetAttr");
  PyObject* (*GetAttrString)(PyObject* object, const char* name) = Need("PyObject_GetAttrString");
  PyObject* (*InternString)(const char* text) = Need("PyUnicode_InternFromString");
  int (*TypeIsSubtype)(const void* type, const void* base) = Need("PyType_IsSubtype");
  int (*DictNext)(PyObject* dict, size_t* position, PyObject** key, PyObject** value) = Need("PyDict_Next");
  PyObject* (*ListGetItem)(PyObject* list, ptrdiff_t index) = Need("PyList_GetItem");  // borrowed
  ptrdiff_t (*ListSize)(PyObject* list) = Need("PyList_Size");
  PyObject* (*NewWeakRef)(PyObject* object, PyObject* callback) = Need("PyWeakref_NewRef");
  PyObject* (*NewFunction)(PyMethodDef* method, PyObject* self, PyObject* module) = Need("PyCFunction_NewEx");
  PyObject* (*LongFromUnsigned)(unsigned long long) = Need("PyLong_FromUnsignedLongLong");
  unsigned long long (*LongAsUnsigned)(PyObject*) = Need("PyLong_AsUnsignedLongLong");
  void* (*FirstThread)(void* interpreter) = Need("PyInterpreterState_ThreadHead");
  void* (*NextThread)(void* thread) = Need("PyThreadState_Next");
  PyObject* none = Need("_Py_NoneStruct");
  const void* dict_type = Need("PyDict_Type");
  const void* list_type = Need("PyList_Type");
  const void* text_type = Need("PyUnicode_Type");
  PyObject* (*ImportModule)(const char* name) = Need("PyImport_ImportModule");
  PyObject* (*CallFunction)(PyObject* function, ...) = Need("PyObject_CallFunctionObjArgs");  // a null ends the list
  PyObject* (*ModuleDict)() = Need("PyImport_GetModuleDict");                                 // borrowed
  PyObject* (*DictGetItem)(PyObject* dict, const char* key) = Need("PyDict_GetItemString");   // borrowed
  PyObject* (*NewDict)() = Need("PyDict_New");
  int (*DictSetItem)(PyObject* dict, const char* key, PyObject* value) = Need("PyDict_SetItemString");
  PyObject* (*Builtins)() = Need("PyEval_GetBuiltins");  // borrowed
  PyObject* (*Compile)(const char* text, const char* file, int start) = Need("Py_CompileString");
  PyObject* (*Evaluate)(PyObject* code, PyObject* globals, PyObject* locals) = Need("PyEval_EvalCode");
  PyObject* (*DictValues)(PyObject* dict) = Need("PyDict_Values");
  PyObject* (*Append)(PyObject* list, PyObject* items) = Need("PySequence_InPlaceConcat");  // the list
  int (*SetAttr)(PyObject* object, const char* name, PyObject* value) = Need("PyObject_SetAttrString");
  PyObject* (*Call)(PyObject* function, PyObject* arguments, PyObject* keywords) = Need("PyObject_Call");
  PyObject* (*TupleGetItem)(PyObject* tuple, ptrdiff_t index) = Need("PyTuple_GetItem");  // borrowed
  PyObject* (*LongFromLong)(long) = Need("PyLong_FromLong");
  PyObject* (*BoolFromLong)(long) = Need("PyBool_FromLong");
  long long (*AsLongLong)(PyObject*) = Need("PyLong_AsLongLong");
  const char* (*TextAsUtf8)(PyObject*) = Need("PyUnicode_AsUTF8");
  int (*BytesAsString)(PyObject* bytes, char** data, ptrdiff_t* size) = Need("PyBytes_AsStringAndSize");
  void* (*SaveThread)() = Need("PyEval_SaveThread");
  void (*RestoreThread)(void*) = Need("PyEval_RestoreThread");
};

// Set before g_python_state is PythonState::kOn.
extern PythonApi g_python_api;

// A reference of dlhook's, or null after a failure, whose exception is then cleared. It and all below: with the GIL.
class Ref {
 public:
  explicit Ref(PyObject* object) : object_(object) {
    if (object == nullptr) g_python_api.ErrClear();
  }
  Ref(Ref&& other) : object_(other.Release()) {}
  ~Ref() {
    if (object_ != nullptr) g_python_api.DecRef(object_);
  }
  Ref& operator=(const Ref&) = delete;
  PyObject* get() const { return object_; }
  PyObject* Release() {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const { return object_ != nullptr; }
  bool IsNone() const { return object_ == g_python_api.none; }

 private:
  PyObject* object_;
};

// Is the object, which may be null, of this type?
inline bool IsA(const void* object, const void* type) {
  return object != nullptr && g_python_api.TypeIsSubtype(ReadAt<const void*>(object, kPyTypeOffset), type) != 0;
}

// A result of dlhook's functions.
inline PyObject* NewNone() {
  g_python_api.IncRef(g_python_api.none);
  return g_python_api.none;
}

inline PyObject* ImportedModule(const char* name) {  // borrowed; null: it was not imported
  return g_python_api.DictGetItem(g_python_api.ModuleDict(), name);
}

// Null if there is none, or no object.
inline Ref Attribute(PyObject* object, const char* name) {
  return Ref(object == nullptr ? nullptr : g_python_api.GetAttrString(object, name));
}
inline Ref AttributeOfModule(const char* module, const char* name) { return Attribute(ImportedModule(module), name); }

// function(arguments…), each a Ref; null if one of them or the function is.
template <typename... Refs>
Ref CallPython(const Ref& function, const Refs&... arguments) {
  bool has_all = (static_cast<bool>(function) && ... && static_cast<bool>(arguments));
  PyObject* const end = nullptr;
  return Ref(has_all ? g_python_api.CallFunction(function.get(), arguments.get()..., end) : nullptr);
}

inline Ref NewFunction(PyMethodDef* method, PyObject* self = nullptr) {
  return Ref(g_python_api.NewFunction(method, self, nullptr));
}

// No garbage is collected, and so no finalizer of the program's runs, while dlhook makes objects.
class NoCollection {
 public:
  NoCollection() : was_enabled_(g_python_api.GcDisable != nullptr ? g_python_api.GcDisable() : 0) {}
  ~NoCollection() {
    if (was_enabled_ != 0) g_python_api.GcEnable();
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  int was_enabled_;
};

}  // namespace dlhook::inline python
