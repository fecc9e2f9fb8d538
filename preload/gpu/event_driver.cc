// See event_driver.h.
#include "preload/gpu/event_driver.h"

#include <dlfcn.h>
#include <errno.h>

#include "preload/link/dlsym.h"
#include "preload/link/resolver.h"

namespace dlhook::inline gpu {
namespace {

constexpr int kRelaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED

template <typename Function>
bool Find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(RealDlsym(library, name));
  return *function != nullptr;
}

}  // namespace

bool EventDriver::Load() {
  int saved_errno = errno;
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  bool complete = false;
  if (library != nullptr) {
    Find(library, "cuStreamGetCtx", &stream_context);
    Find(library, "cuThreadExchangeStreamCaptureMode", &exchange_capture_mode);
    complete = Find(library, "cuEventCreate", &event_create) && Find(library, "cuEventDestroy_v2", &event_destroy) &&
               Find(library, "cuEventRecord", &event_record) && Find(library, "cuEventQuery", &event_query) &&
               Find(library, "cuEventElapsedTime", &event_elapsed) && Find(library, "cuStreamCreate", &stream_create) &&
               Find(library, "cuStreamDestroy_v2", &stream_destroy) &&
               Find(library, "cuStreamIsCapturing", &stream_is_capturing) &&
               Find(library, "cuCtxGetCurrent", &context_current) &&
               Find(library, "cuCtxPushCurrent_v2", &context_push) &&
               Find(library, "cuCtxPopCurrent_v2", &context_pop) && Find(library, "cuCtxGetDevice", &context_device);
    // Kept open: pairs are queried on our thread, even after the program has closed it.
    if (!complete) RealDlclose(library);
  }
  errno = saved_errno;
  return complete;
}

CaptureTolerant::CaptureTolerant(const EventDriver& driver) : driver_(driver), mode_(kRelaxed) {
  exchanged_ = driver.exchange_capture_mode != nullptr && driver.exchange_capture_mode(&mode_) == kDriverSuccess;
}

CaptureTolerant::~CaptureTolerant() {
  if (exchanged_) driver_.exchange_capture_mode(&mode_);
}

}  // namespace dlhook::inline gpu
