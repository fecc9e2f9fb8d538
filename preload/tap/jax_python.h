// The functions of CPython's C API that the JAX tap needs besides those of preload/python/python_api.h, and references.
// Thread: any with the GIL.
#pragma once

#include <cstddef>

#include "preload/python/python_api.h"

namespace dlhook::inline tap {

struct JaxApi {
  PyObject* (*GetModuleDict)();                                // borrowed
  PyObject* (*DictGetItem)(PyObject* dict, const char* name);  // borrowed
  PyObject* (*DictValues)(PyObject* dict);
  PyObject* (*Append)(PyObject* list, PyObject* items);  // the list
  int (*SetAttr)(PyObject* object, const char* name, PyObject* value);
  PyObject* (*Call)(PyObject* function, PyObject* arguments, PyObject* keywords);
  PyObject* (*NewTuple)(ptrdiff_t);
  int (*TupleSetItem)(PyObject* tuple, ptrdiff_t index, PyObject* item);  // takes the reference
  PyObject* (*TupleGetItem)(PyObject* tuple, ptrdiff_t index);            // borrowed
  PyObject* (*LongFromLong)(long);
  PyObject* (*BoolFromLong)(long);
  long long (*AsLongLong)(PyObject*);
  const char* (*TextAsUtf8)(PyObject*);
  int (*BytesAsString)(PyObject* bytes, char** data, ptrdiff_t* size);
  void* (*SaveThread)();
  void (*RestoreThread)(void*);
};
extern PythonApi g_python_api;
extern JaxApi g_jax_api;

// False: one of the functions is missing.
bool LoadJaxApi();

// A reference of dlhook's, or null after a failure, whose exception is then cleared.
class Ref {
 public:
  explicit Ref(PyObject* object) : object_(object) {
    if (object == nullptr) g_python_api.ErrClear();
  }
  ~Ref() {
    if (object_ != nullptr) g_python_api.DecRef(object_);
  }
  Ref(const Ref&) = delete;
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

PyObject* Module(const char* name);  // borrowed; null: it was not imported
PyObject* Attribute(const Ref& object, const char* name);
PyObject* AttributeOfModule(const char* module, const char* name);
PyObject* CallWithout(const Ref& function);  // arguments
void SetAttribute(PyObject* object, const char* name, PyObject* value);
void SetOption(const Ref& options, const char* name, PyObject* value);  // takes the reference to the value
// Of a function that is called with arguments and keywords.
using WithKeywords = PyObject* (*)(PyObject*, PyObject*, PyObject*);
PyMethodDef WithKeywordsDefinition(const char* name, WithKeywords function);
// The bytes of a bytes object; false: it is none.
bool BytesOf(PyObject* object, char** data, size_t* size);

// No garbage is collected, and so no finalizer of the program's runs, while dlhook's thread makes objects.
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

}  // namespace dlhook::inline tap
