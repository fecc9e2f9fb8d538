// cudnnBackend{CreateDescriptor,GetAttribute,DestroyDescriptor}: one plan, for the tracker's queries.
#include <cstring>

#include "tests/preload/fake_getters.h"

using namespace dlhook;

namespace {

FakeBackend g_backend;

struct Descriptor {
  bool in_use;
  int type;
  int filled;  // the knob it was filled with, -1: not filled
};
Descriptor g_descriptors[128];  // no heap: a test measures memory

int Give(const void* values, int64_t count, size_t bytes, int64_t requested, int64_t* returned, void* elements) {
  *returned = count;
  memcpy(elements, values, static_cast<size_t>(count < requested ? count : requested) * bytes);
  return 0;
}

// Fills the caller's descriptors with the plan's contents.
int Fill(int type, int64_t count, int64_t requested, int64_t* returned, void* elements) {
  for (int64_t i = 0; i < count && i < requested; ++i) {
    Descriptor* descriptor = static_cast<Descriptor**>(elements)[i];
    if (descriptor->type != type) return 3;
    descriptor->filled = static_cast<int>(i);
  }
  *returned = count;
  return 0;
}

}  // namespace

extern "C" {

FakeBackend* FakeBackendAnswers() { return &g_backend; }

int cudnnBackendCreateDescriptor(int type, void** descriptor) {
  for (Descriptor& free : g_descriptors) {
    if (free.in_use) continue;
    free = {true, type, -1};
    ++g_backend.live;
    *descriptor = &free;
    return 0;
  }
  return 2;
}

int cudnnBackendDestroyDescriptor(void* descriptor) {
  --g_backend.live;
  static_cast<Descriptor*>(descriptor)->in_use = false;
  return 0;
}

int cudnnBackendGetAttribute(const void* descriptor, int name, int type, int64_t requested, int64_t* returned,
                             void* elements) {
  if (name == g_backend.refused_name) return 3;
  // Plans are the tests' own addresses; only descriptors created here are read.
  const int filled = name == 600 || name == 601 ? static_cast<const Descriptor*>(descriptor)->filled : 0;
  if (filled < 0) return 3;
  switch (name) {
    case 401:
      return type == 15 ? Fill(3, 1, requested, returned, elements) : 3;
    case 300:
      return type == 15 ? Fill(2, 1, requested, returned, elements) : 3;
    case 302:
      return type == 15 ? Fill(7, g_backend.knobs, requested, returned, elements) : 3;
    case 402:
      return type == 3 ? Give(&g_backend.workspace_bytes, 1, 8, requested, returned, elements) : 3;
    case 600:
      return type == 9 ? Give(&g_backend.knob_types[filled], 1, 4, requested, returned, elements) : 3;
    case 601:
      return type == 3 ? Give(&g_backend.knob_values[filled], 1, 8, requested, returned, elements) : 3;
    case 1301:
      return type == 3 ? Give(&g_backend.engine, 1, 8, requested, returned, elements) : 3;
    case 1303:
      return type == 11 ? Give(g_backend.numerical_notes, g_backend.notes, 4, requested, returned, elements) : 3;
    case 1305:
      return type == 19 ? Give(g_backend.behavior_notes, g_backend.notes, 4, requested, returned, elements) : 3;
    default:
      return 3;
  }
}
}
