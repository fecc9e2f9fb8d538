// Common to all exported functions of the fake libcupti: a line in the log, failures requested by the scenario, an
// error without a driver.
#pragma once

#include "cupti.h"

namespace cupti {

class Entry {
 public:
  explicit Entry(const char* function) : call_("cupti", function) {}

  Entry& Number(const char* name, int64_t value) {
    if (call_.logged()) call_.Number(name, value);
    return *this;
  }
  Entry& Pointer(const char* name, const void* value) {
    if (call_.logged()) call_.Pointer(name, value);
    return *this;
  }
  template <class Body>
  int Answer(const Body& body) {
    int status = call_.failure();
    constexpr int kWithoutDriver = FAKE_CUDA_VERSION >= 13000 ? kUnknown : kNotInitialized;
    if (status == kSuccess) status = Usable() ? body() : kWithoutDriver;
    call_.Status(status);
    return status;
  }

 private:
  fake::Call call_;
};

}  // namespace cupti
