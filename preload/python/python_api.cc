#include "preload/python/python_api.h"

#include "preload/python/python_runtime.h"

namespace dlhook::inline python {
namespace {

template <typename Pointer>
bool Take(const char* name, Pointer* pointer) {
  *pointer = reinterpret_cast<Pointer>(PythonSymbol(name));
  return *pointer != nullptr;
}

}  // namespace

bool LoadPythonApi(PythonApi* api) {
  if (Take("PyGC_Disable", &api->GcDisable) && !Take("PyGC_Enable", &api->GcEnable)) return false;
  if (g_python.layout.minor >= 12) Take("_PyEval_AddPendingCall", &api->AddCallForAnyThread);
  return Take("Py_AddPendingCall", &api->AddPendingCall) && Take("PyGILState_Check", &api->HasGil) &&
         Take("PyGILState_Ensure", &api->EnsureGil) && Take("PyGILState_Release", &api->ReleaseGil) &&
         Take("PyErr_Fetch", &api->ErrFetch) && Take("PyErr_Restore", &api->ErrRestore) &&
         Take("PyErr_Clear", &api->ErrClear) && Take("Py_IncRef", &api->IncRef) && Take("Py_DecRef", &api->DecRef) &&
         Take("PyObject_GenericGetAttr", &api->GenericGetAttr) && Take("PyObject_GetAttrString", &api->GetAttrString) &&
         Take("PyUnicode_InternFromString", &api->InternString) && Take("PyType_IsSubtype", &api->TypeIsSubtype) &&
         Take("PyDict_Next", &api->DictNext) && Take("PyList_GetItem", &api->ListGetItem) &&
         Take("PyList_Size", &api->ListSize) && Take("PyWeakref_NewRef", &api->NewWeakRef) &&
         Take("PyCFunction_NewEx", &api->NewFunction) && Take("PyLong_FromUnsignedLongLong", &api->LongFromUnsigned) &&
         Take("PyLong_AsUnsignedLongLong", &api->LongAsUnsigned) &&
         Take("PyInterpreterState_ThreadHead", &api->FirstThread) && Take("PyThreadState_Next", &api->NextThread) &&
         Take("_Py_NoneStruct", &api->none) && Take("PyDict_Type", &api->dict_type) &&
         Take("PyList_Type", &api->list_type) && Take("PyUnicode_Type", &api->text_type);
}

}  // namespace dlhook::inline python
