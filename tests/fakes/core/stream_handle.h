// Handles of libraries that only remember their stream: cuSPARSE, cuSOLVER.
#pragma once

#include "fake.h"

struct StreamHandle {
  void* stream = nullptr;
};

inline int CreateStreamHandle(void** handle) {
  *handle = fake::New<StreamHandle>();
  return 0;
}

inline int DestroyStreamHandle(void* handle) {
  fake::Delete(static_cast<StreamHandle*>(handle));
  return 0;
}

inline int SetStreamOfHandle(void* handle, void* stream) {
  static_cast<StreamHandle*>(handle)->stream = stream;
  return 0;
}
