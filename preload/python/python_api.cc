#include "preload/python/python_api.h"

#include "preload/python/python_runtime.h"

namespace dlhook::inline python {
bool LoadPythonApi(PythonApi* api) {
  if (TakePythonSymbol("PyGC_Disable", &api->GcDisable) && !TakePythonSymbol("PyGC_Enable", &api->GcEnable))
    return false;
  if (g_python.layout.minor >= 12) TakePythonSymbol("_PyEval_AddPendingCall", &api->AddCallForAnyThread);
  return TakePythonSymbol("Py_AddPendingCall", &api->AddPendingCall) &&
         TakePythonSymbol("PyGILState_Check", &api->HasGil) && TakePythonSymbol("PyGILState_Ensure", &api->EnsureGil) &&
         TakePythonSymbol("PyGILState_Release", &api->ReleaseGil) && TakePythonSymbol("PyErr_Fetch", &api->ErrFetch) &&
         TakePythonSymbol("PyErr_Restore", &api->ErrRestore) && TakePythonSymbol("PyErr_Clear", &api->ErrClear) &&
         TakePythonSymbol("Py_IncRef", &api->IncRef) && TakePythonSymbol("Py_DecRef", &api->DecRef) &&
         TakePythonSymbol("PyObject_GenericGetAttr", &api->GenericGetAttr) &&
         TakePythonSymbol("PyObject_GetAttrString", &api->GetAttrString) &&
         TakePythonSymbol("PyUnicode_InternFromString", &api->InternString) &&
         TakePythonSymbol("PyType_IsSubtype", &api->TypeIsSubtype) && TakePythonSymbol("PyDict_Next", &api->DictNext) &&
         TakePythonSymbol("PyList_GetItem", &api->ListGetItem) && TakePythonSymbol("PyList_Size", &api->ListSize) &&
         TakePythonSymbol("PyWeakref_NewRef", &api->NewWeakRef) &&
         TakePythonSymbol("PyCFunction_NewEx", &api->NewFunction) &&
         TakePythonSymbol("PyLong_FromUnsignedLongLong", &api->LongFromUnsigned) &&
         TakePythonSymbol("PyLong_AsUnsignedLongLong", &api->LongAsUnsigned) &&
         TakePythonSymbol("PyInterpreterState_ThreadHead", &api->FirstThread) &&
         TakePythonSymbol("PyThreadState_Next", &api->NextThread) && TakePythonSymbol("_Py_NoneStruct", &api->none) &&
         TakePythonSymbol("PyDict_Type", &api->dict_type) && TakePythonSymbol("PyList_Type", &api->list_type) &&
         TakePythonSymbol("PyUnicode_Type", &api->text_type);
}

}  // namespace dlhook::inline python
