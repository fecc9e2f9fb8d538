// The CUDA driver's getters, in a library without those of the runtime.
#include <cstring>

#include "tests/preload/fake_getters.h"

using namespace dlhook;

namespace {
FakeAnswers g_answers;
}  // namespace

extern "C" {

FakeAnswers* FakeDriverAnswers() { return &g_answers; }
void FakeDriverFunction() {}

int cuPointerGetAttribute(void* data, int attribute, uint64_t address) {
  ++g_answers.calls;
  g_answers.asked_address = address;
  if (g_answers.pointer_status != 0) return g_answers.pointer_status;
  if (attribute != 2 && attribute != 8) return 801;  // CUDA_ERROR_NOT_SUPPORTED
  memcpy(data, attribute == 2 ? &g_answers.pointer_type : &g_answers.is_managed, 4);
  return 0;
}

int cuStreamIsCapturing(const void* stream, int* status) {
  ++g_answers.calls;
  g_answers.asked_stream = stream;
  *status = g_answers.capture_status;
  return g_answers.status;
}

int cuFuncGetName(const char** name, const void*) {
  ++g_answers.calls;
  if (g_answers.status != 0) return g_answers.status;
  *name = g_answers.function_name;
  return 0;
}
}
