// The functions of CPython's C API that dlhook calls, found by symbol: the shim is not linked with Python. All but
// the first four need the GIL.
#pragma once

#include <cstddef>

#include "preload/base/function_table.h"

namespace dlhook::inline python {

struct PyObject;  // CPython's

struct PyMethodDef {
  const char* name;
  PyObject* (*function)(PyObject* self, PyObject* argument);
  int flags;  // 8: METH_O
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
  PyObject* (*NewTuple)(ptrdiff_t) = Need("PyTuple_New");
  // Takes the reference.
  int (*TupleSetItem)(PyObject* tuple, ptrdiff_t index, PyObject* item) = Need("PyTuple_SetItem");
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

}  // namespace dlhook::inline python
