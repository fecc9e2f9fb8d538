#include "preload/tap/jax_python.h"

#include "preload/python/python_runtime.h"

namespace dlhook::inline tap {

PythonApi g_python_api;
JaxApi g_jax_api;

bool LoadJaxApi() {
  JaxApi& api = g_jax_api;
  return LoadPythonApi(&g_python_api) && TakePythonSymbol("PyImport_GetModuleDict", &api.GetModuleDict) &&
         TakePythonSymbol("PyDict_GetItemString", &api.DictGetItem) &&
         TakePythonSymbol("PyDict_Values", &api.DictValues) &&
         TakePythonSymbol("PySequence_InPlaceConcat", &api.Append) &&
         TakePythonSymbol("PyLong_AsLongLong", &api.AsLongLong) &&
         TakePythonSymbol("PyObject_SetAttrString", &api.SetAttr) && TakePythonSymbol("PyObject_Call", &api.Call) &&
         TakePythonSymbol("PyTuple_New", &api.NewTuple) && TakePythonSymbol("PyTuple_SetItem", &api.TupleSetItem) &&
         TakePythonSymbol("PyTuple_GetItem", &api.TupleGetItem) &&
         TakePythonSymbol("PyLong_FromLong", &api.LongFromLong) &&
         TakePythonSymbol("PyBool_FromLong", &api.BoolFromLong) &&
         TakePythonSymbol("PyUnicode_AsUTF8", &api.TextAsUtf8) &&
         TakePythonSymbol("PyBytes_AsStringAndSize", &api.BytesAsString) &&
         TakePythonSymbol("PyEval_SaveThread", &api.SaveThread) &&
         TakePythonSymbol("PyEval_RestoreThread", &api.RestoreThread);
}

PyObject* Module(const char* name) { return g_jax_api.DictGetItem(g_jax_api.GetModuleDict(), name); }

PyObject* Attribute(const Ref& object, const char* name) {
  return object ? g_python_api.GetAttrString(object.get(), name) : nullptr;
}

PyObject* AttributeOfModule(const char* module, const char* name) {
  PyObject* found = Module(module);
  return found == nullptr ? nullptr : g_python_api.GetAttrString(found, name);
}

PyObject* CallWithout(const Ref& function) {
  Ref nothing(g_jax_api.NewTuple(0));
  return function && nothing ? g_jax_api.Call(function.get(), nothing.get(), nullptr) : nullptr;
}

void SetAttribute(PyObject* object, const char* name, PyObject* value) {
  if (value == nullptr || g_jax_api.SetAttr(object, name, value) != 0) g_python_api.ErrClear();
}

void SetOption(const Ref& options, const char* name, PyObject* value) {
  Ref reference(value);
  SetAttribute(options.get(), name, reference.get());
}

PyMethodDef WithKeywordsDefinition(const char* name, WithKeywords function) {
  constexpr int kVarArgsKeywords = 3;
  return {name, reinterpret_cast<PyObject* (*)(PyObject*, PyObject*)>(reinterpret_cast<void*>(function)),
          kVarArgsKeywords, nullptr};
}

bool BytesOf(PyObject* object, char** data, size_t* size) {
  ptrdiff_t length = 0;
  if (object == nullptr || g_jax_api.BytesAsString(object, data, &length) != 0) {
    g_python_api.ErrClear();
    return false;
  }
  *size = static_cast<size_t>(length);
  return true;
}

}  // namespace dlhook::inline tap
